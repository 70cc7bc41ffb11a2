"""Each broken workspace is reported with its code, file and line, and with nothing else."""

import pytest

from app.workspace.codes import CODES
from app.workspace.compiled import Compiled
from tests.workspace.broken.case import A, Case, M, T
from tests.workspace.broken.cycles import CYCLES
from tests.workspace.broken.files import ENVELOPE, YAML
from tests.workspace.broken.kinds import KINDS
from tests.workspace.broken.meaning import MARKDOWN, MEANING, SECRETS
from tests.workspace.broken.phases import PHASES
from tests.workspace.broken.references import REFERENCES
from tests.workspace.broken.workflows import GRAPHS, TYPES
from tests.workspace.building import MODEL, TOOL, build, document, findings

CASES = [*YAML, *ENVELOPE, *REFERENCES, *KINDS, *MEANING, *SECRETS, *MARKDOWN, *CYCLES, *GRAPHS, *TYPES, *PHASES]


@pytest.mark.requirement("SH-1", "S13", "OS-L5", "OS-I4")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_broken_workspace_is_reported_with_code_file_and_line(case: Case) -> None:
    result = build(case.changes, profile=case.profile)
    assert findings(result) == [(case.code, case.file, case.line)]
    assert isinstance(result, Compiled) == case.warning


@pytest.mark.requirement("SH-5")
@pytest.mark.parametrize("case", [*GRAPHS, *TYPES, *PHASES], ids=lambda case: case.name.replace(" ", "-"))
def test_broken_workflow_says_how_to_correct_it(case: Case) -> None:
    result = build(case.changes)
    assert not isinstance(result, Compiled)
    found = next(iter(result))
    assert (found.hint or CODES[found.code].remedy) in result.as_text()


def test_there_are_enough_broken_workspaces() -> None:
    assert len([*GRAPHS, *TYPES]) >= 40
    assert len(CASES) >= 60


def test_codes_that_no_broken_workspace_shows_are_proved_elsewhere() -> None:
    elsewhere = {
        "FILE_TOO_LARGE",
        "FILE_UNREADABLE",
        "FILE_NAME",
        "SYMLINK_LEAVES",
        "SYMLINK_FOLDER",
        "TOO_MANY_FILES",
        "SKILL_BROKEN",
        "KIND_BROKEN",
        "SCHEMA_TOO_COMPLEX",
    }
    assert set(CODES) - {case.code for case in CASES} == elsewhere


def test_all_mistakes_are_reported_at_once_in_the_order_of_files_and_lines() -> None:
    result = build(
        {
            A: document("Agent", "a", "model: mian\ntools: [ecko]"),
            T: TOOL.replace("builtin", "bultin"),
            M: MODEL,
        }
    )
    assert findings(result) == [
        ("MODEL_UNKNOWN", A, 6),
        ("TOOL_UNKNOWN", A, 7),
        ("NAME_DUPLICATE", "models/main.yaml", 4),
        ("NAME_DUPLICATE", T, 4),
    ]


def test_a_reference_to_a_document_with_mistakes_is_not_reported_again() -> None:
    result = build({"tools/echo.yaml": TOOL + "  colour: red\n"})
    assert findings(result) == [("FIELD_UNKNOWN", "tools/echo.yaml", 7)]

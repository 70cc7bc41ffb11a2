"""The manual's examples compile as one workspace, and its table of codes is complete."""

import re
from pathlib import Path

import pytest

from app.wiring.kinds import kind_catalog
from app.workspace.codes import CODES
from app.workspace.compile import compile
from app.workspace.compiled import Compiled
from app.workspace.files import WorkspaceFiles
from app.workspace.served import UNSERVED
from app.workspace.specs import KINDS

MANUAL = (Path(__file__).parents[2] / "docs" / "workspace.md").read_text()
EXAMPLES = re.findall(r"```yaml\n(.*?)```", MANUAL, re.DOTALL)
SKILL = re.findall(r"```markdown\n(.*?)```", MANUAL, re.DOTALL)


@pytest.mark.parametrize("profile", [None, "offline"])
def test_examples_of_the_manual_compile_together(profile: str | None) -> None:
    contents = {f"{number}.yaml": text.encode() for number, text in enumerate(EXAMPLES)}
    contents |= {"skills/refund/SKILL.md": SKILL[0].encode(), "agents/clerk.md": b"Be brief.\n"}
    contents |= {"orders.py": b"def cancel(id: int, amount: float, report: str = 'r.md', ctx=None): ...\n"}
    result = compile(WorkspaceFiles.from_contents(contents), kind_catalog(), profile=profile)
    assert isinstance(result, Compiled), result.as_text()
    assert result.diagnostics.as_text() == ""


def test_every_kind_that_is_served_has_an_example() -> None:
    shown = {kind for kind in KINDS if any(f"kind: {kind}\n" in text for text in EXAMPLES)}
    assert shown == set(KINDS) - set(UNSERVED.kinds)


def test_the_manual_names_all_that_is_not_served() -> None:
    section = MANUAL.partition("## Not served yet")[2].partition("## Diagnostics")[0]
    fields = {str(part.path[0]) for parts in UNSERVED.fields.values() for part in parts if part.values is None}
    values = {value for parts in UNSERVED.fields.values() for part in parts for value in part.values or ()}
    for name in {*UNSERVED.kinds, *fields, *values}:
        assert f"`{name}`" in section


def test_every_code_is_in_the_manual_with_its_meaning_and_remedy() -> None:
    for code, text in CODES.items():
        assert f"| `{code}` | {text.meaning} | {text.remedy} |" in MANUAL

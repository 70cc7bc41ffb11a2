"""The list of requirements and the tool that joins it with the tests."""

import re
from pathlib import Path

import pytest

from app.core import json
from scripts import requirements

SOURCE = """
import pytest

pytestmark = [pytest.mark.smoke, pytest.mark.requirement("G1")]

@pytest.mark.requirement("G2", "S10")
async def test_one() -> None: ...

@pytest.mark.parametrize("case", [pytest.param(1, marks=pytest.mark.requirement("OS-I1"))])
def test_two(case: int) -> None: ...

class TestMany:
    @pytest.mark.requirement("HK-29")
    def test_three(self) -> None: ...
"""


def test_every_mark_in_the_tests_names_a_known_requirement() -> None:
    assert requirements.report().unknown == []


def test_list_holds_every_family_without_holes() -> None:
    listed = requirements.read_requirements(requirements.ROOT / "docs/requirements.yaml")
    families = {
        "CARD-": 4,
        "SH-": 26,
        "CM-": 10,
        "LC-": 6,
        "HK-": 37,
        "PX-": 11,
        "OS-I": 5,
        "OS-L": 8,
        "G": 22,
        "S": 25,
    }
    expected = {f"{family}{number}" for family, count in families.items() for number in range(1, count + 1)}
    assert set(listed) == expected | {"HK-M", "HK-L", "OS-F", "OS-W", "OS-A", "OS-E", "OS-M", "OS-R"}


def test_each_requirement_is_one_sentence() -> None:
    for id, requirement in requirements.read_requirements(requirements.ROOT / "docs/requirements.yaml").items():
        for sentence in filter(None, (requirement.sentence, requirement.missing)):
            assert sentence.endswith("."), id
            assert not re.search(r"[.!?] [A-Z]", sentence), id


def test_marks_are_found_on_functions_cases_classes_and_modules(tmp_path: Path) -> None:
    _project(tmp_path, SOURCE, "G1", "G2", "S10", "OS-I1", "HK-29", "HK-30")
    found = requirements.report(tmp_path)
    assert found.proofs == {
        "G1": ["tests/room/test_it.py"],
        "G2": ["tests/room/test_it.py::test_one"],
        "S10": ["tests/room/test_it.py::test_one"],
        "OS-I1": ["tests/room/test_it.py::test_two"],
        "HK-29": ["tests/room/test_it.py::TestMany::test_three"],
    }
    assert found.open == ["HK-30"]


def test_unknown_or_computed_id_fails_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _project(tmp_path, '@pytest.mark.requirement("G99", *IDS)\ndef test_it() -> None: ...\n', "G1")
    assert requirements.main([], root=tmp_path) == 1
    errors = capsys.readouterr().err
    assert "unknown requirement G99" in errors and "unknown requirement *IDS" in errors


def test_proven_partial_and_open_are_counted_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _project(tmp_path, '@pytest.mark.requirement("G1", "G2")\ndef test_it() -> None: ...\n', "G1", "G3")
    with (tmp_path / "docs/requirements.yaml").open("a") as more:
        more.write("G2:\n  says: A sentence.\n  missing: Half of it.\nG4:\n  says: Another.\n  missing: All of it.\n")
    assert requirements.main(["--json"], root=tmp_path) == 0
    test = ["tests/room/test_it.py::test_it"]
    assert json.loads(capsys.readouterr().out) == {
        "proven": ["G1"],
        "partial": ["G2"],
        "open": ["G3", "G4"],
        "tests": {"G1": test, "G2": test},
        "unknown": [],
    }
    assert requirements.main([], root=tmp_path) == 0
    printed = capsys.readouterr().out
    assert "missing: Half of it." in printed
    assert printed.endswith("partial: G2\nopen: G3 G4\n4 requirements: 1 proven, 1 partial, 2 open\n")


def test_id_that_stands_twice_in_the_list_is_refused(tmp_path: Path) -> None:
    _project(tmp_path, "", "G1", "G1")
    with pytest.raises(AssertionError, match="line 2: G1 stands twice"):
        requirements.report(tmp_path)


def _project(root: Path, source: str, *ids: str) -> None:
    (root / "docs").mkdir()
    (root / "docs/requirements.yaml").write_text("".join(f"{requirement}: A sentence.\n" for requirement in ids))
    (root / "tests/room").mkdir(parents=True)
    (root / "tests/room/test_it.py").write_text(source)

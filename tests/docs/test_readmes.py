"""The written pages: every room has its README, none is long, and links lead somewhere."""

import re
from pathlib import Path

import pytest

from scripts.generate import ROOT

PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("app/*/README.md")]
ROOMS = sorted(path.parent for path in ROOT.glob("app/*/__init__.py"))


def test_every_room_has_a_readme_of_at_most_forty_lines() -> None:
    lengths = {room.name: len((room / "README.md").read_text().splitlines()) for room in ROOMS if _described(room)}
    assert {room.name for room in ROOMS} - lengths.keys() <= {"workspace"}  # comes with the room itself
    assert {name: length for name, length in lengths.items() if length > 40} == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_to_files_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_decision_is_listed_and_has_its_three_parts() -> None:
    listed = (ROOT / "docs/adr/README.md").read_text()
    for page in ROOT.glob("docs/adr/[0-9]*.md"):
        assert f"({page.name})" in listed
        assert re.findall(r"^## (.+)$", page.read_text(), re.MULTILINE) == [
            "Context",
            "Decision",
            "Consequences",
        ]


def _described(room: Path) -> bool:
    return (room / "README.md").is_file()

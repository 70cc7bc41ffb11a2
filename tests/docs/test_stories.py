"""Every command, curl line and script of the pages works as written, and prints what the page says."""

import re
import shutil
from pathlib import Path

import pytest

from scripts.generate import ROOT
from tests.docs.blocks import blocks, run_page

RUN = ("README.md", "docs/getting-started.md", "docs/operations.md", "docs/memory.md")
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]

needs_curl = pytest.mark.skipif(
    not all(map(shutil.which, ("bash", "curl", "jq"))), reason="bash, curl and jq run the pages"
)


@needs_curl
@pytest.mark.requirement("CARD-4", "SH-23")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", RUN)
def test_what_a_page_shows_works_as_written(name: str, tmp_path: Path) -> None:
    assert run_page(ROOT / name, tmp_path) != []


@pytest.mark.slow
def test_recordings_show_the_program_as_it_is() -> None:
    from scripts.terminal import pictures

    stale = [name for name, content in pictures().items() if (ROOT / name).read_bytes() != content]
    assert stale == [], "run `make recordings`"


def test_the_tests_that_the_readme_names_exist() -> None:
    named = re.findall(r"`(tests/[a-z_/]+\.py)`", (ROOT / "README.md").read_text())
    assert len(named) > 10
    assert [name for name in named if "def test_" not in (ROOT / name).read_text()] == []


def test_the_readme_or_a_page_it_names_leads_to_every_page() -> None:
    linked = set(re.findall(r"\(docs/([a-z0-9-]+\.md)", (ROOT / "README.md").read_text()))
    assert {path.name for path in ROOT.glob("docs/*.md")} - linked == set()


@pytest.mark.requirement("OS-R")
def test_the_readme_shows_a_real_trace_and_a_denial() -> None:
    traces = [
        block.text.splitlines()
        for block in blocks(ROOT / "README.md")
        if block.kind == "text" and "APPROVAL_DENIED" in block.text
    ]
    assert len(traces) == 1 and len(traces[0]) >= 10
    assert not any("runtime.tool.invoked" in line for line in traces[0])


def test_pictures_fetch_nothing_from_elsewhere() -> None:
    found = {
        path.name: re.findall(r"(?:url\(|href=)[\"']?(https?:[^\"')]+)", path.read_text())
        for path in (ROOT / "docs" / "pictures").glob("*.svg")
    }
    assert found != {} and {name for name, urls in found.items() if urls} == set()


def test_a_block_that_is_not_run_says_why() -> None:
    unsaid = [
        f"{page.relative_to(ROOT)}:{block.line}"
        for page in PAGES
        for block in blocks(page)
        if block.kind == "sh" and page.relative_to(ROOT).as_posix() not in RUN and not block.skipped
    ]
    assert unsaid == []


def test_commands_that_pages_name_exist() -> None:
    from scripts.commands import commands

    known = {" ".join(path) for path, _ in commands()} | {path[0] for path, _ in commands()}
    named = {
        found
        for page in PAGES
        for found in re.findall(r"`holdfast ([a-z][a-z-]*(?: [a-z]+)?)", page.read_text())
        if page.name != "cli.md"
    }
    assert {words for words in named if words not in known and words.split()[0] not in known} == set()

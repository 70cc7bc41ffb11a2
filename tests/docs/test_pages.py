"""Every command of the guides runs as it stands there, against a real server."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.console import Step, fits, run_page, steps_of
from tests.forks import holdfast_command
from tests.server import ROOT, ServerProcess, clean_environment

ADDRESS = "http://127.0.0.1:8700"
"""Where the pages say that the server is."""
PAGES = [
    "docs/http.md",
    "docs/commands.md",
    "docs/ui-events.md",
    "docs/evidence.md",
    "docs/undo.md",
    "docs/mcp.md",
    "docs/agui.md",
    "docs/a2a.md",
    "docs/langgraph.md",
    "docs/jobs.md",
    "docs/sessions.md",
]


def _environment(folder: Path) -> dict[str, str]:
    """Of the shell that runs a page: `holdfast` is a command, and so is what the environment has installed."""
    programs = [str(holdfast_command(folder)), str(Path(sys.executable).parent), os.environ["PATH"]]
    return clean_environment() | {"PATH": os.pathsep.join(programs)}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    server = ServerProcess.start(tmp_path_factory.mktemp("docs"))
    try:
        yield server
    finally:
        server.stop()


@pytest.mark.requirement("CARD-4", "PX-5", "SH-22")
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_print_what_it_says(page: str, server: ServerProcess, tmp_path: Path) -> None:
    missing = [program for program in ("bash", "curl", "jq") if shutil.which(program) is None]
    if missing:
        pytest.skip(f"the pages use {', '.join(missing)}")
    steps = run_page(ROOT / page, {ADDRESS: server.url}, _environment(tmp_path), tmp_path)
    assert len(steps) >= 5


@pytest.mark.requirement("HK-17", "HK-18", "HK-20", "HK-21", "HK-22", "HK-23", "HK-33")
@pytest.mark.parametrize(
    ("page", "workspace", "least"),
    [
        ("docs/evaluations.md", "judged", 15),
        ("workspaces/guarded/README.md", "guarded", 13),
        ("docs/schedules.md", "release-notes", 8),
        ("docs/webhooks.md", "release-notes", 9),
    ],
)
def test_the_commands_of_a_page_with_its_own_workspace_print_what_it_says(
    tmp_path: Path, page: str, workspace: str, least: int
) -> None:
    missing = [program for program in ("bash", "curl", "jq") if shutil.which(program) is None]
    if missing:
        pytest.skip(f"the pages use {', '.join(missing)}")
    server = ServerProcess.start(tmp_path / "data", None, ROOT / "workspaces" / workspace)
    try:
        steps = run_page(ROOT / page, {ADDRESS: server.url}, _environment(tmp_path), tmp_path)
    finally:
        server.stop()
    assert len(steps) >= least


@pytest.mark.requirement("SH-5")
def test_the_commands_of_the_page_on_workflows_print_what_it_says(tmp_path: Path) -> None:
    missing = [program for program in ("bash", "curl", "jq") if shutil.which(program) is None]
    if missing:
        pytest.skip(f"the pages use {', '.join(missing)}")
    server = ServerProcess.start(tmp_path / "data", None, ROOT / "workspaces" / "release-notes")
    try:
        steps = run_page(ROOT / "docs/workflows.md", {ADDRESS: server.url}, _environment(tmp_path), tmp_path)
    finally:
        server.stop()
    assert len(steps) >= 8


def test_a_page_is_read_as_commands_with_what_they_print() -> None:
    page = "text\n```console\n$ one \\\n  two\nout\n...\n$ three\n```\n```sh\n$ not this\n```\n"
    assert steps_of(page) == [Step("one \\\n  two", "out\n..."), Step("three", "")]


def test_dots_stand_for_anything_and_silence_for_whatever_comes() -> None:
    assert fits("a\nb\nc", "a\n...\nc") and fits("anything", "") and fits('{"id": "x1"}', '{"id": "..."}')
    assert not fits("a\nb", "a")


def test_a_command_that_fails_or_prints_something_else_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    for block in ("$ echo yes\nno\n", "$ false\n"):
        page.write_text(f"```console\n{block}```\n")
        with pytest.raises(AssertionError, match=r"page\.md"):
            run_page(page, {}, {"PATH": os.environ["PATH"]}, tmp_path)

"""`holdfast workflows` with a server: list, show, graph, plan, and a run by name."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.core import json
from tests.cli.conftest import Holdfast
from tests.server import ROOT, ServerProcess

INPUT = '{"version": "1.0", "changes": "timers"}'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder: Path = tmp_path_factory.mktemp("flows")
    server = ServerProcess.start(folder / "data", workspace=ROOT / "workspaces" / "release-notes")
    yield server
    server.stop()


@pytest.fixture
def here(server: ServerProcess) -> list[str]:
    return ["--data-dir", str(server.data_dir)]


@pytest.mark.requirement("SH-5")
def test_workflows_are_listed_shown_drawn_and_planned(holdfast: Holdfast, here: list[str]) -> None:
    listed = json.loads(holdfast("workflows", "list", "--json", *here).stdout)
    assert [(one["name"], one["nodes"], one["available"]) for one in listed] == [
        ("layout", 1, True),
        ("release-notes", 6, True),
    ]
    assert "release-notes" in holdfast("workflows", "list", *here).stdout
    shown = holdfast("workflows", "show", "layout", *here).stdout.splitlines()
    assert shown == ["join: tools.join_lines", "START -> join", "join -> END"]
    drawn = holdfast("workflows", "graph", "layout", *here).stdout
    assert drawn.startswith("flowchart TD\n") and "tool join_lines" in drawn
    assert "<svg" in holdfast("workflows", "graph", "layout", "--format", "svg", *here).stdout
    assert json.loads(holdfast("workflows", "graph", "layout", "--json", *here).stdout)["nodes"][0]["id"] == "join"
    planned = holdfast("workflows", "plan", "layout", '{"heading": "Today", "lines": []}', *here)
    assert planned.exit_code == 0
    assert planned.stdout.splitlines() == ["The input is valid.", "join: tools.join_lines, after START"]
    refused = holdfast("workflows", "plan", "layout", '{"heading": 1}', *here)
    assert refused.exit_code == 1 and refused.stdout.startswith("The input is not valid")


@pytest.mark.requirement("SH-5")
def test_workflow_is_run_by_its_name(holdfast: Holdfast, here: list[str]) -> None:
    done = holdfast("workflows", "run", "layout", '{"heading": "Today", "lines": ["- one"]}', *here)
    assert (done.exit_code, json.loads(done.stdout)) == (0, {"text": "## Today\n\n- one"})
    waits = holdfast("workflows", "run", "release-notes", INPUT, "--json", *here)
    assert waits.exit_code == 3
    run = json.loads(waits.stdout)
    assert (run["status"], run["workflow"]) == ("waiting", "release-notes")
    states = holdfast("workflows", "graph", run["id"], "--run", "--json", *here).stdout
    assert {one["id"]: one["state"]["status"] for one in json.loads(states)["nodes"]}["ok"] == "waiting"


@pytest.mark.parametrize("command", ["show", "graph", "plan", "run"])
def test_workflow_that_does_not_exist_is_an_error_with_its_code(
    holdfast: Holdfast, here: list[str], command: str
) -> None:
    result = holdfast("workflows", command, "nothing", *here)
    assert result.exit_code == 1 and "WORKFLOW_NOT_FOUND" in result.output

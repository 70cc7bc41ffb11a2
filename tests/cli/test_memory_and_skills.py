"""`holdfast memory` and `holdfast skills` with a server: store, search, forget, and accept a suggested skill."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from app.core import json
from app.wiring.kinds import kind_catalog
from app.workspace.compile import compile
from app.workspace.compiled import Compiled
from app.workspace.files import read_folder
from tests.cli.conftest import Holdfast
from tests.memory.workspaces import agent, memory, model, rule, write
from tests.server import ServerProcess


def _tool(name: str) -> str:
    spec = "{kind: builtin, entry: echo, effect: readonly}"
    return f"---\napiVersion: holdfast/v1\nkind: Tool\nmetadata: {{name: {name}}}\nspec: {spec}\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("memory")
    call = "{{toolCalls: [{{name: {}, args: {{text: x}}}}]}}"
    rules = rule("{contains: refund, turn: 1}", call.format("find"))
    rules += rule("{contains: refund, turn: 2}", call.format("pay"))
    workspace = write(
        folder / "ws",
        model(rules),
        memory("facts", "{policy: [{when: 'confidence < 1.0', then: ask}, {when: 'true', then: accept}]}"),
        agent("clerk", "{model: script, memory: [facts], tools: [find, pay]}"),
        _tool("find"),
        _tool("pay"),
    )
    server = ServerProcess.start(folder / "data", workspace=workspace)
    yield server
    server.stop()


@pytest.fixture
def here(server: ServerProcess) -> list[str]:
    return ["--data-dir", str(server.data_dir)]


@pytest.mark.requirement("SH-17")
def test_memory_commands_store_search_decide_export_and_forget(holdfast: Holdfast, here: list[str]) -> None:
    place = ["--agent", "clerk", "--user", "lena"]
    stored = holdfast("memory", "put", "facts", "The shop opens at nine.", *place, "--about", "shop", "--quiet", *here)
    record = stored.stdout.strip()
    assert stored.exit_code == 0 and record.startswith("mem_"), stored.output
    found = json.loads(holdfast("memory", "search", "facts", "shop opens", *place, "--json", *here).stdout)
    assert [one["id"] for one in found] == [record]
    assert json.loads(holdfast("memory", "show", record, "--json", *here).stdout)["text"] == "The shop opens at nine."
    exported = holdfast("memory", "export", "lena", *here).stdout.splitlines()
    assert [json.loads(line)["id"] for line in exported] == [record]
    assert holdfast("memory", "reindex", *here).stdout == "1 records were indexed\n"
    assert holdfast("memory", "decide", record, "accept", *here).exit_code == 1, "nobody asks about it"
    changed = holdfast("memory", "change", record, "--text", "The shop opens at ten.", "--quiet", *here).stdout.strip()
    assert json.loads(holdfast("memory", "show", record, "--json", *here).stdout)["status"] == "superseded"
    assert (
        json.loads(holdfast("memory", "change", changed, "--confidence", "0.5", "--json", *here).stdout)["confidence"]
        == 0.5
    )
    assert holdfast("memory", "forget", "--query", "shop", *here).exit_code == 2, "of which memory?"
    query = ["--query", "shop opens", "--memory", "facts", *place]
    assert holdfast("memory", "forget", *query, *here).stdout == "2 records were forgotten\n", "with its history"
    holdfast("memory", "put", "facts", "The bank is closed.", *place, *here)
    assert holdfast("memory", "forget", "--user", "lena", *here).stdout == "1 records were forgotten\n"
    listed = json.loads(holdfast("memory", "list", "--user", "lena", "--json", *here).stdout)
    assert [(one["status"], one["text"]) for one in listed] == [("forgotten", "[FORGOTTEN]")] * 3


def test_the_list_of_approvals_shows_what_is_to_be_remembered(
    holdfast: Holdfast, here: list[str], server: ServerProcess
) -> None:
    body = {"memory": "facts", "agent": "clerk", "user": "mia", "text": "The moon is a stone.", "confidence": 0.5}
    asked = httpx2.post(f"{server.url}/api/memory/records", json=body).json()
    assert asked["outcome"] == "asked"
    listed = holdfast("approvals", "list", *here).stdout
    assert "remember this? The moon is a stone." in listed and "None" not in listed
    (interrupt,) = json.loads(holdfast("approvals", "list", "--json", *here).stdout)
    answered = holdfast("approvals", "decide", interrupt["id"], "approve", *here)
    assert answered.stdout == f"{interrupt['id']} is answered\n"
    record = json.loads(holdfast("memory", "show", asked["record"]["id"], "--json", *here).stdout)
    assert record["status"] == "accepted"


@pytest.mark.requirement("SH-19")
def test_a_skill_that_runs_suggest_is_shown_accepted_and_written_once(
    holdfast: Holdfast, here: list[str], server: ServerProcess, tmp_path: Path
) -> None:
    for number in range(3):
        assert holdfast("run", "clerk", f"Please refund the order {number}", *here).exit_code == 0
    (candidate,) = json.loads(holdfast("skills", "candidates", "--json", *here).stdout)
    assert (candidate["status"], candidate["evidenceCount"], candidate["tools"]) == ("proposed", 3, ["find", "pay"])
    shown = holdfast("skills", "show", candidate["id"], *here).stdout
    assert all(run in shown for run in candidate["runs"])
    target = write(
        tmp_path / "ws",
        _tool("find"),
        _tool("pay"),
        model(rule("{contains: x}", "{text: y}")),
        agent("clerk", "{model: script}"),
    )
    accept = ["skills", "accept", candidate["id"], "--workspace-folder", str(target), *here]
    assert holdfast(*accept).exit_code == 0
    assert (target / candidate["proposedPath"]).read_text().strip() == shown.strip()
    assert holdfast(*accept).exit_code == 1, "an existing file is not replaced"
    assert json.loads(holdfast("skills", "candidates", "--json", *here).stdout)[0]["status"] == "accepted"
    compiled = compile(read_folder(target), kind_catalog())
    assert isinstance(compiled, Compiled), compiled.as_text()
    assert compiled.workspace.skills[candidate["name"]].allowed_tools == ("find", "pay")

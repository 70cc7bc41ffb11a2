"""Extensions through the real server: what they hear, what they may do, and what bad ones cannot do."""

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from app.core import json
from tests.clients import create_session, reached, say
from tests.protocols.auth.auth_server import open_auth_server
from tests.server import ROOT, ServerProcess

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is Linux's")

EXAMPLE: Final = ROOT / "workspaces" / "supervised"
DECLARED: Final = {"events": ["runtime.request.completed"], "actions": ["*"]}


def _add(workspace: Path, name: str, code: str, capabilities: Any = DECLARED, **more: Any) -> Path:
    folder = workspace / "extensions" / name
    folder.mkdir(parents=True, exist_ok=True)
    manifest = {"name": name, "version": "1.0.0", "agentId": name, "displayName": name, "capabilities": capabilities}
    (folder / "extension.manifest.json").write_bytes(json.dumps(manifest | more))
    (folder / "events.py").write_text(code)
    return folder


def _on_completed(body: str, **registered: Any) -> str:
    more = "".join(f", {name}={value}" for name, value in registered.items())
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return f"""def handle(event):
{lines}

def register(events):
    events.on("runtime.request.completed", handle{more})
"""


def _row(message: str) -> str:
    return (
        'return {"kind": "action_request", "actionType": "transcript.upsert", "payload": {"messageId": "'
        + message
        + '", "role": "system", "type": "note", "content": "from " + event["runId"], "status": "complete"}}'
    )


@asynccontextmanager
async def _server(tmp_path: Path, workspace: Path) -> AsyncIterator[httpx2.AsyncClient]:
    server = await asyncio.to_thread(ServerProcess.start, tmp_path / "data", None, workspace)
    try:
        async with httpx2.AsyncClient(base_url=server.url, timeout=60, verify=False) as client:
            yield client
    finally:
        await asyncio.to_thread(server.stop)


def _workspace(tmp_path: Path) -> Path:
    workspace = tmp_path / "workspace"
    shutil.copytree(EXAMPLE, workspace)
    shutil.rmtree(workspace / "extensions")
    (workspace / "runtime.yaml").write_text((EXAMPLE / "runtime.yaml").read_text().replace("enforced", "warn"))
    return workspace


async def _handled(client: httpx2.AsyncClient, thread: str, count: int = 1) -> list[dict[str, Any]]:
    """The results of the passes, when there are so many. Each starts a program, one after the other."""
    async with asyncio.timeout(60 + 4 * count):
        while True:
            params = {"type": "runtime.extension.handled", "limit": "1000"}
            found = (await client.get(f"/api/threads/{thread}/events", params=params)).json()["items"]
            if len(found) >= count:
                return [event["payload"] for event in found]
            await asyncio.sleep(0.05)


async def _reload(client: httpx2.AsyncClient) -> httpx2.Response:
    return await client.post("/api/agents/extensions/reload")


# -- the example --------------------------------------------------------------------------------------


@pytest.mark.requirement("CM-8", "CM-9", "S20")
async def test_the_supervisor_declines_a_credential_and_notes_other_changes(tmp_path: Path) -> None:
    async with _server(tmp_path, EXAMPLE) as client:
        [module] = (await client.get("/api/agents/extensions")).json()["modules"]
        assert (module["agentId"], module["trust"]["mode"], module["trust"]["status"]) == (
            "supervisor", "enforced", "accepted",
        )  # fmt: skip
        session = await create_session(client)
        ended = await reached(client, await say(client, session, "write the key"))
        assert ended["status"] == "completed" and "credential" in ended["output"]
        [result] = (await _handled(client, session))[0]["results"]
        assert (result["kind"], result["actionType"], result["status"]) == (
            "action_result", "approval.decide", "performed",
        )  # fmt: skip
        answered = (
            await client.get(f"/api/threads/{session}/events", params={"type": "runtime.interrupt.resolved"})
        ).json()
        assert answered["items"][0]["actor"] == "extension:supervisor"
        harmless = await create_session(client)
        turn = await say(client, harmless, "write the notes")
        await _handled(client, harmless)
        assert (await reached(client, turn, "waiting"))["status"] == "waiting"  # a person decides
        rows = (await client.get(f"/api/sessions/{harmless}")).json()["transcript"]
        assert "notes.txt: 9 characters, no credentials" in [row["content"] for row in rows]


# -- hostile ones -------------------------------------------------------------------------------------


@pytest.mark.requirement("CM-9", "S20")
async def test_what_bad_handlers_do_stops_nothing_and_leaks_nothing(tmp_path: Path) -> None:
    workspace = _workspace(tmp_path)
    data = tmp_path / "data"
    look = f"""import os
found = []
for place in ({str(data)!r}, {str(data / "holdfast.db")!r}, "/root/.ssh"):
    try:
        found.append(os.listdir(place) if os.path.isdir(place) else open(place, "rb").read(1).hex())
    except OSError as error:
        found.append(type(error).__name__)
return {{"found": found, "env": [name for name in os.environ if "HOLDFAST" in name]}}"""
    _add(workspace, "a_throws", _on_completed('raise ValueError("no")'))
    _add(workspace, "b_hangs", _on_completed("while True: pass", timeout=0.5))
    _add(workspace, "c_floods", _on_completed('return "x" * 10_000_000'))
    _add(workspace, "d_forks", _on_completed("import os\nwhile True:\n    os.fork()", timeout=1))
    _add(workspace, "e_looks", _on_completed(look))
    _add(workspace, "f_lies", _on_completed('return {"kind": "action_result", "status": "performed"}'))
    _add(workspace, "g_many", _on_completed("return [None] * 1000"))
    elsewhere = '{"kind": "action_request", "actionType": "transcript.upsert", "payload": {"sessionId": "thr_other"}}'
    _add(workspace, "h_strays", _on_completed(f"return {elsewhere}"))
    _add(workspace, "y_works", _on_completed(_row("first")))
    _add(workspace, "z_late", _on_completed(_row("second")))
    async with _server(tmp_path, workspace) as client:
        modules = (await client.get("/api/agents/extensions")).json()
        assert len(modules["modules"]) == 10 and modules["errors"] == []
        session = await create_session(client)
        await reached(client, await say(client, session, "hello"))
        [handled] = await _handled(client, session)
        by = {one["moduleName"]: one for one in handled["results"]}
        assert [one["moduleName"] for one in handled["results"]] == sorted(by), "in a fixed order"
        assert {by[name]["kind"] for name in ("a_throws", "b_hangs", "c_floods", "d_forks", "g_many")} == {
            "handler_error"
        }
        assert "ValueError" in by["a_throws"]["error"] and "0.5 seconds" in by["b_hangs"]["error"]
        assert by["e_looks"]["details"]["env"] == []
        assert not any("db" in str(one) or (isinstance(one, list) and one) for one in by["e_looks"]["details"]["found"])
        assert (by["f_lies"]["status"], by["h_strays"]["status"]) == ("invalid", "forbidden")
        assert by["y_works"]["status"] == "performed"
        assert by["z_late"]["details"] == {"code": "action_winner_already_selected"}
        rows = [row["messageId"] for row in (await client.get(f"/api/sessions/{session}")).json()["transcript"]]
        assert "first" in rows and "second" not in rows
        # A handler that hangs again and again is not called any more.
        for text in ("two", "three", "four"):
            await reached(client, await say(client, session, text))
        last = (await _handled(client, session, 4))[3]
        assert "b_hangs" not in {one["moduleName"] for one in last["results"]}
        assert (await client.get("/healthz")).status_code == 200


# -- reloads ------------------------------------------------------------------------------------------


@pytest.mark.requirement("CM-8", "S20")
async def test_a_reload_is_all_or_nothing_and_audited(tmp_path: Path) -> None:
    workspace = _workspace(tmp_path)
    _add(workspace, "good", _on_completed(_row("good")))
    async with _server(tmp_path, workspace) as client:
        before = (await client.get("/api/agents/extensions")).json()
        makes: dict[str, Callable[[], Path]] = {
            "missing_register": lambda: _add(workspace, "bad", "x = 1"),
            "import_failed": lambda: _add(workspace, "bad", "import nothing_of_this_name"),
            "registration_failed": lambda: _add(
                workspace, "bad", _on_completed("pass").replace("completed", "nonsense")
            ),
            "invalid_manifest": lambda: _add(workspace, "bad", "", version=7),
            "incompatible_runtime": lambda: _add(workspace, "bad", "", entrypoints={"events": "events.js"}),
            "agent_id_conflict": lambda: _add(workspace, "bad", _on_completed("pass"), agentId="good"),
        }
        for code, make in makes.items():
            make()
            failed = await _reload(client)
            assert (failed.status_code, failed.json()["code"]) == (400, "reload_failed"), failed.text
            assert [error["code"] for error in failed.json()["errors"]] == [code]
            assert failed.json()["snapshotVersion"] == before["snapshotVersion"]
        after = (await client.get("/api/agents/extensions")).json()
        assert after["modules"] == before["modules"] and after["snapshotVersion"] == before["snapshotVersion"]
        shutil.rmtree(workspace / "extensions" / "bad")
        done = (await _reload(client)).json()
        assert (done["status"], done["loadedCount"], done["snapshotVersion"]) == (
            "ok",
            1,
            before["snapshotVersion"] + 1,
        )
        params = {"type": "runtime.extension.reloaded", "limit": "100"}
        audit = (await client.get("/api/threads/sys_ledger/events", params=params)).json()["items"]
        assert [event["payload"]["result"] for event in audit] == ["failed"] * 6 + ["success"]
        assert {event["actor"] for event in audit} == {"user:local"}


@pytest.mark.requirement("CM-8", "S24")
async def test_an_enforced_policy_denies_what_is_not_declared(tmp_path: Path) -> None:
    workspace = _workspace(tmp_path)
    runtime = workspace / "runtime.yaml"
    _add(workspace, "quiet", _on_completed("return 1"), {"events": [], "actions": []})
    _add(workspace, "tries", _on_completed(_row("x")), DECLARED | {"actions": []})
    async with _server(tmp_path, workspace) as client:
        shown = {one["agentId"]: one for one in (await client.get("/api/agents/extensions")).json()["modules"]}
        assert shown["quiet"]["trust"]["warnings"] == ["the event runtime.request.completed is not declared"]
        runtime.write_text(runtime.read_text().replace("warn", "enforced"))
        assert (await client.post("/api/workspace/reload")).status_code == 200
        denied = await _reload(client)
        assert [error["code"] for error in denied.json()["errors"]] == ["trust_denied"]
        shutil.rmtree(workspace / "extensions" / "quiet")
        assert (await _reload(client)).status_code == 200
        session = await create_session(client)
        await reached(client, await say(client, session, "hello"))
        [result] = (await _handled(client, session))[0]["results"]
        assert (result["status"], result["details"]) == ("forbidden", {"code": "undeclared_capability"})
        # Code that the operator allows by its digest runs in the server.
        [digest] = [
            line[7:]
            for line in (await client.get("/api/agents/extensions")).json()["modules"][0]["diagnostics"]
            if line.startswith("digest ")
        ]
        runtime.write_text(runtime.read_text().replace("enforced}", f"enforced, digests: ['{digest}']}}"))
        assert (await client.post("/api/workspace/reload")).status_code == 200
        assert (await _reload(client)).status_code == 200
        [module] = (await client.get("/api/agents/extensions")).json()["modules"]
        assert "runs in the server" in module["diagnostics"]


async def _under_reloads(tmp_path: Path, reloads: int, messages: int) -> None:
    """Every event passes exactly once, whichever set is in use, while the extensions are loaded again and again."""
    workspace = _workspace(tmp_path)
    _add(workspace, "counts", _on_completed("return 1"))
    async with _server(tmp_path, workspace) as client:
        session = await create_session(client)

        async def talk() -> None:
            for number in range(messages):
                await reached(client, await say(client, session, f"m{number}"))

        talking = asyncio.create_task(talk())
        for number in range(reloads):
            if number % 5 == 0:
                _add(workspace, "counts", _on_completed(f"return {number}"))
            assert (await _reload(client)).status_code == 200
        await talking
        passes = await _handled(client, session, messages)
        assert len({one["eventId"] for one in passes}) == len(passes) == messages
        shown = (await client.get("/api/agents/extensions")).json()
        assert shown["snapshotVersion"] == reloads + 1


@pytest.mark.requirement("CM-8")
async def test_reloads_under_load_lose_no_event(tmp_path: Path) -> None:
    await _under_reloads(tmp_path, 20, 5)


@pytest.mark.faults
@pytest.mark.timeout(900)
@pytest.mark.requirement("CM-8")
async def test_a_thousand_reloads_under_load_lose_no_event(tmp_path: Path) -> None:
    await _under_reloads(tmp_path, 1000, 100)


@pytest.mark.requirement("CM-8", "S24")
async def test_only_administrators_reload(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        member, admin = await server.caller("member"), await server.caller("admin")
        assert (await member.get("/api/agents/extensions")).status_code == 200
        denied = await _reload(member)
        assert (denied.status_code, denied.json()["status"], denied.json()["code"]) == (
            403, "forbidden", "insufficient_role",
        )  # fmt: skip
        assert (await _reload(admin)).json()["status"] == "ok"

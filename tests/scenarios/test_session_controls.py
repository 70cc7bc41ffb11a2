"""What a session is asked to use, over the real server: controls, settings, approval policy, defaults, capabilities."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import connect

from app.core import json
from app.core.ids import new_id
from tests.clients import create_session, reached, say
from tests.protocols.auth.auth_server import open_auth_server
from tests.server import ServerProcess

pytestmark = pytest.mark.requirement("PX-3")

PLAIN: dict[str, Any] = {"model": None, "approvalPolicy": "on-request", "networkAccess": "enabled",
         "filesystemSandbox": "workspace-write", "settings": {}}  # fmt: skip
TOOLS = [{"name": "lookup", "description": "d", "inputSchema": {"type": "object"}}]


async def _shown(client: httpx2.AsyncClient, session_id: str) -> dict[str, Any]:
    controls: dict[str, Any] = (await client.get(f"/api/sessions/{session_id}")).json()["session"]["sessionControls"]
    return controls


async def _asked(client: httpx2.AsyncClient, session_id: str) -> dict[str, Any]:
    async with asyncio.timeout(30):
        while True:
            data: list[dict[str, Any]] = (await client.get(f"/api/sessions/{session_id}/approvals")).json()["data"]
            if data:
                return data[0]
            await asyncio.sleep(0.02)


async def _errors(client: httpx2.AsyncClient, turn_id: str) -> list[str]:
    events = (await client.get(f"/api/runs/{turn_id}/events", params={"type": "runtime.tool.resulted"})).json()
    return [event["payload"]["error"]["code"] for event in events["items"] if not event["payload"]["ok"]]


# -- controls -----------------------------------------------------------------------------------------


async def test_controls_are_shown_changed_and_said_to_be_unchanged(client: httpx2.AsyncClient) -> None:
    session_id = await create_session(client)
    path = f"/api/sessions/{session_id}/session-controls"
    assert (await client.get(path)).json() == {
        "status": "ok", "sessionId": session_id, "controls": PLAIN, "defaults": PLAIN, "defaultsEditable": True,
        "defaultLockReason": None,
    }  # fmt: skip
    wanted = PLAIN | {"model": "assistant", "approvalPolicy": "untrusted", "settings": {"team": {"size": 3}}}
    body = (await client.post(path, json={"scope": "session", "controls": wanted, "actor": "me"})).json()
    assert (body["status"], body["scope"], body["applied"], body["controls"]) == ("ok", "session", wanted, wanted)
    assert body["defaults"] == PLAIN
    again = (await client.post(path, json={"scope": "session", "controls": wanted})).json()
    assert (again["status"], again["controls"]) == ("unchanged", wanted)
    assert await _shown(client, session_id) == wanted


async def test_controls_without_settings_leave_the_settings_as_they_are(client: httpx2.AsyncClient) -> None:
    session_id = await create_session(client, model="assistant", settings={"a": 1})
    path = f"/api/sessions/{session_id}/session-controls"
    wanted = {name: value for name, value in PLAIN.items() if name != "settings"} | {"networkAccess": "enabled"}
    body = (await client.post(path, json={"scope": "session", "controls": wanted})).json()
    assert body["controls"] == PLAIN | {"networkAccess": "enabled", "settings": {"a": 1}}
    assert body["summary"] == "default | on-request | enabled | workspace-write | settings:1"
    body = (await client.post(path, json={"scope": "session", "controls": wanted | {"settings": {"b": 2}}})).json()
    assert body["controls"]["settings"] == {"b": 2}


@pytest.mark.parametrize(
    "body",
    [
        {}, {"controls": None}, {"controls": {"approvalPolicy": "sometimes"}}, {"controls": {"model": ""}},
        {"scope": "session", "controls": {"approvalPolicy": "never"}}, {"controls": PLAIN},
        {"scope": "everybody", "controls": {}}, {"controls": {"settings": []}}, {"controls": {"settings": {"": 1}}},
    ],
)  # fmt: skip
async def test_wrong_controls_are_refused_and_change_nothing(client: httpx2.AsyncClient, body: Any) -> None:
    session_id = await create_session(client)
    answer = await client.post(f"/api/sessions/{session_id}/session-controls", json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert await _shown(client, session_id) == PLAIN


async def test_what_a_session_starts_with_and_what_a_message_names_is_shown_from_then_on(
    client: httpx2.AsyncClient,
) -> None:
    start = {"model": "echo", "approvalPolicy": "untrusted", "networkAccess": "enabled", "effort": "low",
             "filesystemSandbox": "workspace-write", "settings": {"a": 1}}  # fmt: skip
    session_id = await create_session(client, **start)
    assert await _shown(client, session_id) == PLAIN | start
    named = {"model": "assistant", "approvalPolicy": "never", "effort": "high", "settings": {"b": None, "c": [2]}}
    turn = await say(client, session_id, "what is this", **named)
    assert (await reached(client, turn))["agent"] == "assistant"
    shown = await _shown(client, session_id)
    assert shown == PLAIN | start | named | {"settings": {"a": 1, "b": None, "c": [2]}}
    listed = (await client.get("/api/sessions")).json()["data"]
    assert next(one for one in listed if one["sessionId"] == session_id)["sessionControls"] == shown
    tools = await client.post(f"/api/sessions/{session_id}/resume", json={"dynamicTools": TOOLS})
    assert tools.json()["session"]["sessionControls"]["dynamicTools"] == TOOLS


async def test_the_effort_of_a_session_is_what_its_turns_ask_their_model_for(client: httpx2.AsyncClient) -> None:
    session_id = await create_session(client, model="assistant")
    for more in ({}, {"effort": "low"}, {}):
        await reached(client, await say(client, session_id, "hm", **more))
    events = (await client.get(f"/api/threads/{session_id}/events", params={"type": "runtime.request.queued"})).json()
    assert [event["payload"].get("parameters") for event in events["items"]] == [
        None, {"effort": "low"}, {"effort": "low"},
    ]  # fmt: skip


async def test_a_refused_message_leaves_no_controls_behind(client: httpx2.AsyncClient) -> None:
    session_id = await create_session(client)
    body = {"text": "x", "model": "nobody", "approvalPolicy": "never", "settings": {"a": 1}}
    refused = await client.post(f"/api/sessions/{session_id}/messages", json=body)
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_params")
    assert await _shown(client, session_id) == PLAIN


@pytest.mark.requirement("G1")
async def test_a_message_and_what_it_names_are_one_commit(client: httpx2.AsyncClient) -> None:
    session_id = await create_session(client)
    await reached(client, await say(client, session_id, "x", effort="low"))
    events = (await client.get(f"/api/threads/{session_id}/events")).json()["items"]
    assert [event["type"] for event in events][:3] == [
        "runtime.thread.created", "runtime.thread.updated", "runtime.request.queued",
    ]  # fmt: skip
    assert (events[1]["payload"], events[1]["at"]) == ({"metadata": {"session.effort": "low"}}, events[2]["at"])


async def test_the_legacy_route_sets_the_approval_policy_alone(client: httpx2.AsyncClient) -> None:
    session_id = await create_session(client, model="echo")
    path = f"/api/sessions/{session_id}/approval-policy"
    for _ in range(2):
        answered = await client.post(path, json={"approvalPolicy": "never"})
        assert answered.json() == {"status": "ok", "sessionId": session_id, "approvalPolicy": "never"}
    assert await _shown(client, session_id) == PLAIN | {"model": "echo", "approvalPolicy": "never"}
    assert (await client.post(path, json={"approvalPolicy": None})).json()["code"] == "invalid_request"


# -- settings -----------------------------------------------------------------------------------------


async def test_settings_are_merged_replaced_read_and_removed(client: httpx2.AsyncClient) -> None:
    session_id = await create_session(client)
    path = f"/api/sessions/{session_id}/settings"

    async def post(**body: Any) -> dict[str, Any]:
        answer = await client.post(path, json={"scope": "session", **body})
        assert answer.status_code == 200, answer.text
        result: dict[str, Any] = answer.json()
        assert (result["sessionId"], result["scope"]) == (session_id, "session")
        return result

    assert (await client.get(path)).json() == {
        "status": "ok", "sessionId": session_id, "scope": "session", "settings": {},
    }  # fmt: skip
    assert (await post(key="a", value={"deep": [1, None]}))["settings"] == {"a": {"deep": [1, None]}}
    assert (await post(settings={"b": True, "c": "x"}))["settings"] == {"a": {"deep": [1, None]}, "b": True, "c": "x"}
    assert (await post(settings={"b": True}))["status"] == "unchanged"
    assert (await post(key="b", value=1))["status"] == "ok"  # true is not 1
    nothing = await post(key="c", value=None)
    assert (nothing["key"], nothing["settings"]) == ("c", {"a": {"deep": [1, None]}, "b": 1, "c": None})
    assert (await post(key="c", value=None))["status"] == "unchanged"
    read = (await client.get(path, params={"key": "c"})).json()
    assert (read["found"], read["value"]) == (True, None)
    assert (await post(settings={"d/e": 0}, mode="replace"))["settings"] == {"d/e": 0}
    assert (await post(settings={"d/e": 0}, mode="replace"))["status"] == "unchanged"
    one = (await client.get(path, params={"key": "d/e"})).json()
    assert (one["key"], one["found"], one["value"]) == ("d/e", True, 0)
    none = (await client.get(path, params={"key": "a"})).json()
    assert (none["found"], none["value"]) == (False, None)
    gone = (await client.delete(f"{path}/d%2Fe")).json()
    assert gone == {"status": "ok", "sessionId": session_id, "scope": "session", "key": "d/e", "removed": True,
                    "settings": {}}  # fmt: skip
    again = (await client.delete(f"{path}/d%2Fe")).json()
    assert (again["status"], again["removed"]) == ("unchanged", False)


@pytest.mark.parametrize(
    "body",
    [
        {}, {"key": "a"}, {"value": 1}, {"key": "a", "value": 1, "settings": {}}, {"settings": {}, "value": 1},
        {"settings": None}, {"settings": 1}, {"key": "", "value": 1}, {"settings": {}, "mode": "swap"},
        {"settings": {f"k{n}": n for n in range(257)}}, {"key": "a", "value": "x" * 20_000},
    ],
)  # fmt: skip
async def test_wrong_settings_are_refused(client: httpx2.AsyncClient, body: Any) -> None:
    session_id = await create_session(client)
    path = f"/api/sessions/{session_id}/settings"
    answer = await client.post(path, json={"scope": "session", **body})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    without_scope = await client.post(path, json={"key": "a", "value": 1})
    assert (without_scope.status_code, without_scope.json()["code"]) == (400, "invalid_request")


@pytest.mark.requirement("G13")
async def test_settings_cannot_grow_without_bound(client: httpx2.AsyncClient) -> None:
    session_id = await create_session(client)
    path = f"/api/sessions/{session_id}/settings"
    assert (await client.post(path, json={"scope": "session", "key": "a", "value": "x" * 9000})).status_code == 200
    refused = await client.post(path, json={"scope": "session", "key": "b", "value": "x" * 9000})
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_request")
    assert (await client.post(path, json={"scope": "session", "key": "a", "value": "y" * 9000})).status_code == 200


async def test_two_who_change_different_settings_at_once_lose_nothing(client: httpx2.AsyncClient) -> None:
    session_id = await create_session(client)
    path = f"/api/sessions/{session_id}/settings"
    await asyncio.gather(*(client.post(path, json={"scope": "session", "key": f"k{n}", "value": n}) for n in range(24)))
    assert (await client.get(path)).json()["settings"] == {f"k{n}": n for n in range(24)}


@pytest.mark.requirement("PX-1", "CM-1")
async def test_whoever_follows_the_session_hears_of_the_change_and_may_resume_before_it(
    server: ServerProcess, client: httpx2.AsyncClient
) -> None:
    session_id = await create_session(client)
    async with connect(f"{server.stream_url}?threadId={session_id}") as live:
        await live.recv()
        await client.post(f"/api/sessions/{session_id}/approval-policy", json={"approvalPolicy": "never"})
        frame = json.loads(await asyncio.wait_for(live.recv(), 30))
    assert (frame["type"], frame["threadId"], frame["seq"]) == ("runtime.thread.updated", session_id, 2)
    assert frame["payload"] == {"metadata": {"session.approvalPolicy": "never"}}
    async with connect(f"{server.stream_url}?threadId={session_id}&afterSeq=1") as late:
        await late.recv()
        assert json.loads(await asyncio.wait_for(late.recv(), 30)) == frame


# -- gates --------------------------------------------------------------------------------------------

CALLS = [
    ("GET", "/session-controls"), ("POST", "/session-controls"), ("GET", "/settings"), ("POST", "/settings"),
    ("DELETE", "/settings/a"), ("POST", "/approval-policy"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path"), CALLS)
async def test_the_gates_come_in_their_order_and_before_the_body(
    client: httpx2.AsyncClient, method: str, path: str
) -> None:
    wrong: dict[str, Any] = {"json": {"scope": 5, "approvalPolicy": 5}} if method == "POST" else {}
    missing = await client.request(method, f"/api/sessions/{new_id('thread')}{path}", **wrong)
    assert (missing.status_code, missing.json()["status"]) == (404, "not_found")
    gone = await create_session(client)
    await client.delete(f"/api/sessions/{gone}")
    deleted = await client.request(method, f"/api/sessions/{gone}{path}", **wrong)
    assert (deleted.status_code, deleted.json()["status"], deleted.json()["sessionId"]) == (410, "deleted", gone)
    system = await client.request(method, f"/api/sessions/sys_ledger{path}", **wrong)
    assert (system.status_code, system.json()["code"]) == (403, "system_session")


# -- what the approval policy does --------------------------------------------------------------------


@pytest.mark.requirement("S17")
async def test_untrusted_asks_a_person_about_every_tool_that_changes_something(client: httpx2.AsyncClient) -> None:
    session_id = await create_session(client, model="assistant", approvalPolicy="untrusted")
    free = await say(client, session_id, "please calculate")
    assert (await reached(client, free))["status"] == "completed"  # it only reads
    turn = await say(client, session_id, "remember the milk")
    asked = await _asked(client, session_id)
    assert (asked["turnId"], asked["details"]["tool"]) == (turn, "notes")
    await client.post(f"/api/approvals/{asked['approvalId']}/decision", json={"decision": "decline"})
    assert (await reached(client, turn))["status"] == "completed"
    assert await _errors(client, turn) == ["APPROVAL_DENIED"]
    # The same call needs nobody where the workspace alone decides.
    plain = await create_session(client, model="assistant")
    assert (await reached(client, await say(client, plain, "remember the milk")))["status"] == "completed"


@pytest.mark.requirement("S17")
async def test_never_asks_nobody_and_denies_what_needs_a_yes(client: httpx2.AsyncClient) -> None:
    session_id = await create_session(client, model="assistant", approvalPolicy="never")
    turn = await say(client, session_id, "publish this")
    assert (await reached(client, turn))["status"] == "completed"
    assert await _errors(client, turn) == ["APPROVAL_DENIED"]
    assert (await client.get(f"/api/sessions/{session_id}/approvals")).json() == {"data": []}
    free = await say(client, session_id, "remember the milk")
    assert await _errors(client, (await reached(client, free))["id"]) == []


@pytest.mark.requirement("S17")
@pytest.mark.parametrize("policy", ["on-request", "on-failure"])
async def test_no_policy_loosens_what_the_workspace_says(client: httpx2.AsyncClient, policy: str) -> None:
    session_id = await create_session(client, model="assistant", approvalPolicy=policy)
    await say(client, session_id, "publish this")
    assert (await _asked(client, session_id))["details"]["tool"] == "publish"
    await client.post(f"/api/sessions/{session_id}/interrupt")


@pytest.mark.requirement("S17")
async def test_the_policy_of_a_session_holds_through_every_door_onto_its_thread(client: httpx2.AsyncClient) -> None:
    session_id = await create_session(client, approvalPolicy="never")
    body = {"agent": "assistant", "input": "publish this", "threadId": session_id}
    run = (await client.post("/api/runs", params={"wait": 30}, json=body)).json()
    assert run["status"] == "completed"
    assert await _errors(client, run["id"]) == ["APPROVAL_DENIED"]
    chat = {"model": "assistant", "messages": [{"role": "user", "content": "publish this"}],
            "metadata": {"thread_id": session_id}}  # fmt: skip
    assert (await client.post("/v1/chat/completions", json=chat)).status_code == 200
    fork = (await client.post(f"/api/sessions/{session_id}/fork")).json()["session"]
    assert fork["approvalPolicy"] == "never"
    again = (await client.post(f"/api/runs/{run['id']}/rerun", json={})).json()
    assert await _errors(client, (await reached(client, again["id"]))["id"]) == ["APPROVAL_DENIED"]


FAMILY = """\
apiVersion: holdfast/v1
kind: Runtime
metadata: {name: family}
spec: {defaultAgent: parent}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: parent, description: Lets the child work.}
spec: {model: script, instructions: parent, subagents: [{agent: child, tools: [notes]}]}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: child, description: Keeps notes.}
spec: {model: script, instructions: child, tools: [notes]}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: notes, description: Notes.}
spec: {kind: builtin, effect: keyed}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: script}
spec:
  provider: scripted
  model: script
  capabilities: {streaming: true, tools: true}
  script:
    rules:
      - match: {afterTool: notes}
        reply: {text: noted}
      - match: {afterTool: child}
        reply: {text: done}
      - match: {system: child}
        reply: {toolCalls: [{name: notes, args: {action: add, text: milk}}]}
      - match: {system: parent}
        reply: {toolCalls: [{name: child, args: {input: milk}}]}
"""


@pytest.mark.requirement("S17")
async def test_the_policy_holds_for_subagents_and_after_a_restart(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "family.yaml").write_text(FAMILY)
    server = await asyncio.to_thread(ServerProcess.start, tmp_path / "data", None, workspace)
    async with httpx2.AsyncClient(base_url=server.url, timeout=60, verify=False) as client:
        session_id = await create_session(client, approvalPolicy="untrusted", settings={"a": [1]})
        turn = await say(client, session_id, "go")
        asked = await _asked(client, session_id)
        assert asked["details"]["tool"] == "notes"  # the child's call; that the child is asked needs nobody
        shown = await _shown(client, session_id)
    await asyncio.to_thread(server.kill)
    server = await asyncio.to_thread(ServerProcess.start, tmp_path / "data", None, workspace)
    async with httpx2.AsyncClient(base_url=server.url, timeout=60, verify=False) as client:
        assert await _shown(client, session_id) == shown
        assert await _asked(client, session_id) == asked
        await client.post(f"/api/approvals/{asked['approvalId']}/decision", json={"decision": "accept"})
        ended = await reached(client, turn)
        assert (ended["status"], ended["output"]) == ("completed", "done")
    await asyncio.to_thread(server.stop)


# -- defaults -----------------------------------------------------------------------------------------


async def test_new_sessions_of_the_tenant_begin_with_the_defaults_and_old_ones_keep_theirs(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        admin, other = await server.caller("admin"), await server.caller("admin", "elsewhere")
        before = await create_session(admin)
        path = f"/api/sessions/{before}/session-controls"
        wanted = PLAIN | {"model": "assistant", "approvalPolicy": "untrusted", "settings": {"a": 1, "b": 2}}
        answered = (await admin.post(path, json={"scope": "default", "controls": wanted})).json()
        assert (answered["status"], answered["scope"], answered["applied"]) == ("ok", "default", wanted)
        assert (answered["controls"], answered["defaults"]) == (PLAIN, wanted)
        again = await admin.post(path, json={"scope": "default", "controls": wanted})
        assert again.json()["status"] == "unchanged"
        settings = f"/api/sessions/{before}/settings"
        body = {"scope": "default", "key": "c", "value": 3}
        assert (await admin.post(settings, json=body)).json()["settings"] == {"a": 1, "b": 2, "c": 3}
        await admin.delete(f"{settings}/b", params={"scope": "default"})
        found = (await admin.get(settings, params={"scope": "default"})).json()
        assert (found["scope"], found["settings"]) == ("default", {"a": 1, "c": 3})
        assert await _shown(admin, before) == PLAIN
        fresh = await create_session(admin, model="echo", settings={"c": 4})
        assert await _shown(admin, fresh) == wanted | {"model": "echo", "settings": {"a": 1, "c": 4}}
        assert await _shown(other, await create_session(other)) == PLAIN
        changes = [payload for type_, payload in await server.ledger() if type_ == "runtime.thread.updated"]
        assert changes[-1] == {"metadata": {"session.settings.b": None}}


@pytest.mark.requirement("S5")
async def test_defaults_are_for_administrators_to_change(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        member = await server.caller("member")
        session_id = await create_session(member)
        for method, path, body in (
            ("POST", "session-controls", {"scope": "default", "controls": PLAIN | {"model": "echo"}}),
            ("POST", "settings", {"scope": "default", "key": "a", "value": 1}),
            ("DELETE", "settings/a?scope=default", None),
        ):
            answer = await member.request(method, f"/api/sessions/{session_id}/{path}", json=body)
            assert (answer.status_code, answer.json()["code"]) == (403, "insufficient_role")
        assert (await member.get(f"/api/sessions/{session_id}/session-controls")).json()["defaults"] == PLAIN


async def test_locked_defaults_answer_423_and_the_session_s_own_can_still_be_changed(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path, session_defaults_locked=True) as server:
        client = await server.caller("admin")
        session_id = await create_session(client)
        shown = (await client.get(f"/api/sessions/{session_id}/session-controls")).json()
        assert (shown["defaultsEditable"], bool(shown["defaultLockReason"])) == (False, True)
        for method, path, body in (
            ("POST", "session-controls", {"scope": "default", "controls": PLAIN | {"model": "echo"}}),
            ("POST", "settings", {"scope": "default", "key": "a", "value": 1}),
            ("DELETE", "settings/a?scope=default", None),
        ):
            answer = await client.request(method, f"/api/sessions/{session_id}/{path}", json=body)
            refused = answer.json()
            assert (answer.status_code, refused["status"], refused["code"]) == (423, "locked", "defaults_locked")
            assert (refused["sessionId"], refused["defaults"]) == (session_id, PLAIN)
            assert (refused["scope"], refused["settings"], bool(refused["message"])) == ("default", {}, True)
        own = {"scope": "session", "controls": PLAIN | {"model": "echo"}}
        assert (await client.post(f"/api/sessions/{session_id}/session-controls", json=own)).status_code == 200


# -- capabilities -------------------------------------------------------------------------------------


async def test_capabilities_say_what_is_served_and_why_not_the_rest(client: httpx2.AsyncClient) -> None:
    capabilities = (await client.get("/api/capabilities")).json()
    assert (capabilities["status"], capabilities["runtime"]["initialized"]) == ("ok", True)
    assert capabilities["runtime"]["capabilitiesLastUpdatedAt"].endswith("Z")
    assert capabilities["methods"] == {method: detail["status"] for method, detail in capabilities["details"].items()}
    assert (capabilities["methods"]["turn/start"], capabilities["methods"]["review/start"]) == ("available", "disabled")
    assert capabilities["details"]["review/start"]["reason"]
    assert (capabilities["features"]["threadFork"], capabilities["features"]["reviewStart"]) == (True, False)
    assert len(capabilities["features"]) == 23
    fresh = await client.get("/api/capabilities", params={"refresh": "true"})
    assert fresh.json()["methods"] == capabilities["methods"]
    wrong = await client.get("/api/capabilities", params={"refresh": "perhaps"})
    assert (wrong.status_code, wrong.json()["code"]) == (400, "invalid_request")

"""A strict client of the codex-manager sessions API: every operation, the shape of every answer, every item once.

It asserts as that API's own SDK does: by status, by the fields that must be there, and by values of fixed sets.
"""

import asyncio
from collections import Counter
from typing import Any, Final

import httpx2
import pytest
from websockets.asyncio.client import connect

from app.core import json
from app.protocols.sessions.requests import RespondToolCall, result_of
from tests.clients import create_session, reached, say
from tests.server import ServerProcess

pytestmark = pytest.mark.requirement("CM-5")

ITEMS: Final = {"userMessage", "agentMessage", "reasoning", "mcpToolCall", "error"}
ABSENT: Final = (
    ("GET", "/api/features/experimental"), ("GET", "/api/collaboration/modes"), ("POST", "/api/skills/config"),
    ("GET", "/api/skills/remote"), ("POST", "/api/skills/remote"), ("POST", "/api/mcp/servers/x/oauth/login"),
    ("GET", "/api/account"), ("POST", "/api/account/login/start"), ("POST", "/api/account/login/cancel"),
    ("POST", "/api/account/logout"), ("GET", "/api/account/rate-limits"), ("POST", "/api/config/value"),
    ("POST", "/api/config/batch"), ("POST", "/api/commands/exec"), ("POST", "/api/feedback"),
)  # fmt: skip


async def _pending(client: httpx2.AsyncClient, session_id: str, what: str) -> dict[str, Any]:
    async with asyncio.timeout(30):
        while True:
            found: list[dict[str, Any]] = (await client.get(f"/api/sessions/{session_id}/{what}")).json()["data"]
            if found:
                return found[0]
            await asyncio.sleep(0.02)


async def _turn_frames(
    server: ServerProcess, session_id: str, client: httpx2.AsyncClient, text: str, **more: Any
) -> list[dict[str, Any]]:
    """The raw notifications of one turn, up to its end."""
    address = server.url.replace("http", "ws") + f"/api/stream?threadId={session_id}"
    async with connect(address) as socket, asyncio.timeout(30):
        assert json.loads(await socket.recv()) == {"type": "ready", "threadId": session_id}
        turn = await say(client, session_id, text, **more)
        heard: list[dict[str, Any]] = []
        while not heard or heard[-1]["payload"].get("method") != "turn/completed":
            frame = json.loads(await socket.recv())
            if frame["type"] == "notification":
                heard.append(frame)
            if frame["type"] == "approval":
                answered = await client.post(
                    f"/api/approvals/{frame['payload']['approvalId']}/decision", json={"decision": "decline"}
                )
                assert answered.status_code == 200
            if frame["type"] == "tool_call_requested":
                call = frame["payload"]["requestId"]
                answered = await client.post(f"/api/tool-calls/{call}/response", json={"text": "42"})
                assert answered.status_code == 200
        assert heard[-1]["payload"]["params"]["turn"]["id"] == turn
    return [frame["payload"] for frame in heard]


@pytest.mark.parametrize(
    ("agent", "text", "more"),
    [
        ("echo", "one two three", {}),
        ("assistant", "please calculate", {}),
        ("assistant", "publish this", {}),
        ("assistant", "hm", {}),
    ],
)
async def test_each_item_is_started_and_completed_once_whatever_the_agent_does(
    server: ServerProcess, client: httpx2.AsyncClient, agent: str, text: str, more: dict[str, Any]
) -> None:
    session_id = await create_session(client, model=agent)
    heard = await _turn_frames(server, session_id, client, text, **more)
    started = Counter(one["params"]["item"]["id"] for one in heard if one["method"] == "item/started")
    completed = Counter(one["params"]["item"]["id"] for one in heard if one["method"] == "item/completed")
    assert started == completed and set(started.values()) == {1}, heard
    assert {one["params"]["item"]["type"] for one in heard if "item" in one["params"]} <= ITEMS
    begun: set[str] = set()
    for one in heard:
        begun |= {one["params"]["item"]["id"]} if one["method"] == "item/started" else set()
        if one["method"].endswith("elta"):
            assert one["params"]["itemId"] in begun
    assert not {one["method"] for one in heard} & {"item/toolCall/argumentsDelta"}
    shown = (await client.get(f"/api/sessions/{session_id}")).json()
    for row in shown["transcript"]:
        assert isinstance(row["content"], str) and row["role"] in ("user", "assistant", "system")
        assert row["type"] not in ("message", "tool")
    assert {item["type"] for turn in shown["thread"]["turns"] for item in turn["items"]} <= ITEMS
    if any(item["type"] == "mcpToolCall" for turn in shown["thread"]["turns"] for item in turn["items"]):
        [row] = [row for row in shown["transcript"] if row["type"] == "mcpToolCall"][:1]
        assert row["role"] == "system" and json.loads(row["details"])["type"] == "mcpToolCall"


async def test_an_approval_leaves_a_row_and_a_late_decision_finds_nothing(client: httpx2.AsyncClient) -> None:
    session_id = await create_session(client, model="assistant")
    turn = await say(client, session_id, "publish this")
    asked = await _pending(client, session_id, "approvals")
    assert asked["method"] == "item/commandExecution/requestApproval"
    row = f"approval-{asked['approvalId']}"

    async def rows() -> dict[str, dict[str, Any]]:
        shown = (await client.get(f"/api/sessions/{session_id}")).json()
        return {one["messageId"]: one for one in shown["transcript"]}

    assert (await rows())[row]["type"] == "approval.request"
    path = f"/api/approvals/{asked['approvalId']}/decision"
    assert (await client.post(path, json={"decision": "accept", "scope": "session"})).status_code == 200
    await reached(client, turn)
    assert (await rows())[row]["type"] == "approval.resolved"
    again = await client.post(path, json={"decision": "accept"})
    assert (again.status_code, again.json()) == (404, {"status": "not_found", "approvalId": asked["approvalId"]})
    # The same call again needs nobody.
    assert (await reached(client, await say(client, session_id, "publish this")))["status"] == "completed"
    steered = await client.post(f"/api/sessions/{session_id}/turns/{turn}/steer", json={"input": "x"})
    assert (steered.status_code, steered.json()["code"]) == (409, steered.json()["result"]["status"])


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"response": {"success": False, "contentItems": [{"type": "inputText", "text": "no"}]}}, {"error": "no"}),
        ({"success": False, "contentItems": [{"type": "inputText", "text": "no"}]}, {"error": "no"}),
        ({"response": {"rows": 3}}, {"output": {"rows": 3}}),
        ({"text": "42"}, {"output": "42"}),
    ],
)
async def test_the_model_sees_the_content_of_a_client_s_answer_and_not_its_envelope(
    body: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert result_of(RespondToolCall.model_validate(body)) == expected


async def test_the_server_introduces_itself_and_says_what_it_has(client: httpx2.AsyncClient) -> None:
    entry = (await client.get("/api")).json()
    assert set(entry) == {"name", "version"}
    health = (await client.get("/api/health")).json()
    assert health["status"] == "ok" and isinstance(health["orchestratorQueue"]["enabled"], bool)
    assert set(health["auth"]) == {"hasOpenAiApiKey", "codexHomeAuthFile", "likelyUnauthenticated"}
    assert set(health["codex"]) == {"running", "pid", "initialized"} and health["timestamp"].endswith("Z")
    for path in ("models", "apps", "mcp/servers"):
        page = (await client.get(f"/api/{path}", params={"limit": 1})).json()
        assert isinstance(page["data"], list) and "nextCursor" in page
    models = (await client.get("/api/models")).json()["data"]
    assert {"echo", "assistant"} <= {one["id"] for one in models} and sum(one["isDefault"] for one in models) <= 1
    assert (await client.get("/api/skills")).json()["data"][0]["errors"] == []
    assert (await client.get("/api/config")).json()["config"]["approval_policy"] == "on-request"
    assert "never" in (await client.get("/api/config/requirements")).json()["requirements"]["allowedApprovalPolicies"]


async def test_what_the_server_has_nothing_like_answers_501(client: httpx2.AsyncClient) -> None:
    session_id = await create_session(client)
    own = [("POST", f"/api/sessions/{session_id}/{path}") for path in ("background-terminals/clean", "review")]
    for method, path in (*ABSENT, *own):
        answer = await client.request(method, path)
        assert (answer.status_code, answer.json()["code"]) == (501, "method_not_supported"), path
        assert answer.json()["status"] == "error" and answer.json()["message"]
    for _, path in own:
        gone = await client.post(path.replace(session_id, "thr_unknown"))
        assert (gone.status_code, gone.json()) == (404, {"status": "not_found", "sessionId": "thr_unknown"})
    nowhere = await client.get(f"/api/sessions/{session_id}/nothing/here")
    assert (nowhere.status_code, nowhere.json()["status"], nowhere.json()["sessionId"]) == (
        404,
        "not_found",
        session_id,
    )
    nowhere = await client.get("/api/projects/p1/nothing")
    assert (nowhere.status_code, nowhere.json()["projectId"]) == (404, "p1")


async def test_turns_are_rolled_back_for_later_turns_and_readers(client: httpx2.AsyncClient) -> None:
    session_id = await create_session(client, model="echo")
    path = f"/api/sessions/{session_id}/rollback"
    wrong = await client.post(path, json={"numTurns": 0})
    assert (wrong.status_code, wrong.json()["code"]) == (400, "invalid_request")
    assert (await client.post(path)).status_code == 409  # nothing to take out
    turns = [await say(client, session_id, text) for text in ("one", "two", "three")]
    await reached(client, turns[-1])
    assert (await client.post(path, json={"numTurns": 2})).json()["status"] == "ok"
    shown = (await client.get(f"/api/sessions/{session_id}")).json()
    assert [turn["id"] for turn in shown["thread"]["turns"]] == turns[:1]
    assert [row["content"] for row in shown["transcript"]] == ["one", "one"]
    messages = (
        await client.get(f"/api/threads/{session_id}/events", params={"type": "runtime.thread.rolledBack"})
    ).json()
    assert messages["items"][0]["payload"]["turns"] == turns[:0:-1]
    assert (await client.post(path, json={"numTurns": 2})).status_code == 409


async def test_projects_group_sessions_and_everybody_hears_of_them(
    server: ServerProcess, client: httpx2.AsyncClient
) -> None:
    session_id = await create_session(client)
    frames: list[dict[str, Any]] = []
    async with connect(server.url.replace("http", "ws") + f"/api/stream?threadId={session_id}") as socket:
        await socket.recv()
        name = f"Plan {session_id}"
        made = (await client.post("/api/projects", json={"name": name})).json()
        assert (made["status"], made["orchestrationSession"]) == ("ok", None)
        project = made["project"]
        assert set(project) == {"projectId", "name", "workingDirectory", "createdAt", "updatedAt"}
        path = f"/api/projects/{project['projectId']}"
        taken = await client.post("/api/projects", json={"name": name.upper()})
        assert (taken.status_code, taken.json()) == (
            409, {"status": "duplicate_name", "projectId": project["projectId"]},
        )  # fmt: skip
        renamed = (await client.post(f"{path}/rename", json={"name": name + "!"})).json()
        assert renamed["project"]["name"] == name + "!"
        assert name + "!" in [one["name"] for one in (await client.get("/api/projects")).json()["data"]]
        put = await client.post(f"/api/sessions/{session_id}/project", json={"projectId": project["projectId"]})
        assert put.json() == {"status": "ok", "sessionId": session_id, "projectId": project["projectId"],
                              "previousProjectId": None}  # fmt: skip
        nowhere = await client.post(f"/api/sessions/{session_id}/project", json={"projectId": "prj_none"})
        assert (nowhere.status_code, nowhere.json()["status"]) == (404, "project_not_found")
        shown = (await client.get(f"/api/sessions/{session_id}")).json()["session"]
        assert shown["projectId"] == project["projectId"]
        forked = (await client.post(f"/api/sessions/{session_id}/fork")).json()["session"]
        assert forked["projectId"] == project["projectId"]
        assert (await client.delete(f"/api/sessions/{forked['sessionId']}")).status_code == 200
        full = await client.delete(path)
        assert (full.status_code, full.json()) == (
            409, {"status": "project_not_empty", "projectId": project["projectId"], "sessionCount": 1},
        )  # fmt: skip
        early = await client.post(f"{path}/chats/move-all", json={"destination": "archive"})
        assert (early.status_code, early.json()["status"]) == (409, "not_materialized")
        moved = (await client.post(f"{path}/chats/move-all", json={"destination": "unassigned"})).json()
        assert (moved["movedSessionCount"], moved["destination"]) == (1, "unassigned")
        assert (await client.get(f"{path}/agent-sessions")).json()["data"] == []
        deleted = (await client.post(f"{path}/chats/delete-all")).json()
        assert (deleted["deletedSessionCount"], deleted["skippedSessionCount"]) == (0, 0)
        gone = (await client.delete(path)).json()
        assert gone == {"status": "ok", "projectId": project["projectId"], "unassignedSessionCount": 0}
        assert (await client.delete(path)).status_code == 404
        async with asyncio.timeout(30):
            while not frames or frames[-1]["type"] != "project_deleted":
                frames.append(json.loads(await socket.recv()))
    types = [frame["type"] for frame in frames if frame["type"].startswith(("project_", "session_project"))]
    assert types[:3] == ["project_upserted", "project_upserted", "session_project_updated"]
    assert types[-2:] == ["session_project_updated", "project_deleted"]

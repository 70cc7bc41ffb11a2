"""/api/sessions over the real server: the published contract's calls, gates and bodies, row by row."""

import asyncio
from typing import Any

import httpx2
import pytest

from app.core.ids import new_id
from tests.clients import create_session, reached, say
from tests.server import ServerProcess

pytestmark = pytest.mark.requirement("PX-3")

ROW = {"messageId": "m1", "turnId": "t1", "role": "system", "type": "note", "content": "x", "status": "streaming"}


async def _waiting(client: httpx2.AsyncClient, session_id: str, what: str) -> dict[str, Any]:
    async with asyncio.timeout(30):
        while True:
            data: list[dict[str, Any]] = (await client.get(f"/api/sessions/{session_id}/{what}")).json()["data"]
            if data:
                return data[0]
            await asyncio.sleep(0.02)


# -- sessions -----------------------------------------------------------------------------------------


@pytest.mark.smoke
async def test_a_session_is_started_without_a_body_or_with_its_controls(client: httpx2.AsyncClient) -> None:
    plain = (await client.post("/api/sessions")).json()
    assert plain["session"]["title"] == "New chat"
    assert plain["session"]["materialized"] is False
    assert plain["thread"]["turns"] == []
    controls = {"cwd": "/src", "model": "echo", "approvalPolicy": "never", "networkAccess": "enabled",
                "filesystemSandbox": "workspace-write", "unknown": 1}  # fmt: skip
    session = (await client.post("/api/sessions", json=controls)).json()["session"]
    assert (session["cwd"], session["approvalPolicy"], session["projectId"]) == ("/src", "never", None)
    assert session["sessionControls"] == {"model": "echo", "approvalPolicy": "never", "networkAccess": "enabled",
                                          "filesystemSandbox": "workspace-write", "settings": {}}  # fmt: skip
    assert isinstance(session["createdAt"], int) and session["createdAt"] < 10**10


async def test_a_message_over_16_kib_is_whole_in_the_transcript_and_in_a_fork(client: httpx2.AsyncClient) -> None:
    session_id = await create_session(client)
    asked, row = (
        ("long-" * 100 + ", ") * 48 + "end",
        ROW | {"content": "row " * 5000, "details": "why " * 5000, "status": "complete"},
    )
    await reached(client, await say(client, session_id, asked, agent="echo"))
    assert (await client.post(f"/api/sessions/{session_id}/transcript/upsert", json=row)).status_code == 200
    forked = (await client.post(f"/api/sessions/{session_id}/fork")).json()["session"]["sessionId"]
    for shown_id in (session_id, forked):
        shown = (await client.get(f"/api/sessions/{shown_id}")).json()
        contents = [entry["content"] for entry in shown["transcript"]]
        assert sorted(contents) == sorted([asked, asked, row["content"]])
        assert [entry.get("details") for entry in shown["transcript"]].count(row["details"]) == 1
        user, agent = shown["thread"]["turns"][0]["items"]
        assert (user["content"][0]["text"], agent["text"]) == (asked, asked)


async def test_a_session_is_a_thread_of_ours(client: httpx2.AsyncClient) -> None:
    session_id = await create_session(client)
    turn = await say(client, session_id, "one two")
    assert (await reached(client, turn))["threadId"] == session_id
    session = (await client.get(f"/api/sessions/{session_id}")).json()
    assert session["session"]["materialized"] is True
    [shown] = session["thread"]["turns"]
    assert (shown["id"], shown["status"]) == (turn, "completed")
    assert [item["type"] for item in shown["items"]] == ["userMessage", "agentMessage"]
    assert session["thread"]["preview"] == "one two"
    assert [(row["role"], row["content"], row["status"]) for row in session["transcript"]] == [
        ("user", "one two", "complete"), ("assistant", "one two", "complete"),
    ]  # fmt: skip
    assert (await client.get(f"/api/threads/{session_id}")).json()["id"] == session_id


async def test_the_list_is_newest_first_and_goes_on_at_its_cursor(client: httpx2.AsyncClient) -> None:
    made = [await create_session(client) for _ in range(5)]
    seen: list[str] = []
    cursor: str | None = None
    while len(seen) < 5:
        params: dict[str, Any] = {"limit": 2} | ({"cursor": cursor} if cursor else {})
        page = (await client.get("/api/sessions", params=params)).json()
        assert page["archived"] is False
        seen += [session["sessionId"] for session in page["data"]]
        cursor = page["nextCursor"]
    assert seen[:5] == made[::-1]


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=201", "limit=x", "archived=yes", "cursor=x", "includeSystemOwned=1"]
)
async def test_a_wrong_parameter_of_the_list_is_refused(client: httpx2.AsyncClient, query: str) -> None:
    answer = await client.get(f"/api/sessions?{query}")
    assert answer.status_code == 400
    error = answer.json()
    assert (error["status"], error["code"]) == ("error", "invalid_request")
    assert error["issues"][0]["path"]


async def test_system_sessions_are_listed_only_when_asked_for(client: httpx2.AsyncClient) -> None:
    def ids(page: dict[str, Any]) -> set[str]:
        return {session["sessionId"] for session in page["data"]}

    assert "sys_ledger" not in ids((await client.get("/api/sessions", params={"limit": 200})).json())
    seen: set[str] = set()
    cursor: str | None = None
    while True:
        params: dict[str, Any] = {"limit": 200, "includeSystemOwned": "true"} | ({"cursor": cursor} if cursor else {})
        page = (await client.get("/api/sessions", params=params)).json()
        seen |= ids(page)
        cursor = page["nextCursor"]
        if cursor is None:
            break
    assert "sys_ledger" in seen


async def test_a_session_is_renamed(client: httpx2.AsyncClient) -> None:
    session_id = await create_session(client)
    answer = await client.post(f"/api/sessions/{session_id}/rename", json={"title": "Plans"})
    assert (answer.json()["status"], answer.json()["session"]["title"]) == ("ok", "Plans")
    for title in ("", "x" * 201, None):
        refused = await client.post(f"/api/sessions/{session_id}/rename", json={"title": title})
        assert (refused.status_code, refused.json()["code"]) == (400, "invalid_request")


async def test_a_session_is_put_away_once_something_was_asked(client: httpx2.AsyncClient) -> None:
    session_id = await create_session(client)
    early = await client.post(f"/api/sessions/{session_id}/archive")
    assert (early.status_code, early.json()) == (409, {"status": "not_materialized", "sessionId": session_id})
    fresh = await client.post(f"/api/sessions/{session_id}/unarchive")
    assert (fresh.status_code, fresh.json()["session"]["sessionId"]) == (200, session_id)
    await reached(client, await say(client, session_id, "x"))
    assert (await client.post(f"/api/sessions/{session_id}/archive")).json() == {
        "status": "ok", "sessionId": session_id,
    }  # fmt: skip
    away = (await client.get("/api/sessions", params={"archived": "true"})).json()
    assert (away["archived"], [one["sessionId"] for one in away["data"]][:1]) == (True, [session_id])
    here = (await client.get("/api/sessions", params={"limit": 200})).json()["data"]
    assert session_id not in {one["sessionId"] for one in here}
    back = (await client.post(f"/api/sessions/{session_id}/unarchive")).json()
    assert (back["status"], back["thread"]["id"]) == ("ok", session_id)


async def test_a_fork_names_its_source(client: httpx2.AsyncClient) -> None:
    session_id = await create_session(client)
    await reached(client, await say(client, session_id, "x"))
    forked = (await client.post(f"/api/sessions/{session_id}/fork")).json()
    assert (forked["status"], forked["sourceSessionId"]) == ("ok", session_id)
    assert forked["session"]["materialized"] is True
    assert forked["thread"]["id"] == forked["session"]["sessionId"] != session_id


async def test_a_fork_shows_the_transcript_of_its_source_and_goes_on_from_it(client: httpx2.AsyncClient) -> None:
    source = await create_session(client, model="assistant")
    first = await say(client, source, "please calculate")
    await reached(client, first)
    note = ROW | {"turnId": first, "status": "complete", "content": "a note"}
    await client.post(f"/api/sessions/{source}/transcript/upsert", json=note)
    whole = (await client.get(f"/api/sessions/{source}")).json()
    forked = (await client.post(f"/api/sessions/{source}/fork")).json()
    fork = forked["session"]["sessionId"]
    assert forked["thread"]["turns"] == whole["thread"]["turns"]
    assert forked["thread"]["preview"] == "please calculate"
    shown = (await client.get(f"/api/sessions/{fork}")).json()
    assert shown["transcript"] == whole["transcript"]
    assert "a note" in [row["content"] for row in shown["transcript"]]
    # What happens later in the source is not the fork's, and what happens in the fork comes after.
    await reached(client, await say(client, source, "only there"))
    second = await say(client, fork, "only here")
    await reached(client, second)
    shown = (await client.get(f"/api/sessions/{fork}")).json()
    assert shown["transcript"][: len(whole["transcript"])] == whole["transcript"]
    assert [row["content"] for row in shown["transcript"]][len(whole["transcript"]) :] == [
        "only here", "You said: only here",
    ]  # fmt: skip
    assert [turn["id"] for turn in shown["thread"]["turns"]] == [first, second]


async def test_a_fork_of_a_fork_keeps_what_was_said_though_the_sources_are_deleted(client: httpx2.AsyncClient) -> None:
    source = await create_session(client)
    long = "w" * 40_000
    await reached(client, await say(client, source, long))
    fork = (await client.post(f"/api/sessions/{source}/fork")).json()["session"]["sessionId"]
    await reached(client, await say(client, fork, "two"))
    rows = (await client.get(f"/api/sessions/{fork}")).json()["transcript"]
    last = (await client.post(f"/api/sessions/{fork}/fork")).json()["session"]["sessionId"]
    for gone in (source, fork):
        await client.delete(f"/api/sessions/{gone}")
    shown = (await client.get(f"/api/sessions/{last}")).json()["transcript"]
    assert [row["content"] for row in shown] == [long, long, "two", "two"]
    assert [row["messageId"] for row in shown] == [row["messageId"] for row in rows]
    # A client's change of a row that was taken over stays where the row is.
    change = {"messageId": shown[0]["messageId"], "turnId": shown[0]["turnId"], "role": "user", "type": "message",
              "content": "shorter", "status": "complete"}  # fmt: skip
    await client.post(f"/api/sessions/{last}/transcript/upsert", json=change)
    again = (await client.get(f"/api/sessions/{last}")).json()["transcript"]
    assert [row["content"] for row in again] == ["shorter", long, "two", "two"]


async def test_a_fork_in_the_middle_of_a_turn_shows_it_as_far_as_it_had_come(client: httpx2.AsyncClient) -> None:
    source = await create_session(client, model="assistant")
    turn = await say(client, source, "publish this")
    await _waiting(client, source, "approvals")
    forked = (await client.post(f"/api/sessions/{source}/fork")).json()
    assert [(one["id"], one["status"]) for one in forked["thread"]["turns"]] == [(turn, "interrupted")]
    shown = (await client.get(f"/api/sessions/{forked['session']['sessionId']}")).json()
    assert [row["role"] for row in shown["transcript"]][:1] == ["user"]
    assert "streaming" not in {row["status"] for row in shown["transcript"]}
    await client.post(f"/api/sessions/{source}/interrupt")


async def test_the_rows_that_a_fork_took_over_are_on_the_first_page_of_its_transcript(
    client: httpx2.AsyncClient,
) -> None:
    source = await create_session(client)
    for text in ("one", "two"):
        await reached(client, await say(client, source, text))
    fork = (await client.post(f"/api/threads/{source}/fork", json={})).json()["id"]
    await reached(client, await say(client, fork, "three"))
    seen: list[list[str]] = []
    after: str | None = "0"
    while after is not None:
        params: dict[str, Any] = {"after": after, "limit": 1}
        page = (await client.get(f"/api/threads/{fork}/transcript", params=params)).json()
        seen.append([row["content"] for row in page["items"]])
        after = page["nextCursor"]
    assert seen == [["one", "one", "two", "two"], ["three"], ["three"]]


async def test_resuming_keeps_the_tools_that_it_names(client: httpx2.AsyncClient) -> None:
    session_id = await create_session(client)
    tools = [{"name": "lookup", "description": "d", "inputSchema": {"type": "object"}}]
    resumed = (await client.post(f"/api/sessions/{session_id}/resume", json={"dynamicTools": tools})).json()
    assert set(resumed) == {"session", "thread"}
    refused = await client.post(f"/api/sessions/{session_id}/messages", json={"text": "x"})
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_params")  # this agent takes none
    many = await client.post(f"/api/sessions/{session_id}/resume", json={"dynamicTools": tools * 129})
    assert many.status_code == 400


async def test_a_deleted_session_answers_410_for_good(client: httpx2.AsyncClient) -> None:
    session_id = await create_session(client)
    await client.post(f"/api/sessions/{session_id}/rename", json={"title": "Plans"})
    deleted = (await client.delete(f"/api/sessions/{session_id}")).json()
    assert deleted == {"status": "ok", "sessionId": session_id, "title": "Plans", "deletedFileCount": 0}
    again = await client.delete(f"/api/sessions/{session_id}")
    gone = again.json()
    assert (again.status_code, gone["status"], gone["sessionId"], gone["title"]) == (
        410,
        "deleted",
        session_id,
        "Plans",
    )
    assert gone["deletedAt"].endswith("Z") and gone["message"]


# -- gates --------------------------------------------------------------------------------------------

CALLS = [
    ("GET", ""), ("DELETE", ""), ("POST", "/rename"), ("POST", "/archive"), ("POST", "/unarchive"), ("POST", "/fork"),
    ("POST", "/resume"), ("POST", "/messages"), ("POST", "/interrupt"), ("POST", "/turns/t/steer"),
    ("GET", "/approvals"), ("GET", "/tool-input"), ("GET", "/tool-calls"), ("POST", "/transcript/upsert"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path"), CALLS)
async def test_the_gates_come_in_their_order_and_before_the_body(
    client: httpx2.AsyncClient, method: str, path: str
) -> None:
    wrong: dict[str, Any] = {"json": {"title": 5, "text": 5, "input": 5}} if method == "POST" else {}
    missing = await client.request(method, f"/api/sessions/{new_id('thread')}{path}", **wrong)
    assert (missing.status_code, missing.json()["status"]) == (404, "not_found")
    gone = await create_session(client)
    await client.delete(f"/api/sessions/{gone}")
    deleted = await client.request(method, f"/api/sessions/{gone}{path}", **wrong)
    assert (deleted.status_code, deleted.json()["status"]) == (410, "deleted")
    if path in ("", "/transcript/upsert") and method != "DELETE":
        return  # the system's own may be read, and take rows
    system = await client.request(method, f"/api/sessions/sys_ledger{path}", **wrong)
    assert system.status_code == 403
    assert system.json() | {"message": ""} == {
        "status": "error", "code": "system_session", "sessionId": "sys_ledger", "message": "",
    }  # fmt: skip


async def test_a_system_session_can_be_read(client: httpx2.AsyncClient) -> None:
    assert (await client.get("/api/sessions/sys_ledger")).json()["session"]["title"] == "Ledger"


@pytest.mark.parametrize(
    ("content", "headers", "code"),
    [
        (b"{", {"content-type": "application/json"}, "request_failed"),
        (b"", {"content-type": "application/json"}, "request_failed"),
        (b"null", {"content-type": "application/json"}, "invalid_request"),
        (b"[]", {"content-type": "application/json"}, "invalid_request"),
        (b'{"text":"a","text":"b"}', {"content-type": "application/json"}, "request_failed"),
        (b'{"text":""}', {"content-type": "application/json"}, "invalid_request"),
        (b'{"text":"x","effort":"huge"}', {"content-type": "application/json"}, "invalid_request"),
        (b"", {}, "invalid_request"),
    ],
)
async def test_a_wrong_body_is_named_as_the_contract_does(
    client: httpx2.AsyncClient, content: bytes, headers: dict[str, str], code: str
) -> None:
    session_id = await create_session(client)
    answer = await client.post(f"/api/sessions/{session_id}/messages", content=content, headers=headers)
    assert (answer.status_code, answer.json()["status"], answer.json()["code"]) == (400, "error", code)


# -- turns --------------------------------------------------------------------------------------------


async def test_a_message_may_name_its_agent_and_the_session_keeps_it(client: httpx2.AsyncClient) -> None:
    session_id = await create_session(client)
    run = await reached(client, await say(client, session_id, "what is this", model="assistant"))
    assert run["agent"] == "assistant"
    run = await reached(client, await say(client, session_id, "and this"))
    assert run["agent"] == "assistant"
    refused = await client.post(f"/api/sessions/{session_id}/messages", json={"text": "x", "model": "nobody"})
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_params")
    controls = (await client.get(f"/api/sessions/{session_id}")).json()["session"]["sessionControls"]
    assert controls["model"] == "assistant"


async def test_the_active_turn_is_interrupted(client: httpx2.AsyncClient) -> None:
    session_id = await create_session(client, model="assistant")
    none = await client.post(f"/api/sessions/{session_id}/interrupt")
    assert (none.status_code, none.json()) == (409, {"status": "no_active_turn", "sessionId": session_id})
    turn = await say(client, session_id, "publish this")
    await _waiting(client, session_id, "approvals")
    other = await client.post(f"/api/sessions/{session_id}/interrupt", json={"turnId": "run_other"})
    assert other.status_code == 409
    interrupted = (await client.post(f"/api/sessions/{session_id}/interrupt")).json()
    assert interrupted == {"status": "ok", "sessionId": session_id, "turnId": turn}
    assert (await reached(client, turn))["status"] == "cancelled"
    [shown] = (await client.get(f"/api/sessions/{session_id}")).json()["thread"]["turns"]
    assert shown["status"] == "interrupted"


async def test_a_turn_is_steered_while_it_runs(client: httpx2.AsyncClient) -> None:
    session_id = await create_session(client, model="assistant")
    turn = await say(client, session_id, "publish this")
    await _waiting(client, session_id, "approvals")
    steer = f"/api/sessions/{session_id}/turns/{turn}/steer"
    steered = await client.post(steer, json={"input": "shorter"})
    assert (steered.status_code, steered.json()["result"]["status"]) == (200, "performed")
    assert steered.json()["result"]["actionType"] == "turn.steer.create"
    await client.post(f"/api/sessions/{session_id}/interrupt")
    await reached(client, turn)
    late = await client.post(steer, json={"input": "shorter"})
    assert (late.status_code, late.json()["result"]["status"]) == (409, "already_resolved")
    unknown = await client.post(f"/api/sessions/{session_id}/turns/run_x/steer", json={"input": "x"})
    assert (unknown.status_code, unknown.json()["result"]["status"]) == (409, "not_eligible")


async def test_controls_that_were_written_wrongly_elsewhere_are_not_shown(client: httpx2.AsyncClient) -> None:
    wrong = {"approvalPolicy": ["never"], "networkAccess": 1, "cwd": None, "dynamicTools": [{}], "settings": "x",
             "effort": "huge"}  # fmt: skip
    metadata = {f"session.{name}": value for name, value in (wrong | {"model": "echo"}).items()}
    thread = await client.post("/api/threads", json={"metadata": metadata})
    session_id = thread.json()["id"]
    shown = (await client.get(f"/api/sessions/{session_id}")).json()["session"]
    assert (shown["approvalPolicy"], shown["cwd"]) == ("on-request", "")
    assert shown["sessionControls"] == {
        "model": "echo",
        "approvalPolicy": "on-request",
        "networkAccess": "enabled",
        "filesystemSandbox": "workspace-write",
        "settings": {},
    }
    assert (await reached(client, await say(client, session_id, "hello")))["status"] == "completed"


# -- approvals ----------------------------------------------------------------------------------------


@pytest.mark.requirement("CM-4")
async def test_an_approval_is_listed_and_decided_once(client: httpx2.AsyncClient) -> None:
    session_id = await create_session(client, model="assistant")
    turn = await say(client, session_id, "publish this")
    asked = await _waiting(client, session_id, "approvals")
    assert (asked["threadId"], asked["turnId"], asked["status"]) == (session_id, turn, "pending")
    assert asked["details"]["tool"] == "publish" and asked["createdAt"].endswith("Z")
    decide = f"/api/approvals/{asked['approvalId']}/decision"
    wrong = await client.post(decide, json={"decision": "perhaps"})
    assert (wrong.status_code, wrong.json()["code"]) == (400, "invalid_request")
    decided = await client.post(decide, json={"decision": "accept"})
    assert decided.json() == {"status": "ok", "approvalId": asked["approvalId"], "threadId": session_id}
    assert (await client.post(decide, json={"decision": "accept"})).status_code == 404
    assert (await reached(client, turn))["status"] == "completed"
    assert (await client.get(f"/api/sessions/{session_id}/approvals")).json() == {"data": []}


@pytest.mark.requirement("CM-4")
@pytest.mark.parametrize(("decision", "status"), [("decline", "completed"), ("cancel", "cancelled")])
async def test_a_decline_lets_the_turn_go_on_and_a_cancel_ends_it(
    client: httpx2.AsyncClient, decision: str, status: str
) -> None:
    session_id = await create_session(client, model="assistant")
    turn = await say(client, session_id, "publish this")
    asked = await _waiting(client, session_id, "approvals")
    answer = await client.post(f"/api/approvals/{asked['approvalId']}/decision", json={"decision": decision})
    assert answer.status_code == 200
    assert (await reached(client, turn))["status"] == status


@pytest.mark.requirement("CM-4")
async def test_a_request_that_ended_with_its_turn_is_not_found(client: httpx2.AsyncClient) -> None:
    session_id = await create_session(client, model="assistant")
    turn = await say(client, session_id, "publish this")
    asked = await _waiting(client, session_id, "approvals")
    await client.post(f"/api/sessions/{session_id}/interrupt")
    await reached(client, turn)
    late = await client.post(f"/api/approvals/{asked['approvalId']}/decision", json={"decision": "accept"})
    assert (late.status_code, late.json()) == (404, {"status": "not_found", "approvalId": asked["approvalId"]})


@pytest.mark.requirement("CM-4")
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/approvals/{}/decision", {"decision": "accept"}),
        ("/api/tool-input/{}/decision", {"decision": "accept"}),
        ("/api/tool-calls/{}/response", {"text": "x"}),
    ],
)
async def test_an_unknown_request_is_404_after_its_body_was_read(
    client: httpx2.AsyncClient, path: str, body: dict[str, str]
) -> None:
    unknown = path.format("int_unknown")
    assert (await client.post(unknown, json={"decision": 1, "success": "x"})).status_code == 400
    answer = await client.post(unknown, json=body)
    assert (answer.status_code, answer.json()["status"]) == (404, "not_found")


@pytest.mark.requirement("CM-4")
async def test_an_approval_cannot_be_answered_as_something_else(client: httpx2.AsyncClient) -> None:
    session_id = await create_session(client, model="assistant")
    await say(client, session_id, "publish this")
    asked = await _waiting(client, session_id, "approvals")
    answer = await client.post(f"/api/tool-calls/{asked['approvalId']}/response", json={"text": "x"})
    assert answer.status_code == 404
    await client.delete(f"/api/sessions/{session_id}")
    gone = await client.post(f"/api/approvals/{asked['approvalId']}/decision", json={"decision": "accept"})
    assert (gone.status_code, gone.json()["sessionId"]) == (410, session_id)


# -- transcript rows ----------------------------------------------------------------------------------


@pytest.mark.requirement("CM-7")
async def test_a_row_is_merged_and_the_answer_is_the_merged_row(client: httpx2.AsyncClient) -> None:
    session_id = await create_session(client)
    upsert = f"/api/sessions/{session_id}/transcript/upsert"
    first = (await client.post(upsert, json=ROW | {"details": "d", "startedAt": 50, "completedAt": 10})).json()
    assert (first["status"], first["sessionId"]) == ("ok", session_id)
    assert (first["entry"]["startedAt"], first["entry"]["completedAt"]) == (50, 50)
    await client.post(upsert, json=ROW | {"status": "complete", "content": "done", "details": None, "startedAt": 60})
    late = (await client.post(upsert, json=ROW | {"content": "late", "role": "user", "type": "other"})).json()["entry"]
    assert late == {"messageId": "m1", "turnId": "t1", "role": "user", "type": "other", "content": "done",
                    "status": "complete", "details": "d", "startedAt": 50, "completedAt": 50}  # fmt: skip
    again = (await client.post(upsert, json=ROW | {"status": "error", "content": "no"})).json()["entry"]
    assert (again["status"], again["content"], again["details"]) == ("error", "no", "d")
    [row] = (await client.get(f"/api/sessions/{session_id}")).json()["transcript"]
    assert row == again


@pytest.mark.requirement("CM-7")
@pytest.mark.parametrize(
    "wrong",
    [{"messageId": ""}, {"role": "tool"}, {"status": "done"}, {"content": 5}, {"startedAt": -1}, {"details": {}}],
)
async def test_a_wrong_row_is_refused(client: httpx2.AsyncClient, wrong: dict[str, Any]) -> None:
    session_id = await create_session(client)
    answer = await client.post(f"/api/sessions/{session_id}/transcript/upsert", json=ROW | wrong)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")


@pytest.mark.requirement("CM-7")
async def test_rows_take_their_places_among_the_messages(client: httpx2.AsyncClient) -> None:
    session_id = await create_session(client)
    turn = await say(client, session_id, "one")
    await reached(client, turn)

    async def add(message_id: str, **more: Any) -> None:
        row = ROW | {"messageId": message_id, "turnId": turn} | more
        assert (await client.post(f"/api/sessions/{session_id}/transcript/upsert", json=row)).status_code == 200

    await add("elsewhere", turnId="unknown")
    await add("before the answer")
    await add("after the question", details=f'{{"anchorItemId":"{turn}:input"}}')
    rows = (await client.get(f"/api/sessions/{session_id}")).json()["transcript"]
    assert [row["messageId"] if row["type"] == "note" else row["role"] for row in rows] == [
        "user", "after the question", "before the answer", "assistant", "elsewhere",
    ]  # fmt: skip
    assert {row["status"] for row in rows if row["turnId"] == turn} == {"complete"}  # nothing streams in an ended turn


@pytest.mark.requirement("CM-4")
async def test_what_is_pending_survives_a_restart(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("restart")
    async with ServerProcess.running(folder) as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
        session_id = await create_session(client, model="assistant")
        turn = await say(client, session_id, "publish this")
        asked = await _waiting(client, session_id, "approvals")
        gone = await create_session(client)
        await client.delete(f"/api/sessions/{gone}")
        await asyncio.to_thread(server.kill)
    async with ServerProcess.running(folder) as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
        assert (await client.get(f"/api/sessions/{gone}")).status_code == 410
        assert await _waiting(client, session_id, "approvals") == asked
        await client.post(f"/api/approvals/{asked['approvalId']}/decision", json={"decision": "accept"})
        assert (await reached(client, turn))["status"] == "completed"

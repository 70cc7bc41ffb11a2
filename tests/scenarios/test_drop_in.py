"""Being a drop-in for codex-manager's clients: each row of what was measured, each operation, each type of event.

A strict client asserts them over HTTP and the socket of a real server, on both databases. Leaves to others: the frames
of each single event (`test_stream_aliases`), and what the controls of a session do (`test_session_limits`).
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx2
import pytest
from websockets.asyncio.client import connect

from app.core import json
from app.core.settings import Settings
from tests.clients import create_session, reached, say
from tests.protocols.auth.auth_server import open_auth_server
from tests.scenarios.strict_sessions import (
    EVENT_TYPES,
    NOT_SERVED,
    OPERATIONS,
    WITHOUT_A_FACT,
    WORKSPACE,
    StrictClient,
    make_workspace,
)
from tests.server import ServerProcess

pytestmark = pytest.mark.requirement("CM-4", "CM-5")

LOOKUP: Final = [{"name": "lookup", "description": "Looks it up.", "inputSchema": {"type": "object"}}]
PLAIN: Final = {"model": None, "approvalPolicy": "on-request", "networkAccess": "enabled",
                "filesystemSandbox": "workspace-write"}  # fmt: skip
SECONDS: Final = 60.0
"""For anything that is awaited: no test is about how long it takes."""


@pytest.fixture(scope="module")
def place(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    workspace = make_workspace(tmp_path_factory.mktemp("drop-in") / "workspace")
    started = ServerProcess.start(settings.data_dir, settings.database_url, workspace)
    try:
        yield started
    finally:
        started.stop()


class Frames:
    """What a socket was sent, as it comes."""

    def __init__(self) -> None:
        self.all: list[dict[str, Any]] = []
        self._news = asyncio.Event()

    def add(self, frame: dict[str, Any]) -> None:
        self.all.append(frame)
        self._news.set()

    def types(self) -> set[str]:
        return {frame["type"] for frame in self.all}

    async def first(self) -> dict[str, Any]:
        await asyncio.wait_for(self._news.wait(), SECONDS)
        return self.all[0]

    async def of(self, type_: str, **values: Any) -> dict[str, Any]:
        """The payload of the first frame of this type with these values."""
        async with asyncio.timeout(SECONDS):
            while True:
                self._news.clear()
                for frame in self.all:
                    payload = frame.get("payload") or {}
                    if frame["type"] == type_ and all(payload.get(name) == value for name, value in values.items()):
                        return frame
                await self._news.wait()


class Drive(NamedTuple):
    strict: StrictClient
    server: ServerProcess

    async def session(self, **controls: Any) -> str:
        made = await self.strict("createSession", body=controls)
        found: str = made["session"]["sessionId"]
        return found

    async def turn(self, session: str, text: str) -> str:
        """A turn that needs nobody, to its end."""
        turn = await say(self.strict.http, session, text)
        await reached(self.strict.http, turn)
        return turn

    async def rows(self, session: str) -> list[dict[str, Any]]:
        shown: list[dict[str, Any]] = (await self.strict("readSession", s=session))["transcript"]
        return shown

    async def pending(self, operation: str, session: str) -> dict[str, Any]:
        async with asyncio.timeout(SECONDS):
            while True:
                found: list[dict[str, Any]] = (await self.strict(operation, s=session))["data"]
                if found:
                    return found[0]
                await asyncio.sleep(0.05)

    @contextlib.asynccontextmanager
    async def listening(self, session: str | None = None) -> AsyncIterator[Frames]:
        frames = Frames()
        address = self.server.stream_url + (f"?threadId={session}" if session else "")
        async with connect(address, max_size=None) as socket:

            async def read() -> None:
                async for text in socket:
                    frames.add(json.loads(text))

            reading = asyncio.create_task(read())
            try:
                assert await frames.first() == {"type": "ready", "threadId": session}
                yield frames
            finally:
                reading.cancel()


@pytest.fixture
async def drive(place: ServerProcess) -> AsyncIterator[Drive]:
    async with httpx2.AsyncClient(base_url=place.url, timeout=SECONDS, verify=False) as client:
        yield Drive(StrictClient(client), place)


# -- rows 1 to 23 -------------------------------------------------------------------------------------

Row = Callable[[Drive], Awaitable[None]]
ROWS: Final[dict[int, Row]] = {}
ELSEWHERE: Final = {12, 13}
"""Rows that need a server with other settings: their tests are below."""


def row(number: int) -> Callable[[Row], Row]:
    def add(check: Row) -> Row:
        assert number not in ROWS
        ROWS[number] = check
        return check

    return add


@row(1)
async def _archive_of_a_fresh_session(drive: Drive) -> None:
    session = await drive.session()
    answer = await drive.strict("archiveSession", 409, s=session)
    assert answer == {"status": "not_materialized", "sessionId": session}


@row(2)
async def _interrupt_without_an_active_turn(drive: Drive) -> None:
    session = await drive.session()
    answer = await drive.strict("interruptSessionTurn", 409, {}, s=session)
    assert answer == {"status": "no_active_turn", "sessionId": session}


@row(3)
async def _steering_an_ended_turn(drive: Drive) -> None:
    session = await drive.session()
    turn = await drive.turn(session, "hello")
    answer = await drive.strict("steerTurn", 409, {"input": "Continue."}, s=session, t=turn)
    assert answer["code"] == answer["result"]["status"] == "already_resolved"


@row(4)
async def _one_setting_by_its_key(drive: Drive) -> None:
    session = await drive.session()
    body = {"scope": "session", "key": "n", "value": 1, "actor": "me", "source": "test"}
    answer = await drive.strict("setSessionSettings", body=body, s=session)
    assert (answer["key"], answer["settings"]) == ("n", {"n": 1})


@row(5)
async def _a_setting_that_is_null(drive: Drive) -> None:
    session = await drive.session()
    answer = await drive.strict("setSessionSettings", body={"scope": "session", "key": "n", "value": None}, s=session)
    assert (answer["status"], answer["settings"]) == ("ok", {"n": None})
    shown = await drive.strict("getSessionSettings", query={"scope": "session", "key": "n"}, s=session)
    assert (shown["found"], shown["value"]) == (True, None)


@row(6)
async def _a_summary_of_applied_controls(drive: Drive) -> None:
    session = await drive.session()
    body = {"scope": "session", "controls": {**PLAIN, "settings": {"a": 1}}}
    answer = await drive.strict("applySessionControls", body=body, s=session)
    assert answer["summary"] == "default | on-request | enabled | workspace-write | settings:1"


@row(7)
async def _a_message_over_16_kib(drive: Drive) -> None:
    session = await drive.session()
    text = "long " * 8000
    await drive.turn(session, text)
    rows = await drive.rows(session)
    assert [one["content"] for one in rows] == [text, f"You said: {text}"]


@row(8)
async def _types_and_roles_of_rows(drive: Drive) -> None:
    session = await drive.session()
    await drive.turn(session, "plan it")
    asked, called, said = await drive.rows(session)
    assert (asked["role"], asked["type"]) == ("user", "userMessage")
    assert (called["role"], called["type"]) == ("system", "mcpToolCall")
    assert "todos" in called["content"] and json.loads(called["details"])["tool"] == "todos"
    assert (said["role"], said["type"], said["content"]) == ("assistant", "agentMessage", "Planned.")


@row(9)
async def _rows_of_what_was_asked(drive: Drive) -> None:
    session = await drive.session(dynamicTools=LOOKUP)
    for text, operation, prefix, name, answering in (
        ("write row nine", "listSessionApprovals", "approval-{}", "approval", "decideApproval"),
        ("ask me", "listSessionToolInput", "tool-input-{}", "tool_input", "decideToolInput"),
        ("look it up", "listSessionToolCalls", "tool-call-{}-1", "tool_call", "respondToolCall"),
    ):
        turn = await say(drive.strict.http, session, text)
        asked = await drive.pending(operation, session)
        request = asked.get("approvalId") or asked["requestId"]
        rows = await drive.rows(session)
        assert all(one["content"] for one in rows if one["role"] == "assistant")  # none before a call that waits
        during = {one["messageId"]: one["type"] for one in rows}
        assert during[prefix.format(request)] == f"{name}.request"
        body = {"text": "42"} if name == "tool_call" else {"decision": "decline"}
        await drive.strict(answering, body=body, **{"a" if name == "approval" else "r": request})
        await reached(drive.strict.http, turn)
        after = {one["messageId"]: one["type"] for one in await drive.rows(session)}
        assert after[prefix.format(request).replace("-1", "-2")] == f"{name}.resolved"


@row(10)
async def _an_approval_after_its_turn(drive: Drive) -> None:
    session = await drive.session()
    turn = await say(drive.strict.http, session, "write row ten")
    asked = (await drive.pending("listSessionApprovals", session))["approvalId"]
    await drive.strict("interruptSessionTurn", body={"turnId": turn}, s=session)
    await reached(drive.strict.http, turn)
    answer = await drive.strict("decideApproval", 404, {"decision": "accept"}, a=asked)
    assert answer == {"status": "not_found", "approvalId": asked}


@row(11)
async def _tool_input_after_its_turn(drive: Drive) -> None:
    session = await drive.session()
    turn = await say(drive.strict.http, session, "ask me")
    asked = (await drive.pending("listSessionToolInput", session))["requestId"]
    await drive.strict("interruptSessionTurn", body={"turnId": turn}, s=session)
    await reached(drive.strict.http, turn)
    answer = await drive.strict("decideToolInput", 404, {"decision": "accept"}, r=asked)
    assert answer == {"status": "not_found", "requestId": asked}


@row(14)
async def _extensions_are_no_agent(drive: Drive) -> None:
    assert (await drive.strict("listAgentExtensions"))["modules"] == []


@row(15)
async def _the_method_of_an_approval(drive: Drive) -> None:
    session = await drive.session()
    turn = await say(drive.strict.http, session, "write row fifteen")
    asked = await drive.pending("listSessionApprovals", session)
    assert asked["method"] == "item/fileChange/requestApproval"
    await drive.strict("decideApproval", body={"decision": "cancel"}, a=asked["approvalId"])
    await reached(drive.strict.http, turn)


@row(16)
async def _the_scope_of_a_decision(drive: Drive) -> None:
    for decision, status in (("decline", "failed"), ("accept", "completed")):
        session = await drive.session()
        async with drive.listening(session) as frames:
            turn = await say(drive.strict.http, session, f"write {decision} {session}")
            asked = (await drive.pending("listSessionApprovals", session))["approvalId"]
            await drive.strict("decideApproval", body={"decision": decision, "scope": "session"}, a=asked)
            heard = await frames.of("approval_resolved", approvalId=asked)
            assert (heard["payload"]["decision"], heard["payload"]["scope"]) == (decision, "session")
            await reached(drive.strict.http, turn)
        # The same call again needs nobody.
        again = await drive.turn(session, f"write {decision} {session}")
        shown = (await drive.strict("readSession", s=session))["thread"]["turns"]
        [call] = [item for item in shown[-1]["items"] if item["type"] == "mcpToolCall"]
        assert shown[-1]["id"] == again and (status == "completed" or call["status"] == status)
        events = await drive.strict.http.get(f"/api/runs/{again}/events", params={"type": "runtime.tool.invoked"})
        granted = [one["payload"]["approvalId"] for one in events.json()["items"]]
        assert granted == ([asked] if decision == "accept" else [])


@row(17)
async def _declined_tool_input(drive: Drive) -> None:
    session = await drive.session()
    async with drive.listening(session) as frames:
        turn = await say(drive.strict.http, session, "ask me")
        asked = (await drive.pending("listSessionToolInput", session))["requestId"]
        await drive.strict("decideToolInput", body={"decision": "decline"}, r=asked)
        heard = await frames.of("tool_user_input_resolved", requestId=asked)
    assert heard["payload"]["decision"] == "decline"
    await reached(drive.strict.http, turn)


@row(18)
async def _a_tool_call_that_failed(drive: Drive) -> None:
    session = await drive.session(dynamicTools=LOOKUP)
    async with drive.listening(session) as frames:
        turn = await say(drive.strict.http, session, "look it up")
        asked = (await drive.pending("listSessionToolCalls", session))["requestId"]
        items = [{"type": "inputText", "text": "no such key"}]
        body = {"response": {"success": False, "contentItems": items}}
        await drive.strict("respondToolCall", body=body, r=asked)
        heard = await frames.of("tool_call_resolved", requestId=asked)
    assert (heard["payload"]["status"], heard["payload"]["success"]) == ("resolved", False)
    await reached(drive.strict.http, turn)
    said = (await drive.rows(session))[-1]["content"]
    assert "no such key" in said and "contentItems" not in said


@row(19)
async def _the_frame_of_a_deleted_session(drive: Drive) -> None:
    session = await drive.session()
    async with drive.listening("thr_of_nobody") as frames:
        await drive.strict("deleteSession", s=session)
        heard = await frames.of("session_deleted", sessionId=session)
    assert heard["threadId"] == session
    assert set(heard["payload"]) == {"status", "sessionId", "title", "message", "deletedAt"}
    assert heard["payload"]["status"] == "deleted" and heard["payload"]["title"] == "New chat"


@row(20)
async def _an_entry_without_nulls(drive: Drive) -> None:
    session = await drive.session()
    body = {"messageId": "m", "turnId": "t", "role": "system", "type": "note", "content": "x", "status": "complete",
            "details": None}  # fmt: skip
    async with drive.listening(session) as frames:
        answer = await drive.strict("upsertSessionTranscriptEntry", body=body, s=session)
        heard = await frames.of("transcript_updated", messageId="m")
    assert set(heard["payload"]) == {"threadId", "turnId", "messageId", "type", "entry"}
    assert None not in heard["payload"]["entry"].values() and None not in answer["entry"].values()


@row(21)
async def _what_is_missing_is_refused(drive: Drive) -> None:
    session = await drive.session()
    entry = {"messageId": "m", "turnId": "", "role": "system", "type": "n", "content": "x", "status": "complete"}
    await drive.strict("upsertSessionTranscriptEntry", 400, entry, s=session)
    await drive.strict("setSessionSettings", 400, {"key": "a", "value": 1}, s=session)
    partial = {"scope": "session", "controls": {"approvalPolicy": "never"}}
    answer = await drive.strict("applySessionControls", 400, partial, s=session)
    assert (answer["status"], answer["code"], bool(answer["issues"])) == ("error", "invalid_request", True)


@row(22)
async def _unarchiving_a_fresh_session(drive: Drive) -> None:
    session = await drive.session()
    answer = await drive.strict("unarchiveSession", s=session)
    assert (answer["status"], answer["session"]["sessionId"]) == ("ok", session)


@row(23)
async def _features_and_methods(drive: Drive) -> None:
    answer = await drive.strict("getCapabilities", query={"refresh": "true"})
    assert len(answer["features"]) == 23 and set(map(type, answer["features"].values())) == {bool}
    for name in ("toolUserInput", "dynamicToolCall", "commandExec", "feedbackUpload", "mcpOauth", "mcpReload",
                 "accountLifecycle", "configRead", "configWrite", "configRequirements", "apps", "skills",
                 "collaborationModes", "experimentalFeatures", "planUpdates", "diffUpdates", "tokenUsage"):  # fmt: skip
        assert name in answer["features"]
    for method in ("configRequirements/read", "skills/config/write", "skills/remote/read", "skills/remote/write",
                   "item/tool/call", "item/tool/requestUserInput", "tool/requestUserInput"):  # fmt: skip
        assert answer["methods"][method] in ("available", "disabled")


def test_every_row_of_the_page_has_its_check() -> None:
    assert sorted(ROWS | dict.fromkeys(ELSEWHERE)) == list(range(1, 24))


@pytest.mark.parametrize("number", sorted(ROWS))
async def test_the_row_is_answered_as_its_clients_expect(drive: Drive, number: int) -> None:
    await ROWS[number](drive)


async def test_row_12_locked_defaults_and_row_13_a_purged_session(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path, session_defaults_locked=True) as server:
        strict = StrictClient(await server.caller("admin"))
        session = await create_session(strict.http)
        for body in ({"key": "a", "value": 1}, {"settings": {"a": 1}, "mode": "merge"}):
            locked = await strict("setSessionSettings", 423, {"scope": "default", **body}, s=session)
            assert (locked["scope"], locked["sessionId"], locked["settings"]) == ("default", session, {})
        await strict("deleteSessionSetting", 423, query={"scope": "default"}, s=session, k="a")
        await strict("applySessionControls", 423, {"scope": "default", "controls": PLAIN}, s=session)
        await strict("deleteSession", s=session)
        before = await strict("readSession", 410, s=session)
        await server.holdfast.store.retention.purge(deleted_days=0)
        after = await strict("readSession", 410, s=session)
        assert "title" not in after and after["deletedAt"] == before["deletedAt"]
        assert (await strict("sendSessionMessage", 410, {"text": "x"}, s=session))["deletedAt"] == before["deletedAt"]


# -- the item lifecycle -------------------------------------------------------------------------------


async def test_each_item_of_every_kind_of_turn_is_started_once_and_completed_once(drive: Drive) -> None:
    session = await drive.session(dynamicTools=LOOKUP)
    async with drive.listening(session) as frames:
        for text in ("hello", "plan it", "write items", "look it up"):
            turn = await say(drive.strict.http, session, text)
            if text == "write items":
                asked = await drive.pending("listSessionApprovals", session)
                await drive.strict("decideApproval", body={"decision": "decline"}, a=asked["approvalId"])
            if text == "look it up":
                asked = await drive.pending("listSessionToolCalls", session)
                await drive.strict("respondToolCall", body={"text": "42"}, r=asked["requestId"])
            await reached(drive.strict.http, turn)
        await drive.strict("setSessionApprovalPolicy", body={"approvalPolicy": "never"}, s=session)
        last = await drive.turn(session, "x")
        ended: dict[str, Any] = {"id": last, "status": "completed", "items": [], "error": None}
        await frames.of("notification", method="turn/completed", params={"threadId": session, "turn": ended})
    told = [frame["payload"] for frame in frames.all if frame["type"] == "notification"]
    started = Counter(one["params"]["item"]["id"] for one in told if one["method"] == "item/started")
    completed = Counter(one["params"]["item"]["id"] for one in told if one["method"] == "item/completed")
    assert started == completed and set(started.values()) == {1} and len(started) >= 11
    types = {one["params"]["item"]["type"] for one in told if "item" in one["params"]}
    assert types == {"agentMessage", "mcpToolCall"}


# -- every operation ----------------------------------------------------------------------------------


async def _runtime(strict: StrictClient) -> None:
    for operation in ("getApiInfo", "getHealth", "getCapabilities", "listModels", "listApps", "listSkills",
                      "listMcpServers", "readConfig", "readConfigRequirements", "listAgentExtensions"):  # fmt: skip
        await strict(operation)
    await strict("listModels", query={"limit": "1", "cursor": "1"})
    await strict("reloadMcpConfig")
    await strict("reloadAgentExtensions")
    for operation in sorted(NOT_SERVED - {"cleanBackgroundTerminals", "startReview", "startMcpOauthLogin"}):
        body = None if OPERATIONS[operation][0] == "GET" else {"anything": 1}
        await strict(operation, 501, body)
    await strict("startMcpOauthLogin", 501, {"scopes": None}, m="files")


async def _projects(strict: StrictClient, session: str) -> str:
    name = f"Project {session}"
    project: str = (await strict("createProject", body={"name": name}))["project"]["projectId"]
    await strict("createProject", 409, {"name": name})
    await strict("renameProject", body={"name": name + "!"}, p=project)
    await strict("renameProject", 404, {"name": "x"}, p="prj_none")
    await strict("listProjects")
    await strict("setSessionProject", body={"projectId": project}, s=session)
    missing = await strict("setSessionProject", 404, {"projectId": "prj_none"}, s=session)
    assert missing["status"] == "project_not_found"
    await strict("deleteProject", 409, p=project)
    moved = await strict("moveProjectChats", body={"destination": "unassigned"}, p=project)
    assert moved["movedSessionCount"] == 1
    await strict("setSessionProject", body={"projectId": project}, s=session)
    return project


async def _controls(strict: StrictClient, session: str) -> None:
    await strict("getSessionControls", s=session)
    await strict("applySessionControls", body={"scope": "session", "controls": PLAIN}, s=session)
    await strict("setSessionSettings", body={"scope": "session", "settings": {"a/b": 1}, "mode": "merge"}, s=session)
    await strict("getSessionSettings", s=session)
    removed = await strict("deleteSessionSetting", query={"scope": "session", "actor": "me"}, s=session, k="a%2Fb")
    assert (removed["key"], removed["removed"]) == ("a/b", True)
    await strict("setSessionApprovalPolicy", body={"approvalPolicy": "on-request"}, s=session)
    await strict("renameSession", body={"title": "A title"}, s=session)
    await strict("renameSession", 400, {"title": ""}, s=session)
    await strict("resumeSession", s=session)
    await strict("listSessions", query={"archived": "false", "limit": "2", "includeSystemOwned": "false"})


async def _turns(drive: Drive, session: str) -> None:
    strict = drive.strict
    await strict("sendSessionMessage", 400, {"text": ""}, s=session)
    turn = (await strict("sendSessionMessage", 202, {"text": "write operations"}, s=session))["turnId"]
    asked = await drive.pending("listSessionApprovals", session)
    await strict("steerTurn", body={"input": "Be brief."}, s=session, t=turn)
    await strict("decideApproval", body={"decision": "accept"}, a=asked["approvalId"])
    await reached(strict.http, turn)
    turn = (await strict("sendSessionMessage", 202, {"text": "ask me"}, s=session))["turnId"]
    asked = await drive.pending("listSessionToolInput", session)
    body = {"decision": "accept", "answers": {"colour": {"answers": ["red"]}}}
    await strict("decideToolInput", body=body, r=asked["requestId"])
    await reached(strict.http, turn)
    assert "red" in (await drive.rows(session))[-1]["content"]
    await strict("resumeSession", body={"dynamicTools": LOOKUP}, s=session)
    turn = (await strict("sendSessionMessage", 202, {"text": "look it up"}, s=session))["turnId"]
    asked = await drive.pending("listSessionToolCalls", session)
    await strict("respondToolCall", body={"contentItems": [{"type": "inputText", "text": "42"}]}, r=asked["requestId"])
    await reached(strict.http, turn)
    await strict("respondToolCall", 404, {"text": "again"}, r=asked["requestId"])
    compacting = await strict("compactSession", s=session)
    assert (await reached(strict.http, compacting["jobId"]))["status"] == "completed"
    turn = (await strict("sendSessionMessage", 202, {"text": "hm", "model": "slow"}, s=session))["turnId"]
    await strict("interruptSessionTurn", body={}, s=session)
    assert (await reached(strict.http, turn))["status"] == "cancelled"
    await strict("sendSessionMessage", 400, {"text": "x", "model": "nobody"}, s=session)
    entry = {"messageId": "m", "turnId": turn, "role": "system", "type": "n", "content": "x", "status": "streaming"}
    await strict("upsertSessionTranscriptEntry", body=entry, s=session)


async def _whole(drive: Drive, session: str) -> None:
    strict = drive.strict
    await strict("forkSession", s=session)
    await strict("rollbackSession", 400, {"numTurns": 0}, s=session)
    await strict("rollbackSession", body={"numTurns": 1}, s=session)
    await strict("rollbackSession", 409, {"numTurns": 400}, s=session)
    for operation in ("cleanBackgroundTerminals", "startReview"):
        await strict(operation, 501, s=session)
    await strict("archiveSession", s=session)
    await strict("unarchiveSession", s=session)


async def _jobs(drive: Drive, session: str, project: str) -> None:
    strict = drive.strict
    fresh = await drive.session()
    await strict("suggestSessionRequest", 409, {}, s=fresh)
    await strict("enqueueSuggestedSessionRequest", 409, {}, s=fresh)
    suggested = await strict("suggestSessionRequest", body={"model": "worker", "effort": "low"}, s=session)
    assert suggested["status"] == "ok"
    queued = await strict("enqueueSuggestedSessionRequest", 202, {"model": "slow", "draft": "And"}, s=session)
    assert queued["projectId"] == project
    again = await strict("enqueueSuggestedSessionRequest", 202, {"model": "slow"}, s=session)
    assert (again["dedupe"], again["jobId"], again["requestKey"]) == (
        "already_queued", queued["jobId"], queued["requestKey"],
    )  # fmt: skip
    await strict("getOrchestratorJob", j=queued["jobId"])
    await strict("getOrchestratorJob", 404, j="run_none")
    listed = (await strict("listProjectOrchestratorJobs", p=project))["data"]
    assert [one["id"] for one in listed][-1] == queued["jobId"] and len(listed) == 3
    await strict("cancelOrchestratorJob", j=queued["jobId"])
    await reached(strict.http, queued["jobId"])
    await strict("cancelOrchestratorJob", 409, j=queued["jobId"])
    await strict("cancelOrchestratorJob", 404, j="run_none")
    owned = (await strict("listProjectAgentSessions", p=project))["data"]
    assert {one["agent"] for one in owned} == {"worker", "slow"}
    system = owned[0]["sessionId"]
    await strict("readSession", s=system)
    for operation in ("deleteSession", "forkSession", "archiveSession", "listSessionApprovals", "getSessionControls"):
        await strict(operation, 403, s=system)
    await strict("sendSessionMessage", 403, {"text": "x"}, s=system)
    body = {"requestKey": "k", "status": "complete", "suggestion": "Go on."}
    await strict("upsertSuggestedSessionRequest", body=body, s=session)
    missing = {"requestKey": "k", "status": "complete"}
    assert (await strict("upsertSuggestedSessionRequest", 400, missing, s=session))["code"] == "missing_suggestion"


def _bodies(operation: str) -> Any:
    """A body that is right, for operations of a session that need one."""
    return {
        "renameSession": {"title": "t"}, "setSessionProject": {"projectId": None},
        "applySessionControls": {"scope": "session", "controls": PLAIN}, "sendSessionMessage": {"text": "x"},
        "setSessionSettings": {"scope": "session", "key": "a", "value": 1}, "steerTurn": {"input": "x"},
        "setSessionApprovalPolicy": {"approvalPolicy": "never"},
        "upsertSessionTranscriptEntry": {"messageId": "m", "turnId": "t", "role": "system", "type": "n",
                                         "content": "x", "status": "complete"},
        "upsertSuggestedSessionRequest": {"requestKey": "k", "status": "streaming"},
    }.get(operation)  # fmt: skip


async def _gates(strict: StrictClient, gone: str) -> None:
    """A deleted and an unknown session, on every operation that names one."""
    for operation, (_, path, shapes) in OPERATIONS.items():
        if "{s}" not in path:
            continue
        ids: dict[str, Any] = {name: "x" for name in ("t", "k") if f"{{{name}}}" in path}
        assert {404, 410} <= set(shapes), operation
        await strict(operation, 410, _bodies(operation), s=gone, **ids)
        await strict(operation, 404, _bodies(operation), s="thr_none", **ids)


async def test_every_operation_answers_with_the_shape_that_its_strict_client_reads(drive: Drive) -> None:
    strict = drive.strict
    await _runtime(strict)
    session = await drive.session(cwd="", model=None, approvalPolicy=None)
    project = await _projects(strict, session)
    await _controls(strict, session)
    await _turns(drive, session)
    await _whole(drive, session)
    await _jobs(drive, session, project)
    deleted = await strict("deleteProjectChats", body={}, p=project)
    assert deleted["deletedSessionCount"] == 2  # with the fork
    await strict("deleteSession", 410, s=session)
    await strict("deleteProject", p=project)
    await strict("deleteProject", 404, p=project)
    other = await drive.session()
    await strict("deleteSession", s=other)
    await _gates(strict, other)
    nowhere = await strict.http.get(f"/api/sessions/{other}/nothing")
    assert (nowhere.status_code, nowhere.json()["sessionId"]) == (404, other)
    succeeded = {operation for operation, status in strict.called if status < 300}
    assert succeeded == set(OPERATIONS) - NOT_SERVED
    assert {operation for operation, status in strict.called if status == 501} == NOT_SERVED


# -- every type of event ------------------------------------------------------------------------------


async def _requests(drive: Drive, session: str, frames: Frames) -> None:
    strict = drive.strict
    turn = await say(strict.http, session, "write types")
    asked = (await frames.of("approval", threadId=session))["payload"]
    # A pause while it waits: the run stops before its next step and asks whoever may resume it.
    paused = await strict.http.post(f"/api/runs/{turn}/commands", json={"command": "pause"})
    assert paused.status_code == 202, paused.text
    await strict("decideApproval", body={"decision": "accept"}, a=asked["approvalId"])
    waiting = (await frames.of("server_request"))["payload"]
    resumed = await strict.http.post(f"/api/interrupts/{waiting['id']}/answer", json={"decision": "resume"})
    assert resumed.status_code == 200, resumed.text
    await reached(strict.http, turn)
    turn = await say(strict.http, session, "ask me")
    asked = (await frames.of("tool_user_input_requested"))["payload"]
    await strict("decideToolInput", body={"decision": "cancel"}, r=asked["requestId"])
    await reached(strict.http, turn)
    turn = await say(strict.http, session, "look it up")
    asked = (await frames.of("tool_call_requested"))["payload"]
    await strict("respondToolCall", body={"text": "42"}, r=asked["requestId"])
    await reached(strict.http, turn)


async def _job_frames(drive: Drive, session: str, frames: Frames) -> None:
    strict = drive.strict
    done = await strict("enqueueSuggestedSessionRequest", 202, {"model": "worker"}, s=session)
    await frames.of("orchestrator_job_completed", jobId=done["jobId"])
    failing = await strict("enqueueSuggestedSessionRequest", 202, {"model": "broken"}, s=session)
    await frames.of("orchestrator_job_failed", jobId=failing["jobId"])
    slow = await strict("enqueueSuggestedSessionRequest", 202, {"model": "slow"}, s=session)
    await frames.of("orchestrator_job_started", jobId=slow["jobId"])
    await strict("cancelOrchestratorJob", j=slow["jobId"])
    await frames.of("orchestrator_job_canceled", jobId=slow["jobId"])
    for type_, state in (("queued", "queued"), ("started", "running"), ("progress", "running")):
        heard = await frames.of(f"orchestrator_job_{type_}", jobId=done["jobId"])
        assert (heard["threadId"], heard["payload"]["state"]) == (session, state)
        assert {"projectId", "jobType", "sourceSessionId"} <= set(heard["payload"])


@pytest.mark.requirement("CM-3", "CM-6", "CM-7")
async def test_every_type_of_event_is_seen_in_a_real_stream(tmp_path: Path) -> None:
    """On a server of its own: the last type needs the budget of the day to be used up."""
    workspace = make_workspace(tmp_path / "workspace")
    started = ServerProcess.start(tmp_path / "data", None, workspace)
    try:
        async with httpx2.AsyncClient(base_url=started.url, timeout=SECONDS, verify=False) as client:
            drive = Drive(StrictClient(client), started)
            session = await drive.session(dynamicTools=LOOKUP)
            async with drive.listening(session) as frames:
                await _requests(drive, session, frames)
                await drive.turn(session, "plan it")
                await _job_frames(drive, session, frames)
                body = _bodies("upsertSessionTranscriptEntry")
                await drive.strict("upsertSessionTranscriptEntry", body=body, s=session)
                project = await _projects(drive.strict, session)
                await drive.strict("deleteProjectChats", body={}, p=project)
                await drive.strict("deleteProject", p=project)
                other = await drive.session()
                (workspace / "holdfast.yaml").write_text(
                    WORKSPACE.replace(
                        "defaultAgent: worker", "defaultAgent: worker, budgets: {tenant: {tokensPerDay: 1}}"
                    )
                )
                await drive.strict("reloadMcpConfig")
                await drive.turn(other, "once too often")
                await frames.of("account_rate_limits_updated")
                await frames.of("project_deleted")
            seen = frames.types() & EVENT_TYPES
            assert EVENT_TYPES - seen == WITHOUT_A_FACT
            # Whatever is sent is one of these, an event of our own, or a signal by the name of its method.
            known = EVENT_TYPES | {"ready"}
            assert all(type_ in known or type_.startswith(("app_server.", "runtime.")) for type_ in frames.types())
    finally:
        started.stop()


@pytest.mark.requirement("G9", "S20")
async def test_a_decision_for_the_session_outlives_a_killed_server_and_is_audited(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path / "workspace")
    server = await asyncio.to_thread(ServerProcess.start, tmp_path / "data", None, workspace)
    try:
        async with httpx2.AsyncClient(base_url=server.url, timeout=SECONDS) as client:
            drive = Drive(StrictClient(client), server)
            session = await drive.session()
            turn = await say(client, session, "write kept")
            asked = (await drive.pending("listSessionApprovals", session))["approvalId"]
            await drive.strict("decideApproval", body={"decision": "accept", "scope": "session"}, a=asked)
            await reached(client, turn)
        await asyncio.to_thread(server.kill)
        server = await asyncio.to_thread(server.again)
        async with httpx2.AsyncClient(base_url=server.url, timeout=SECONDS) as client:
            drive = Drive(StrictClient(client), server)
            again = await drive.turn(session, "write kept")  # nobody is asked
            events = await client.get(f"/api/runs/{again}/events", params={"type": "runtime.tool.invoked"})
            assert [one["payload"]["approvalId"] for one in events.json()["items"]] == [asked]
            # Who decided, what, and for how long is in the log of the session.
            found = await client.get(f"/api/threads/{session}/events", params={"type": "runtime.interrupt.resolved"})
            [decided] = found.json()["items"]
            assert decided["payload"]["answer"] == {"decision": "approve", "scope": "session"}
            assert decided["actor"].startswith("user:")
            # Another text is another argument, and another session another conversation.
            other = await drive.session()
            for place, text in ((session, "write other"), (other, "write kept")):
                turn = await say(client, place, text)
                asked = (await drive.pending("listSessionApprovals", place))["approvalId"]
                await drive.strict("decideApproval", body={"decision": "cancel"}, a=asked)
                await reached(client, turn)
    finally:
        await asyncio.to_thread(server.stop)

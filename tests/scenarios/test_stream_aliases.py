"""The contract's own frames on `/api/stream`, row by row: each event's other spellings, in their order."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from websockets.asyncio.client import ClientConnection, connect

from app.core import json
from app.core.ids import new_id
from app.core.principal import DEFAULT_TENANT, LOCAL
from app.core.settings import Settings
from app.events.catalog import Payload, adapter, artifact, execution, interrupt, ledger, model, request, thread, tool
from app.events.catalog.values import ArtifactValue, ErrorValue, Usage
from app.events.recorder import Scope
from app.protocols.dialects.codex import normal
from app.runtime.intake.threads import ThreadChange
from tests.clients import receive
from tests.server import InProcessServer, in_process

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(settings: Settings) -> AsyncIterator[InProcessServer]:
    async with in_process(settings) as server:
        await server.holdfast.executor.drain(0)  # the runs are recorded here and not carried out
        yield server


async def _record(server: InProcessServer, thread_id: str, *payloads: Payload, run: str | None = None) -> None:
    answer = await server.holdfast.store.recorder.record(Scope(DEFAULT_TENANT, thread_id, run), *payloads)
    assert hasattr(answer, "events"), answer


async def _thread_with_run(server: InProcessServer, title: str | None = "Plans") -> tuple[str, str]:
    thread_id, run_id = new_id("thread"), new_id("run")
    await _record(server, thread_id, thread.ThreadCreated(title=title))
    return thread_id, run_id


async def _one_event(socket: ClientConnection) -> list[dict[str, Any]]:
    """The frames up to the one that says it is its event's last."""
    frames = [await receive(socket)]
    while not frames[-1].get("last"):
        frames.append(await receive(socket))
    assert [frame["part"] for frame in frames] == list(range(len(frames)))
    assert len({frame["seq"] for frame in frames}) == 1
    # What the runtime says about the events by itself is not what was recorded here.
    return frames if frames[0]["type"] != "runtime.progress.narration" else await _one_event(socket)


async def _event_of(socket: ClientConnection, type_: str) -> list[dict[str, Any]]:
    """The frames of the first event of that type. A server on Postgres that polls finds the last event of a thread that
    somebody follows, and a socket without a cursor hears it, although it is older than the socket."""
    while (frames := await _one_event(socket))[0]["type"] != type_:
        assert frames[0]["type"] == "runtime.thread.created", frames
    return frames


async def _frames_of(server: InProcessServer, *payloads: Payload) -> list[list[dict[str, Any]]]:
    """What a subscriber hears of these events of a run, event by event."""
    thread_id, run_id = await _thread_with_run(server)
    # After the thread's creation: without a cursor, a server on Postgres may find that event only now.
    async with connect(f"{server.stream_url}?threadId={thread_id}&afterSeq=1") as socket:
        await receive(socket)
        await _record(server, thread_id, request.RequestQueued(input="x", agent="echo"), *payloads, run=run_id)
        heard = [await _one_event(socket) for _ in range(len(payloads) + 1)]
    return heard[1:]


def _types(frames: list[dict[str, Any]]) -> list[str]:
    return [frame["type"] for frame in frames]


def _signal(text: str, phase: str = adapter.OUTPUT_DELTA) -> adapter.AdapterEvent:
    return adapter.AdapterEvent(
        event=adapter.Signal(adapter="echo", phase=phase, message_id="msg_1", part=0, text=text)
    )


def _said(text: str, tokens: int) -> model.ModelCompleted:
    return model.ModelCompleted(
        message_id="msg_1", model="m", provider="p", text=text, tool_calls=[], finish_reason="stop",
        usage=Usage(input_tokens=tokens, output_tokens=1, cached_tokens=2),
    )  # fmt: skip


def _call(tool_name: str, arguments: Any, call_id: str) -> list[Payload]:
    return [
        tool.ToolInvoked(call_id=call_id, tool=tool_name, arguments=arguments, argument_hash="h", effect="readonly"),
        tool.ToolResulted(call_id=call_id, tool=tool_name, ok=True, output={"accepted": 1}),
    ]


def _asked(kind: Any, **more: Any) -> interrupt.InterruptRaised:
    return interrupt.InterruptRaised(
        interrupt_id="int_1", kind=kind, title="May I?", expires_at="2030-01-01T00:00:00.000Z", **more
    )


# -- notifications ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "type_"),
    [
        ("turn/started", "turn.started"),
        ("thread/tokenUsage/updated", "thread.token_usage.updated"),
        ("item/agentMessage/delta", "item.agent_message.delta"),
        ("item/tool/requestUserInput", "item.tool.request_user_input"),
    ],
)
async def test_a_method_is_normalised_segment_by_segment(method: str, type_: str) -> None:
    assert normal(method) == type_


@pytest.mark.requirement("CM-5", "CM-6")
@pytest.mark.parametrize(
    ("payload", "types"),
    [
        (request.RequestStarted(executor="e", epoch=1), ["app_server.turn.started", "notification"]),
        (
            _signal("hi"),
            ["app_server.item.started", "notification", "app_server.item.agent_message.delta", "notification"],
        ),
        (
            _signal("hm", adapter.REASONING_DELTA),
            ["app_server.item.started", "notification", "app_server.item.reasoning.text_delta", "notification"],
        ),
        (_signal("{", adapter.TOOL_DELTA), []),
        (_signal("", "agent.handoff"), []),
        (execution.CheckpointCreated(label="x"), []),
        (
            request.RequestCompleted(output="x"),
            [
                "app_server.item.started",
                "notification",
                "app_server.item.completed",
                "notification",
                "app_server.turn.completed",
                "notification",
            ],
        ),
        (
            request.RequestFailed(error=ErrorValue(code="C", message="m")),
            ["app_server.error", "notification", "app_server.turn.completed", "notification"],
        ),
        (
            artifact.ArtifactCreated(artifact=ArtifactValue(id="a", name="d", kind="diff")),
            ["app_server.turn.diff.updated", "turn_diff_updated", "notification"],
        ),
        (
            artifact.ArtifactCreated(artifact=ArtifactValue(id="a", name="f.txt", kind="file", diff="+x", former="")),
            ["app_server.turn.diff.updated", "turn_diff_updated", "notification"],
        ),
        (artifact.ArtifactCreated(artifact=ArtifactValue(id="a", name="d")), []),
    ],
    ids=lambda value: value.type if isinstance(value, Payload) else "",
)
async def test_a_notification_is_sent_as_signal_then_alias_then_raw(
    server: InProcessServer, payload: Payload, types: list[str]
) -> None:
    [frames] = await _frames_of(server, payload)
    assert _types(frames) == [payload.type, *types]
    assert [frame["last"] for frame in frames] == [False] * len(types) + [True]


@pytest.mark.requirement("CM-5")
async def test_a_signal_of_the_app_server_says_where_it_comes_from(server: InProcessServer) -> None:
    _, (own, signal, raw) = await _frames_of(server, _signal("ho"), _signal("hi"))
    frames = [own, signal, raw]
    thread_id, run_id = own["threadId"], own["runId"]
    params = {"threadId": thread_id, "turnId": run_id, "itemId": "msg_1", "delta": "hi"}
    assert signal["payload"] == {
        "source": "app_server", "signalType": "notification", "eventType": "app_server.item.agent_message.delta",
        "method": "item/agentMessage/delta", "receivedAt": own["at"],
        "context": {"threadId": thread_id, "turnId": run_id}, "params": params,
        "session": {"id": thread_id, "title": "Plans", "projectId": None},
    }  # fmt: skip
    assert raw["payload"] == {"method": "item/agentMessage/delta", "params": params}
    assert {frame["threadId"] for frame in frames} == {thread_id}


@pytest.mark.requirement("CM-6")
async def test_tokens_are_sent_with_the_thread_s_total(server: InProcessServer) -> None:
    first, second = await _frames_of(server, _said("a", 5), _said("b", 7))
    assert _types(first) == [
        "runtime.model.completed", "app_server.item.started", "notification", "app_server.item.completed",
        "notification", "app_server.thread.token_usage.updated", "thread_token_usage_updated", "notification",
    ]  # fmt: skip
    usage = second[2]["payload"]["tokenUsage"]
    assert usage["last"] == {"inputTokens": 7, "cachedInputTokens": 2, "outputTokens": 1, "reasoningOutputTokens": 0,
                             "totalTokens": 8}  # fmt: skip
    assert usage["total"] == {"inputTokens": 12, "cachedInputTokens": 4, "outputTokens": 2,
                              "reasoningOutputTokens": 0, "totalTokens": 14}  # fmt: skip


@pytest.mark.requirement("CM-6")
async def test_the_plan_is_what_the_calls_of_the_todos_tool_add_up_to(server: InProcessServer) -> None:
    one, two = {"id": "1", "title": "look", "status": "in_progress"}, {"id": "2", "title": "do", "status": "pending"}
    done = one | {"status": "done"}
    heard = await _frames_of(
        server,
        *_call("todos", {"items": [one, two]}, "c1"),
        *_call("todos", {"items": [done], "mode": "update"}, "c2"),
    )
    assert _types(heard[3]) == [
        "runtime.tool.resulted", "app_server.item.completed", "notification",
        "app_server.turn.plan.updated", "turn_plan_updated", "notification",
    ]  # fmt: skip
    assert heard[1][4]["payload"]["plan"] == [
        {"step": "look", "status": "inProgress"}, {"step": "do", "status": "pending"},
    ]  # fmt: skip
    assert heard[3][4]["payload"]["plan"] == [
        {"step": "look", "status": "completed"}, {"step": "do", "status": "pending"},
    ]  # fmt: skip


# -- requests -----------------------------------------------------------------------------------------


@pytest.mark.requirement("CM-4", "CM-5")
@pytest.mark.parametrize(
    ("raised", "method", "alias"),
    [
        (
            _asked("approval", tool="publish", call_id="c", arguments={"a": 1}),
            "item.command_execution.request_approval",
            "approval",
        ),
        (
            _asked("approval", tool="write_file", call_id="c", changes_files=True),
            "item.file_change.request_approval",
            "approval",
        ),
        (_asked("question", questions=[{"id": "q"}]), "item.tool.request_user_input", "tool_user_input_requested"),
        (_asked("external", tool="lookup", call_id="c", arguments={}), "item.tool.call", "tool_call_requested"),
        (_asked("recovery", tool="publish", call_id="c"), "item.tool.request_recovery", "server_request"),
        (_asked("paused"), "turn.request_resume", "server_request"),
    ],
    ids=lambda value: value.kind if isinstance(value, interrupt.InterruptRaised) else "",
)
async def test_a_request_is_sent_as_signal_and_exactly_one_more(
    server: InProcessServer, raised: interrupt.InterruptRaised, method: str, alias: str
) -> None:
    [frames] = await _frames_of(server, raised)
    assert _types(frames) == ["runtime.interrupt.raised", f"app_server.request.{method}", alias]
    signal = frames[1]["payload"]
    assert (signal["signalType"], signal["requestId"]) == ("request", "int_1")
    if alias == "server_request":
        assert set(frames[2]["payload"]) == {"method", "id", "params"}
    else:
        assert frames[2]["payload"]["status"] == "pending"
        assert frames[2]["payload"]["turnId"] == frames[0]["runId"]


@pytest.mark.requirement("CM-4")
@pytest.mark.parametrize(
    ("kind", "answer", "alias", "expected"),
    [
        ("approval", {"decision": "approve"}, "approval_resolved",
         {"approvalId": "int_1", "status": "resolved", "decision": "accept", "scope": "turn"}),
        ("approval", {"decision": "deny"}, "approval_resolved",
         {"approvalId": "int_1", "status": "resolved", "decision": "decline", "scope": "turn"}),
        ("approval", {"decision": "approve", "scope": "session"}, "approval_resolved",
         {"approvalId": "int_1", "status": "resolved", "decision": "accept", "scope": "session"}),
        ("question", {"answers": {}, "decision": "decline"}, "tool_user_input_resolved",
         {"requestId": "int_1", "status": "resolved", "decision": "decline"}),
        ("question", {"answers": {"q": "yes"}}, "tool_user_input_resolved",
         {"requestId": "int_1", "status": "resolved", "decision": "accept"}),
        ("external", {"output": 1}, "tool_call_resolved",
         {"requestId": "int_1", "status": "resolved", "success": True}),
        ("external", {"error": "no"}, "tool_call_resolved",
         {"requestId": "int_1", "status": "resolved", "success": False}),
        ("external", None, "tool_call_resolved", {"requestId": "int_1", "status": "expired", "success": False}),
        ("approval", None, "approval_resolved", {"approvalId": "int_1", "status": "expired"}),
    ],
)  # fmt: skip
async def test_an_answer_is_sent_by_the_kind_of_its_request(
    server: InProcessServer, kind: str, answer: dict[str, Any] | None, alias: str, expected: dict[str, Any]
) -> None:
    raised = interrupt.InterruptRaised.model_validate(
        _asked(kind).to_json() | {"interruptId": (asked := new_id("interrupt"))}
    )
    ended: Payload = (
        interrupt.InterruptExpired(interrupt_id=asked)
        if answer is None
        else interrupt.InterruptResolved(interrupt_id=asked, answer=answer, answered_by="user:x")
    )
    _, frames = await _frames_of(server, raised, ended)
    assert _types(frames) == [ended.type, alias]
    name = "approvalId" if kind == "approval" else "requestId"
    assert frames[1]["payload"] == expected | {name: asked}


@pytest.mark.requirement("CM-4")
@pytest.mark.parametrize("kind", ["recovery", "paused"])
async def test_answers_to_requests_without_a_frame_of_their_own_have_none(server: InProcessServer, kind: str) -> None:
    asked = new_id("interrupt")
    raised = interrupt.InterruptRaised.model_validate(_asked(kind).to_json() | {"interruptId": asked})
    _, frames = await _frames_of(server, raised, interrupt.InterruptExpired(interrupt_id=asked))
    assert _types(frames) == ["runtime.interrupt.expired"]


# -- threads, rows, globals ---------------------------------------------------------------------------


@pytest.mark.requirement("CM-7")
async def test_a_row_is_sent_as_it_is_after_the_merge(server: InProcessServer) -> None:
    thread_id, _ = await _thread_with_run(server)
    row = {"messageId": "m", "turnId": "t", "role": "user", "type": "note", "content": "x", "status": "complete"}
    async with connect(f"{server.stream_url}?threadId={thread_id}&afterSeq=1") as socket:
        await receive(socket)
        for more in ({"details": "d"}, {"content": "late", "status": "streaming"}):
            await server.holdfast.threads.upsert(LOCAL, thread_id, thread.TranscriptUpserted.model_validate(row | more))
        await _one_event(socket)
        frames = await _one_event(socket)
    assert _types(frames) == ["runtime.transcript.upserted", "transcript_updated"]
    data = frames[1]["payload"]
    assert not {"startedAt", "completedAt"} & data["entry"].keys()
    assert {name: data[name] for name in ("threadId", "turnId", "messageId", "type")} == {
        "threadId": thread_id, "turnId": "t", "messageId": "m", "type": "note",
    }  # fmt: skip
    assert (data["entry"]["content"], data["entry"]["status"], data["entry"]["details"]) == ("x", "complete", "d")


@pytest.mark.requirement("CM-5")
async def test_a_thread_reports_its_beginning_its_name_and_its_archiving(server: InProcessServer) -> None:
    thread_id = new_id("thread")
    async with connect(f"{server.stream_url}?threadId={thread_id}") as socket:
        await receive(socket)
        await _record(server, thread_id, thread.ThreadCreated(title="Plans"))
        await server.holdfast.threads.update(LOCAL, thread_id, ThreadChange(title="New", archived=True))
        assert _types(await _one_event(socket))[1:] == ["app_server.thread.started", "notification"]
        frames = await _one_event(socket)
        assert _types(frames)[1:] == [
            "app_server.thread.name.updated", "notification", "app_server.thread.archived", "notification",
        ]  # fmt: skip


@pytest.mark.requirement("CM-2")
async def test_a_deleted_session_is_sent_to_everybody_and_the_rest_of_it_to_its_own(server: InProcessServer) -> None:
    mine, other = (await _thread_with_run(server))[0], (await _thread_with_run(server))[0]
    async with (
        connect(f"{server.stream_url}?threadId={mine}&afterSeq=1") as filtered,
        connect(f"{server.stream_url}?threadId={other}&afterSeq=1") as elsewhere,
        connect(server.stream_url) as unfiltered,
    ):
        for socket in (filtered, elsewhere, unfiltered):
            await receive(socket)
        await server.holdfast.threads.delete(LOCAL, mine)
        whole = ["runtime.thread.deleted", "session_deleted"]
        for socket in (filtered, unfiltered):
            assert _types(await _event_of(socket, whole[0])) == whole
        frame = await receive(elsewhere)
        assert (frame["type"], frame["threadId"]) == ("session_deleted", mine)
        assert (frame["payload"]["status"], frame["payload"]["sessionId"]) == ("deleted", mine)
        assert frame["payload"]["title"] == "Plans" and frame["payload"]["message"] and frame["payload"]["deletedAt"]


@pytest.mark.requirement("CM-2")
async def test_the_end_of_a_system_session_is_sent_only_to_who_asked_for_it(server: InProcessServer) -> None:
    mine, _ = await _thread_with_run(server)
    system = new_id("thread").replace("thr_", "sys_")
    await _record(server, system, thread.ThreadCreated(owner="system"))
    async with (
        connect(f"{server.stream_url}?threadId={system}") as exact,
        connect(server.stream_url) as unfiltered,
    ):
        await receive(exact), await receive(unfiltered)
        await _record(server, system, thread.ThreadDeleted())
        await _record(server, mine, thread.ThreadClosed())
        assert _types(await _event_of(exact, "runtime.thread.deleted")) == ["runtime.thread.deleted"]
        await _event_of(unfiltered, "runtime.thread.closed")


@pytest.mark.requirement("CM-6")
async def test_a_loaded_workspace_is_news_of_the_app_list_for_everybody(server: InProcessServer) -> None:
    mine, _ = await _thread_with_run(server)
    async with connect(f"{server.stream_url}?threadId={mine}&afterSeq=1") as socket:
        await receive(socket)
        await _record(server, "sys_ledger", ledger.WorkspaceLoaded(digest="d", agents=3))
        frames = await _one_event(socket)
        assert _types(frames) == ["runtime.workspace.loaded", "app_list_updated"]
        assert {frame["threadId"] for frame in frames} == {None}


@pytest.mark.requirement("CM-6")
async def test_a_login_to_an_mcp_server_is_news_for_everybody_of_the_tenant(server: InProcessServer) -> None:
    mine, _ = await _thread_with_run(server)
    async with connect(f"{server.stream_url}?threadId={mine}&afterSeq=1") as socket:
        await receive(socket)
        await _record(server, "sys_ledger", ledger.McpOAuthCompleted(server="files", success=True))
        frames = await _one_event(socket)
        assert _types(frames) == ["runtime.mcp.oauth.completed", "mcp_oauth_completed"]
        assert {frame["threadId"] for frame in frames} == {None}
        assert frames[1]["payload"] == {"name": "files", "success": True, "error": None}


@pytest.mark.requirement("CM-6")
async def test_a_tenant_s_budget_is_news_of_the_rate_limits_for_everybody(server: InProcessServer) -> None:
    mine, _ = await _thread_with_run(server)
    async with connect(f"{server.stream_url}?threadId={mine}&afterSeq=1") as socket:
        await receive(socket)
        spent = execution.BudgetExceeded(budget="tokens", scope="tenant", limit=1, used=2)
        within = execution.BudgetExceeded(budget="tokens", scope="run", limit=1, used=2)
        other, run_id = await _thread_with_run(server)
        queued = request.RequestQueued(input="x", agent="echo")
        await _record(server, other, queued, within, spent, run=run_id)
        frame = await receive(socket)
        assert (frame["type"], frame["threadId"]) == ("account_rate_limits_updated", None)


# -- types and parts ----------------------------------------------------------------------------------


@pytest.mark.requirement("CM-1")
@pytest.mark.parametrize(
    ("types", "heard"),
    [
        (["runtime.*"], ["runtime.model.completed"]),
        (["thread_token_usage_updated"], ["thread_token_usage_updated"]),
        (
            ["app_server.*", "runtime.request.*"],
            ["app_server.item.started", "app_server.item.completed", "app_server.thread.token_usage.updated"],
        ),
        (["*"], None),
        (["*updated"], ["app_server.thread.token_usage.updated", "thread_token_usage_updated"]),
    ],
)
async def test_a_subscriber_hears_the_types_it_asked_for(
    server: InProcessServer, types: list[str], heard: list[str] | None
) -> None:
    thread_id, run_id = await _thread_with_run(server)
    queued = request.RequestQueued(input="x", agent="echo")
    asked = {"type": "subscribe", "threadId": thread_id, "types": [*types, "runtime.thread.closed"]}
    async with connect(server.stream_url) as socket:
        await receive(socket)
        await socket.send(json.dumps(asked).decode())
        await socket.send('{"type":"ping"}')
        assert (await receive(socket))["type"] == "pong"
        await _record(server, thread_id, queued, _said("a", 5), thread.ThreadClosed(), run=run_id)
        frames: list[str] = []
        while (frame := await receive(socket))["type"] != "runtime.thread.closed":
            frames += [frame["type"]] if frame["seq"] == 3 else []  # the answer's
    assert frames == heard if heard is not None else len(frames) == 8


@pytest.mark.requirement("CM-1")
@pytest.mark.parametrize("types", [[], ["a b"], [5], "runtime.*", {"a": 1}, [""], ["x"] * 51])
async def test_types_that_cannot_be_are_no_command(server: InProcessServer, types: Any) -> None:
    async with connect(server.stream_url) as socket:
        await receive(socket)
        await socket.send(json.dumps({"type": "subscribe", "threadId": "a", "types": types}).decode())
        assert (await receive(socket))["type"] == "error"


@pytest.mark.requirement("PX-1")
async def test_a_subscriber_may_come_back_at_every_part_of_every_event(server: InProcessServer) -> None:
    thread_id, run_id = await _thread_with_run(server)
    queued = request.RequestQueued(input="x", agent="echo")
    asked = new_id("interrupt")
    raised = interrupt.InterruptRaised.model_validate(_asked("approval").to_json() | {"interruptId": asked})
    expired = interrupt.InterruptExpired(interrupt_id=asked)
    plan = _call("todos", {"items": [{"id": "1", "title": "look", "status": "done"}]}, "c1")
    payloads = [queued, _signal("hi"), *plan, _said("a", 5), raised, expired, request.RequestCompleted(output="x")]
    async with connect(f"{server.stream_url}?threadId={thread_id}&afterSeq=0") as socket:
        await receive(socket)
        await _record(server, thread_id, *payloads, run=run_id)
        whole = [await receive(socket)]
        while (whole[-1]["type"], whole[-1]["last"]) != ("notification", True) or "turn/completed" not in str(
            whole[-1]
        ):
            whole.append(await receive(socket))
    for at, frame in enumerate(whole[:-1]):
        query = f"?threadId={thread_id}&afterSeq={frame['seq']}&afterPart={frame['part']}"
        async with connect(server.stream_url + query) as socket:
            await receive(socket)
            assert [await receive(socket) for _ in whole[at + 1 :]] == whole[at + 1 :]

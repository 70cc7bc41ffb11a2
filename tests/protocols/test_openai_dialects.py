"""The OpenAI dialects: pure projections of a run's events, numbered by them alone."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core import json
from app.events.catalog import Payload, adapter, interrupt, model, request, tool
from app.events.catalog.log import ProgressNarration
from app.events.envelope import Event
from app.protocols.dialects.openai_chat import ChatAnswer, ChatChunks
from app.protocols.dialects.openai_progress import progress_frame
from app.protocols.dialects.openai_responses import ResponseEvents
from app.protocols.dialects.openai_segment import SegmentReading, parse_response_id, response_id
from tests.views.story import events_from

CALLED = {"model": "demo", "provider": "p"}


def queued(**more: Any) -> request.RequestQueued:
    return request.RequestQueued.model_validate({"agent": "helper", "input": "hi", **more})


STARTED = request.RequestStarted(executor="e", epoch=1)
RESUMED = request.RequestResumed(executor="e", epoch=2, reason="answer")


def asked(message_id: str, **more: Any) -> model.ModelRequested:
    payload = {"providerModel": "x", "attempt": 1, "requestHash": "0", "parameters": {}}
    return model.ModelRequested.model_validate({**CALLED, **payload, "messageId": message_id, **more})


def delta(message_id: str, text: str) -> adapter.AdapterEvent:
    signal = {"adapter": "native", "phase": "agent.output.delta", "messageId": message_id, "part": 0, "text": text}
    return adapter.AdapterEvent.model_validate({"event": signal})


def said(message_id: str, text: str, finish: str = "stop", calls: tuple[tuple[str, str], ...] = ()) -> Payload:
    payload = {
        **CALLED, "messageId": message_id, "text": text, "finishReason": finish,
        "toolCalls": [{"id": call, "name": name, "args": {"q": 1}} for call, name in calls],
        "usage": {"inputTokens": 3, "outputTokens": 2},
    }  # fmt: skip
    return model.ModelCompleted.model_validate(payload)


def broke(message_id: str) -> model.ModelFailed:
    error = {"code": "PROVIDER_CUT_OFF", "message": "m"}
    return model.ModelFailed.model_validate({**CALLED, "messageId": message_id, "error": error, "abandoned": True})


def wanted(call_id: str, name: str = "look") -> interrupt.InterruptRaised:
    return interrupt.InterruptRaised(
        interrupt_id=f"int_{call_id}", kind="external", title="t", expires_at="2099", tool=name, call_id=call_id,
        arguments={"q": 1},
    )  # fmt: skip


def answered(call_id: str) -> interrupt.InterruptResolved:
    return interrupt.InterruptResolved(interrupt_id=f"int_{call_id}", answer={"output": "o"}, answered_by="user:u")


def plain_run() -> list[Event]:
    return events_from(
        queued(), STARTED, asked("m1"), delta("m1", "Hel"), delta("m1", "lo"), said("m1", "Hello"),
        request.RequestCompleted(output="Hello", message_id="m1"),
    )  # fmt: skip


def run_with_client_tools() -> list[Event]:
    tools = [{"name": "look", "input": {"type": "object"}}]
    return events_from(
        queued(client_tools=tools), STARTED, asked("m1"), delta("m1", "Let me see."),
        said("m1", "Let me see.", "tool_use", (("c1", "look"), ("c2", "look"))), wanted("c1"), wanted("c2"),
        answered("c1"), answered("c2"), RESUMED, asked("m2"), delta("m2", "Done."), said("m2", "Done."),
        request.RequestCompleted(output="Done.", message_id="m2"),
    )  # fmt: skip


def chunks(events: list[Event], segment: int = 0, **options: Any) -> list[Any]:
    reading = ChatChunks(segment, **options)
    for event in events:
        reading.feed(event)
    lines = [line.removeprefix(b"data: ") for line in reading.take().split(b"\n\n") if line]
    return [line if line == b"[DONE]" else json.loads(line) for line in lines]


def frames(events: list[Event], segment: int = 0, after: int = -1) -> list[dict[str, Any]]:
    reading = ResponseEvents(segment, after=after)
    made: list[dict[str, Any]] = []
    for event in events:
        reading.feed(event)
        for block in filter(None, reading.take().split(b"\n\n")):
            name, data = block.split(b"\n")
            frame = json.loads(data.removeprefix(b"data: "))
            assert name == b"event: " + frame["type"].encode()
            made.append(frame)
    return made


def text_of(made: list[Any]) -> str:
    return "".join(c["choices"][0]["delta"].get("content", "") for c in made if c != b"[DONE]" and c.get("choices"))


@pytest.mark.requirement("PX-3", "SH-22")
def test_chat_chunks_have_role_text_finish_usage_and_end() -> None:
    made = chunks(plain_run(), include_usage=True)
    assert [c["choices"][0]["delta"] for c in made[:4]] == [
        {"role": "assistant", "content": "", "refusal": None}, {"content": "Hel"}, {"content": "lo"}, {},
    ]  # fmt: skip
    assert [c["choices"][0]["finish_reason"] for c in made[:4]] == [None, None, None, "stop"]
    assert (made[4]["choices"], made[4]["usage"]["total_tokens"]) == ([], 5)
    assert all(c["usage"] is None for c in made[:4])
    assert made[5] == b"[DONE]"
    assert {c["id"] for c in made[:5]} == {"chatcmpl-run_1-0"}


def test_a_chat_stream_without_the_option_has_no_usage() -> None:
    assert all(c == b"[DONE]" or "usage" not in c for c in chunks(plain_run()))


def test_each_pause_for_the_client_s_tools_ends_a_segment_with_all_its_calls() -> None:
    first, second = chunks(run_with_client_tools()), chunks(run_with_client_tools(), 1)
    calls = [c["choices"][0]["delta"]["tool_calls"][0] for c in first[2:4]]
    assert [(call["index"], call["id"], call["function"]["name"]) for call in calls] == [
        (0, "c1", "look"), (1, "c2", "look"),
    ]  # fmt: skip
    assert json.loads(calls[0]["function"]["arguments"]) == {"q": 1}
    assert first[4]["choices"][0]["finish_reason"] == "tool_calls"
    assert (text_of(first), text_of(second)) == ("Let me see.", "Done.")
    assert (first[0]["id"], second[0]["id"]) == ("chatcmpl-run_1-0", "chatcmpl-run_1-1")


def test_a_client_call_that_the_guard_refused_is_not_waited_for() -> None:
    events = events_from(
        queued(client_tools=[{"name": "look", "input": {}}]), STARTED, asked("m1"),
        said("m1", "", "tool_use", (("c1", "look"), ("c2", "look"))), wanted("c1"),
        tool.ToolResulted.model_validate(
            {"callId": "c2", "tool": "look", "ok": False, "error": {"code": "INVALID_ARGUMENTS", "message": "m"}}
        ),
    )  # fmt: skip
    made = chunks(events)
    assert made[-2]["choices"][0]["finish_reason"] == "tool_calls"
    assert len(made) == 4  # role, one call, finish, done


def test_calls_of_a_message_that_pause_one_by_one_are_segments_of_their_own() -> None:
    events = events_from(
        queued(client_tools=[{"name": "look", "input": {}}]), STARTED,
        asked("m1", parameters={"parallelToolCalls": False}),
        said("m1", "", "tool_use", (("c1", "look"), ("c2", "look"))), wanted("c1"), answered("c1"), RESUMED,
        wanted("c2"),
    )  # fmt: skip
    reading = SegmentReading(segment=-1)
    for event in events:
        reading.feed(event)
    assert reading.paused_at == {"c1": 0, "c2": 1}


def test_what_inner_voices_say_is_not_part_of_the_answer() -> None:
    events = events_from(
        queued(), STARTED, asked("m1", role="planner"), delta("m1", "{secret plan}"), said("m1", "{secret plan}"),
        request.RequestCompleted(output="The answer.", message_id="m1"),
    )  # fmt: skip
    assert text_of(chunks(events)) == "The answer."
    assert [f["text"] for f in frames(events) if f["type"] == "response.output_text.done"] == ["The answer."]


def test_text_before_and_after_a_server_side_tool_is_kept_apart() -> None:
    events = events_from(
        queued(), STARTED, asked("m1"), delta("m1", "Looking."), said("m1", "Looking.", "tool_use", (("c", "clock"),)),
        asked("m2"), delta("m2", "Five."), said("m2", "Five."),
        request.RequestCompleted(output="Five.", message_id="m2"),
    )  # fmt: skip
    assert text_of(chunks(events)) == "Looking.\n\nFive."
    whole = ChatAnswer()
    for event in events:
        whole.feed(event)
    assert whole.answer()["choices"][0]["message"]["content"] == "Five."
    items = frames(events)[-1]["response"]["output"]
    assert [item["phase"] for item in items] == ["commentary", "final_answer"]


@pytest.mark.parametrize("how", ["by its provider", "by a crash"])
def test_a_message_cut_off_ends_chat_with_an_error_and_opens_another_item_in_responses(how: str) -> None:
    crashed = request.RequestResumed(executor="e2", epoch=2, reason="recovery")
    cut = broke("m1") if how == "by its provider" else crashed
    events = events_from(
        queued(), STARTED, asked("m1"), delta("m1", "Hel"), cut, asked("m2"), delta("m2", "Hello"),
        said("m2", "Hello"), request.RequestCompleted(output="Hello", message_id="m2"),
    )  # fmt: skip
    made = chunks(events)
    assert made[-2]["error"]["code"] == "message_abandoned"
    response = frames(events)[-1]["response"]
    assert [item["status"] for item in response["output"]] == ["incomplete", "completed"]
    assert response["output"][0]["content"] == []
    assert response["status"] == "completed"
    whole = ChatAnswer()
    for event in events:
        whole.feed(event)
    assert whole.answer()["choices"][0]["message"]["content"] == "Hello"


@pytest.mark.parametrize(
    ("finish", "chat", "status", "kind"),
    [
        ("stop", "stop", "completed", "response.completed"),
        ("max_tokens", "length", "incomplete", "response.incomplete"),
        ("safety", "content_filter", "incomplete", "response.incomplete"),
    ],
)
def test_reasons_to_finish_are_spelled_as_clients_know_them(finish: str, chat: str, status: str, kind: str) -> None:
    events = events_from(
        queued(), STARTED, asked("m"), delta("m", "x"), said("m", "x", finish),
        request.RequestCompleted(output="x", message_id="m"),
    )  # fmt: skip
    assert chunks(events)[-2]["choices"][0]["finish_reason"] == chat
    last = frames(events)[-1]
    assert (last["type"], last["response"]["status"]) == (kind, status)


def test_a_failed_and_a_cancelled_run_say_so() -> None:
    failed = request.RequestFailed.model_validate({"error": {"code": "MAX_TURNS", "message": "m"}})
    assert chunks(events_from(queued(), failed))[0]["error"]["code"] == "max_turns"
    assert frames(events_from(queued(), failed))[-1]["response"]["error"] == {"code": "max_turns", "message": "m"}
    cancelled = events_from(queued(), STARTED, delta("m", "x"), request.RequestCancelled())
    assert chunks(cancelled)[-2]["error"]["code"] == "run_cancelled"
    assert frames(cancelled)[-1]["response"]["status"] == "cancelled"


@pytest.mark.parametrize("segment", [0, 1])
def test_response_frames_are_numbered_without_gaps_and_can_be_resumed_after_each(segment: int) -> None:
    events = run_with_client_tools()
    every = frames(events, segment)
    assert [frame["sequence_number"] for frame in every] == list(range(len(every)))
    assert every[0]["type"] == "response.created"
    for after in range(-1, len(every)):
        assert frames(events, segment, after) == every[after + 1 :]


@given(st.lists(st.text(max_size=20), min_size=1, max_size=8))
def test_any_text_comes_out_as_it_was_recorded(texts: list[str]) -> None:
    whole = "".join(texts)
    deltas = [delta("m", text) for text in texts]
    events = events_from(queued(), STARTED, asked("m"), *deltas, said("m", whole),
                         request.RequestCompleted(output=whole, message_id="m"))  # fmt: skip
    assert text_of(chunks(events)) == whole
    assert "".join(f["delta"] for f in frames(events) if f["type"] == "response.output_text.delta") == whole


@pytest.mark.requirement("SH-15")
def test_tools_and_narration_have_extra_frames() -> None:
    invoked = {"callId": "c", "tool": "echo", "arguments": {}, "argumentHash": "0", "effect": "readonly"}
    events = events_from(
        tool.ToolInvoked.model_validate(invoked), tool.ToolResulted(call_id="c", tool="echo", ok=True, output=1),
        ProgressNarration(message="It echoes.", provider="template", source_event_types=["runtime.tool.invoked"]),
        delta("m", "x"),
    )  # fmt: skip
    made = [progress_frame(event, "helper") for event in events]
    extra = [json.loads(frame.split(b"data: ")[1]) for frame in made if frame is not None]
    assert [t["type"] for t in extra] == ["stable_harness.tool.progress"] * 2 + ["stable_harness.progress.narration"]
    assert [t.get("status") for t in extra] == ["started", "completed", None]
    assert extra[2]["message"] == "It echoes."
    assert {(t["requestId"], t["sessionId"], t["agentId"]) for t in extra} == {("run_1", "thr_1", "helper")}


@pytest.mark.parametrize(
    "text", ["", "resp_", "resp_run_1", "run_1_0", "resp__0", "resp_run_1_x", "resp_run_1_9999999"]
)
def test_what_is_no_response_id_of_ours_names_nothing(text: str) -> None:
    assert text == "resp_run_1" or parse_response_id(text) is None


def test_a_response_id_names_its_run_and_segment() -> None:
    assert parse_response_id(response_id("run_0198", 3)) == ("run_0198", 3)

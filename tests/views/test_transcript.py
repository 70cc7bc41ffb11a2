"""The transcript: what was said, and how a client's own rows merge with what is there."""

from typing import Any

import pytest

from app.events.catalog import Payload, model, request, thread, tool
from app.views.records import records_json, replay
from tests.views.story import START_MS, THREAD, events_from

ROW: dict[str, Any] = {
    "messageId": "m1", "turnId": "t1", "role": "assistant", "type": "message", "content": "old", "status": "complete",
}  # fmt: skip


def _upsert(**changes: Any) -> thread.TranscriptUpserted:
    return thread.TranscriptUpserted.model_validate(ROW | changes)


def _transcript(*payloads: Payload) -> list[dict[str, Any]]:
    transcript: list[dict[str, Any]] = records_json(replay(THREAD, events_from(*payloads)))["transcript"]
    return transcript


def _merged(*payloads: Payload) -> dict[str, Any]:
    (entry,) = _transcript(*payloads)
    return entry


def test_a_run_gives_the_question_the_tool_calls_and_the_answer_in_order() -> None:
    entries = _transcript(
        request.RequestQueued(agent="echo", input={"b": 1, "a": 2}),
        tool.ToolInvoked.model_validate(
            {"callId": "c1", "tool": "add", "arguments": {}, "argumentHash": "0", "effect": "readonly"}
        ),
        tool.ToolResulted(call_id="c1", tool="add", ok=False),
        model.ModelCompleted.model_validate(
            {"messageId": "m1", "model": "m", "provider": "p", "text": "draft", "toolCalls": [], "finishReason": "stop",
             "usage": {}}
        ),
        request.RequestCompleted(output="final", message_id="m1"),
    )  # fmt: skip
    assert [(entry["messageId"], entry["role"], entry["type"], entry["status"]) for entry in entries] == [
        ("run_1:input", "user", "message", "complete"),
        ("c1", "assistant", "tool", "error"),
        ("m1", "assistant", "message", "complete"),
    ]
    assert [entry["content"] for entry in entries] == ['{"a":2,"b":1}', "add", "final"]
    assert {entry["turnId"] for entry in entries} == {"run_1"}
    assert (entries[1]["startedAt"], entries[1]["completedAt"]) == (START_MS + 2, START_MS + 3)


def test_what_roles_say_to_each_other_is_no_part_of_the_conversation() -> None:
    entries = _transcript(
        request.RequestQueued(agent="team", input="x"),
        model.ModelCompleted.model_validate(
            {"messageId": "m1", "model": "m", "provider": "p", "role": "lead", "text": "{}", "toolCalls": [],
             "finishReason": "stop", "usage": {}}
        ),
        request.RequestCompleted(output="done"),
    )  # fmt: skip
    assert [entry["content"] for entry in entries] == ["x", "done"]


def test_a_failed_run_ends_with_an_error_entry() -> None:
    failed = request.RequestFailed.model_validate({"error": {"code": "BACKEND_FAILED", "message": "it broke"}})
    entry = _transcript(request.RequestQueued(agent="echo", input="x"), failed)[-1]
    assert (entry["role"], entry["type"], entry["status"], entry["content"]) == ("system", "error", "error", "it broke")


@pytest.mark.requirement("CM-7")
def test_incoming_fields_overwrite() -> None:
    entry = _merged(_upsert(), _upsert(turnId="t2", role="system", type="note", content="new", status="error"))
    assert {name: entry[name] for name in ROW} == ROW | {
        "turnId": "t2", "role": "system", "type": "note", "content": "new", "status": "error",
    }  # fmt: skip


@pytest.mark.requirement("CM-7")
@pytest.mark.parametrize("given", [{}, {"details": None}])
def test_omitted_and_null_details_survive(given: dict[str, Any]) -> None:
    assert _merged(_upsert(details="kept"), _upsert(content="new", **given))["details"] == "kept"
    assert _merged(_upsert(details="old"), _upsert(details="new"))["details"] == "new"


@pytest.mark.requirement("CM-7")
def test_the_earliest_start_and_the_latest_end_are_kept() -> None:
    entry = _merged(
        _upsert(startedAt=50, completedAt=60), _upsert(startedAt=40, completedAt=55), _upsert(startedAt=45), _upsert()
    )
    assert (entry["startedAt"], entry["completedAt"]) == (40, 60)


@pytest.mark.requirement("CM-7")
def test_an_end_before_the_start_is_raised_to_it() -> None:
    entry = _merged(_upsert(startedAt=50, completedAt=20))
    assert (entry["startedAt"], entry["completedAt"]) == (50, 50)


@pytest.mark.requirement("CM-7")
@pytest.mark.parametrize("ended", ["complete", "canceled", "error"])
def test_an_ended_entry_never_streams_again_but_changes_its_place(ended: str) -> None:
    entry = _merged(
        _upsert(status=ended, details="kept"),
        _upsert(status="streaming", content="late", details="late", turnId="t2", role="system", type="note"),
    )
    assert (entry["status"], entry["content"], entry["details"]) == (ended, "old", "kept")
    assert (entry["turnId"], entry["role"], entry["type"]) == ("t2", "system", "note")


@pytest.mark.requirement("CM-7")
@pytest.mark.parametrize("first", ["complete", "canceled", "error", "streaming"])
@pytest.mark.parametrize("second", ["complete", "canceled", "error"])
def test_an_end_overwrites_whatever_was_there(first: str, second: str) -> None:
    entry = _merged(_upsert(status=first), _upsert(status=second, content="new"))
    assert (entry["status"], entry["content"]) == (second, "new")


@pytest.mark.requirement("CM-7")
def test_a_streaming_entry_streams_on() -> None:
    entry = _merged(_upsert(status="streaming"), _upsert(status="streaming", content="older"))
    assert (entry["status"], entry["content"]) == ("streaming", "older")


def test_entries_keep_the_place_of_their_first_mention() -> None:
    entries = _transcript(_upsert(messageId="a"), _upsert(messageId="b"), _upsert(messageId="a", content="new"))
    assert [(entry["messageId"], entry["content"]) for entry in entries] == [("a", "new"), ("b", "old")]

"""Every item of a turn is started once and completed once, whatever a backend records."""

from collections import Counter
from typing import Any

import pytest

from app.events.catalog import adapter, model, request, tool
from app.events.envelope import Event
from app.protocols.dialects import codex_lifecycle as lifecycle

pytestmark = pytest.mark.requirement("CM-5")


def _event(seq: int, type_: str, payload: dict[str, Any]) -> Event:
    return Event("", "", "thr", "run", seq, seq, type_, "", 0, b"", None, "", "", payload)


def _delta(text: str, message: str = "m1", phase: str = adapter.OUTPUT_DELTA) -> tuple[str, dict[str, Any]]:
    return adapter.AdapterEvent.type, {"event": {"phase": phase, "messageId": message, "text": text}}


def _asked(message: str = "m1") -> tuple[str, dict[str, Any]]:
    return model.ModelRequested.type, {"messageId": message}


def _said(message: str = "m1", **more: Any) -> tuple[str, dict[str, Any]]:
    return model.ModelCompleted.type, {"messageId": message, "text": "hi", **more}


def _called(call: str = "c1") -> tuple[str, dict[str, Any]]:
    return tool.ToolInvoked.type, {"callId": call, "tool": "t", "arguments": {"a": 1}}


def _result(call: str = "c1", ok: bool = True) -> tuple[str, dict[str, Any]]:
    return tool.ToolResulted.type, {"callId": call, "tool": "t", "ok": ok, "output": 1, "error": {"message": "no"}}


COMPLETED: tuple[str, dict[str, Any]] = (request.RequestCompleted.type, {"output": "hi", "messageId": "m1"})
FAILED: tuple[str, dict[str, Any]] = (request.RequestFailed.type, {"error": {"code": "C", "message": "m"}})
CANCELLED: tuple[str, dict[str, Any]] = (request.RequestCancelled.type, {"output": "h", "messageId": "m1"})
QUEUED: tuple[str, dict[str, Any]] = (request.RequestQueued.type, {"input": "x"})

TURNS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "an agent that only speaks": [QUEUED, _delta("h"), _delta("i"), COMPLETED],
    "a model": [QUEUED, _asked(), _delta("hi"), _said(), COMPLETED],
    "a model that thinks": [
        QUEUED,
        _asked(),
        _delta("hm", phase=adapter.REASONING_DELTA),
        _delta("hi"),
        _said(),
        COMPLETED,
    ],
    "a model that is asked three times": [QUEUED, _asked(), _asked(), _asked(), FAILED],
    "an answer that was abandoned": [
        QUEUED,
        _asked("m0"),
        _delta("x", "m0"),
        (model.ModelFailed.type, {"messageId": "m0", "abandoned": True}),
        _asked(),
        _said(),
        COMPLETED,
    ],
    "a client's tool, entered again after the wait": [
        QUEUED,
        _asked("m0"),
        _said("m0"),
        _called(),
        _called(),
        _result(),
        COMPLETED,
    ],
    "a call that is refused before it starts": [QUEUED, _result(ok=False), COMPLETED],
    "a call that never ends": [QUEUED, _called(), CANCELLED],
    "a turn that is cut off": [QUEUED, _delta("h"), CANCELLED],
    "an answer without a message": [QUEUED, (request.RequestCompleted.type, {"output": {"a": 1}})],
    "roles within an agent": [
        QUEUED,
        (model.ModelRequested.type, {"messageId": "r", "role": "lead"}),
        _said("r", role="lead"),
        (request.RequestCompleted.type, {"output": "x"}),
    ],
}


@pytest.mark.parametrize("name", TURNS)
def test_each_item_has_one_start_and_one_end(name: str) -> None:
    items: lifecycle.Items = {}
    moves: list[lifecycle.Transition] = []
    for seq, (type_, payload) in enumerate(TURNS[name], 1):
        items, made = lifecycle.advance(items, _event(seq, type_, payload))
        moves += made
    started = Counter(item["id"] for phase, item in moves if phase == "started")
    completed = Counter(item["id"] for phase, item in moves if phase == "completed")
    assert started == completed and set(started.values()) == {1}
    seen: set[str] = set()
    for phase, item in moves:
        assert (item["id"] in seen) == (phase == "completed")
        seen.add(item["id"])
    assert items == {}, "an ended turn is forgotten"
    assert {item["type"] for _, item in moves} <= {"agentMessage", "reasoning", "mcpToolCall"}


def test_a_result_keeps_the_arguments_and_a_refusal_says_why() -> None:
    items, _ = lifecycle.advance({}, _event(1, *_called()))
    _, [(_, done)] = lifecycle.advance(items, _event(2, *_result()))
    assert (done["arguments"], done["status"], done["result"]["structuredContent"]) == ({"a": 1}, "completed", 1)
    _, moves = lifecycle.advance({}, _event(1, *_result(ok=False)))
    assert [phase for phase, _ in moves] == ["started", "completed"]
    assert moves[1][1]["error"] == {"message": "no"}

"""The life of a turn's items: which are open, and which an event starts or completes.

Whatever a backend does, each item is started once and completed once: a message that begins with its first delta, a
call that is entered again after a wait, a call that is refused before it starts, an answer that is cut off. Pure: a
fold of events. Leaves to others: where the events come from (the stream) and the frames (`codex_items`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, Final, Literal

from app.core.value import value
from app.events.catalog import adapter, model, request, tool
from app.events.envelope import Event
from app.views.transcript import as_text

SERVER: Final = "holdfast"
"""What a tool's call names as its server: every tool is reached through this one."""
Phase = Literal["started", "completed"]
Transition = tuple[Phase, dict[str, Any]]

FOLDED: Final = (
    request.RequestQueued.type,
    request.RequestStarted.type,
    model.ModelRequested.type,
    model.ModelCompleted.type,
    model.ModelFailed.type,
    tool.ToolInvoked.type,
    tool.ToolResulted.type,
    *sorted(request.TERMINAL),
)
DELTAS: Final = adapter.AdapterEvent.type
"""Deltas start what nothing else started; for a turn that has ended they need not be read."""
MOVES: Final = frozenset({*FOLDED, DELTAS})


@value(frozen=True, slots=True)
class RunItems:
    """The items of one turn that has not ended: the open ones as they were started, the others as None."""

    since: int
    items: Mapping[str, dict[str, Any] | None] = field(default_factory=dict)


Items = Mapping[str, RunItems]
"""By run."""


def delta_item(signal: Mapping[str, Any]) -> str | None:
    """The item that a delta belongs to; None for what is no item of the conversation."""
    if signal.get("role") is not None or signal.get("messageId") is None:
        return None
    match signal["phase"]:
        case adapter.OUTPUT_DELTA:
            return str(signal["messageId"])
        case adapter.REASONING_DELTA:
            return reasoning_id(str(signal["messageId"]))
    return None


def reasoning_id(message_id: str) -> str:
    return f"{message_id}:reasoning"


def advance(items: Items, event: Event) -> tuple[Items, tuple[Transition, ...]]:
    """The items after the event, and what it did to them."""
    if event.type not in MOVES or event.run_id is None:
        return items, ()
    run = items.get(event.run_id) or RunItems(event.seq)
    if event.type == DELTAS:
        signal = event.payload["event"]
        item = delta_item(signal)
        if item is None or item in run.items:
            return items, ()
        started = _message(item) if signal["phase"] == adapter.OUTPUT_DELTA else _reasoning(item)
        return {**items, event.run_id: RunItems(run.since, {**run.items, item: started})}, (("started", started),)
    changed = dict(run.items)
    moves = tuple(_moves(changed, event))
    if event.type in request.TERMINAL:
        return {run_id: kept for run_id, kept in items.items() if run_id != event.run_id}, moves
    return {**items, event.run_id: RunItems(run.since, changed)}, moves


def _moves(items: dict[str, dict[str, Any] | None], event: Event) -> Iterator[Transition]:
    """Changes `items`."""
    payload = event.payload
    match event.type:
        case model.ModelRequested.type if payload.get("role") is None:
            yield from _start(items, _message(payload["messageId"]))
        case model.ModelCompleted.type if payload.get("role") is None:
            message_id = payload["messageId"]
            if items.get(reasoning_id(message_id)) is not None:
                said = payload.get("reasoning")
                yield from _complete(items, _reasoning(reasoning_id(message_id), said if isinstance(said, str) else ""))
            yield from _complete(items, _message(message_id, payload["text"]))
        case model.ModelFailed.type if payload.get("abandoned"):
            for item in (reasoning_id(payload["messageId"]), payload["messageId"]):
                if (open_item := items.get(item)) is not None:
                    yield from _complete(items, open_item)
        case tool.ToolInvoked.type:
            yield from _start(items, call_item(payload["callId"], payload["tool"], payload["arguments"]))
        case tool.ToolResulted.type:
            known = items.get(payload["callId"]) or {}
            yield from _complete(items, result_item(payload, known.get("arguments")))
        case kind if kind in request.TERMINAL:
            yield from _end(items, event)


def _end(items: dict[str, dict[str, Any] | None], event: Event) -> Iterator[Transition]:
    """What is still open ends with its turn. The answer is the item that the end of the turn names."""
    payload = event.payload
    answer = payload.get("output") if event.type != request.RequestFailed.type else None
    answer_id = payload.get("messageId")
    for item_id, item in list(items.items()):
        if item is None:
            continue
        if item_id == answer_id and answer is not None:
            item = _message(item_id, as_text(answer))
        elif item["type"] == "mcpToolCall":
            item = {**item, "status": "failed", "error": {"message": "the turn ended"}}
        yield from _complete(items, item)
    if event.type != request.RequestCompleted.type:
        return
    # Without a message of its own the answer has the id that the transcript gives it.
    final = answer_id or f"{event.run_id}:output"
    if final not in items:
        yield from _complete(items, _message(final, as_text(answer)))


def _start(items: dict[str, dict[str, Any] | None], item: dict[str, Any]) -> Iterator[Transition]:
    if item["id"] not in items:
        items[item["id"]] = item
        yield "started", item


def _complete(items: dict[str, dict[str, Any] | None], item: dict[str, Any]) -> Iterator[Transition]:
    if item["id"] in items and items[item["id"]] is None:
        return
    yield from _start(items, _begun(item))
    items[item["id"]] = None
    yield "completed", item


def _begun(item: dict[str, Any]) -> dict[str, Any]:
    """An item as it would have been started."""
    match item["type"]:
        case "agentMessage":
            return _message(item["id"])
        case "reasoning":
            return _reasoning(item["id"])
    return call_item(item["id"], item["tool"], item["arguments"])


def _message(item_id: str, text: Any = "") -> dict[str, Any]:
    """A text over 16 KiB is stored as a reference; the deltas had all of it, and REST has it."""
    return {"type": "agentMessage", "id": item_id, "text": text if isinstance(text, str) else ""}


def _reasoning(item_id: str, text: str = "") -> dict[str, Any]:
    return {"type": "reasoning", "id": item_id, "summary": [], "content": [text] if text else []}


def call_item(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    return {
        "type": "mcpToolCall",
        "id": call_id,
        "server": SERVER,
        "tool": name,
        "status": "inProgress",
        "arguments": arguments,
        "result": None,
        "error": None,
        "durationMs": None,
    }


def result_item(result: Mapping[str, Any], arguments: Any) -> dict[str, Any]:
    """The call with its result, as `runtime.tool.resulted` has it."""
    item = call_item(result["callId"], result["tool"], arguments) | {"durationMs": result.get("durationMs")}
    if not result["ok"]:
        error = result.get("error") or {}
        return item | {"status": "failed", "error": {"message": str(error.get("message") or "the call failed")}}
    output = result.get("output")
    content = [{"type": "text", "text": as_text(output)}] if output is not None else []
    return item | {"status": "completed", "result": {"content": content, "structuredContent": output}}

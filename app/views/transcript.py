"""The transcript: what was said in a thread, one entry per message, tool call or client's own row.

Deltas are not part of it: a message enters when it is complete or its run was cancelled; streams show it before.
"""

from collections.abc import Callable
from typing import Any, Final, Protocol

from app.core import json
from app.core.value import mutable
from app.events.catalog import model, request, thread, tool
from app.events.catalog.log import EventAmended
from app.events.envelope import Event

_TERMINAL: Final = frozenset({"complete", "canceled", "error"})


class EventLike(Protocol):
    """As much of an event as decides which records it moves: a draft knows that before it has a place in the log."""

    @property
    def id(self) -> str: ...

    @property
    def type(self) -> str: ...

    @property
    def run_id(self) -> str | None: ...

    @property
    def payload(self) -> dict[str, Any]: ...


@mutable(slots=True)
class Entry:
    message_id: str
    position: int = 0
    """The `seq` that first mentioned it; the order of a transcript."""
    turn_id: str = ""
    role: str = "assistant"
    kind: str = "message"
    content: Any = ""
    status: str = "complete"
    details: str | None = None
    started_at: int | None = None
    completed_at: int | None = None
    supplemental: bool = False
    """A client's own row, not a message or a call of a run."""

    def apply(self, event: Event) -> None:
        self.position = self.position or event.seq
        _CHANGES[event.type](self, event)


def _input_key(event: EventLike) -> str:
    return f"{event.run_id}:input"


def _output_key(event: EventLike) -> str:
    return str(event.payload.get("messageId") or f"{event.run_id}:output")


def _partial_key(event: EventLike) -> str | None:
    return _output_key(event) if event.payload.get("output") is not None else None


def _error_key(event: EventLike) -> str:
    return f"{event.run_id}:error"


def _message_key(event: EventLike) -> str | None:
    # What the roles within an agent say to each other is nobody's conversation.
    return str(event.payload["messageId"]) if event.payload.get("role") is None else None


def _upsert_key(event: EventLike) -> str:
    return str(event.payload["messageId"])


def _amended_key(event: EventLike) -> str | None:
    if not event.payload.get("inTranscript"):
        return None
    if event.payload["amendsType"] == request.RequestFailed.type:
        return f"{event.payload['runId']}:error"
    return str(event.payload["messageId"])


def _call_key(event: EventLike) -> str:
    return str(event.payload["callId"])


ENTRY_KEYS: Final[dict[str, Callable[[EventLike], str | None]]] = {
    request.RequestQueued.type: _input_key,
    request.RequestCompleted.type: _output_key,
    request.RequestFailed.type: _error_key,
    request.RequestCancelled.type: _partial_key,
    model.ModelCompleted.type: _message_key,
    tool.ToolInvoked.type: _call_key,
    tool.ToolResulted.type: _call_key,
    thread.TranscriptUpserted.type: _upsert_key,
    EventAmended.type: _amended_key,
}
"""By type, the message that an event belongs to; None where it is nobody's conversation."""


def _input(entry: Entry, event: Event) -> None:
    entry.turn_id, entry.role = event.run_id or "", "user"
    entry.content = as_text(event.payload.get("input"))
    entry.started_at = entry.completed_at = event.at


def _output(entry: Entry, event: Event) -> None:
    entry.turn_id, entry.status = event.run_id or "", "complete"
    entry.content = as_text(event.payload["output"])
    entry.started_at, entry.completed_at = entry.started_at or event.at, event.at


def _partial(entry: Entry, event: Event) -> None:
    _output(entry, event)
    entry.status = "canceled"


def _error(entry: Entry, event: Event) -> None:
    entry.turn_id, entry.role, entry.kind, entry.status = event.run_id or "", "system", "error", "error"
    entry.content = event.payload["error"]["message"]
    said = event.payload.get("output")
    entry.details = said if isinstance(said, str) else None
    entry.started_at = entry.completed_at = event.at


def _message(entry: Entry, event: Event) -> None:
    entry.turn_id, entry.status, entry.content = event.run_id or "", "complete", event.payload["text"]
    entry.started_at, entry.completed_at = entry.started_at or event.at, event.at


def _call(entry: Entry, event: Event) -> None:
    entry.turn_id, entry.kind, entry.status = event.run_id or "", "tool", "streaming"
    entry.content, entry.started_at = event.payload["tool"], event.at


def _result(entry: Entry, event: Event) -> None:
    entry.status = "complete" if event.payload["ok"] else "error"
    entry.kind, entry.turn_id, entry.completed_at = "tool", event.run_id or "", event.at


def _upsert(entry: Entry, event: Event) -> None:
    """A client's row. A finished entry never goes back to streaming; times only widen."""
    payload = event.payload
    entry.supplemental = entry.supplemental or entry.position == event.seq
    entry.turn_id, entry.role, entry.kind = payload["turnId"], payload["role"], payload["type"]
    if not (payload["status"] == "streaming" and entry.status in _TERMINAL and entry.position != event.seq):
        entry.status, entry.content = payload["status"], payload["content"]
        entry.details = payload.get("details", entry.details)
    started, completed = payload.get("startedAt"), payload.get("completedAt")
    if started is not None:
        entry.started_at = started if entry.started_at is None else min(entry.started_at, started)
    if completed is not None:
        entry.completed_at = completed if entry.completed_at is None else max(entry.completed_at, completed)
    if entry.started_at is not None and entry.completed_at is not None:
        entry.completed_at = max(entry.completed_at, entry.started_at)


SHOWN: Final[dict[tuple[str, str], str]] = {
    (request.RequestQueued.type, "input"): "content",
    (request.RequestCompleted.type, "output"): "content",
    (request.RequestFailed.type, "output"): "details",
    (request.RequestCancelled.type, "output"): "content",
    (model.ModelCompleted.type, "text"): "content",
    (thread.TranscriptUpserted.type, "content"): "content",
    (thread.TranscriptUpserted.type, "details"): "details",
}
"""By type and field: where an entry shows the text of an event."""


def _amended(entry: Entry, event: Event) -> None:
    """A text that the entry shows was corrected. When it was said stays as it was."""
    for name, value in event.payload["correction"].items():
        shown = SHOWN.get((event.payload["amendsType"], name))
        if shown == "content":
            entry.content = as_text(value)
        elif shown == "details":
            entry.details = value


_CHANGES: Final = {
    request.RequestQueued.type: _input,
    request.RequestCompleted.type: _output,
    request.RequestFailed.type: _error,
    request.RequestCancelled.type: _partial,
    model.ModelCompleted.type: _message,
    tool.ToolInvoked.type: _call,
    tool.ToolResulted.type: _result,
    thread.TranscriptUpserted.type: _upsert,
    EventAmended.type: _amended,
}


def as_text(value: Any) -> Any:
    """Text as it is; a blob reference stays one; other values are shown as JSON."""
    if value is None:
        return ""
    if isinstance(value, str) or (isinstance(value, dict) and "$blob" in value):
        return value
    return json.canonical(value).decode()


def entry_json(entry: Entry) -> dict[str, Any]:
    return {
        "messageId": entry.message_id,
        "turnId": entry.turn_id,
        "role": entry.role,
        "type": entry.kind,
        "content": entry.content,
        "status": entry.status,
        "details": entry.details,
        "startedAt": entry.started_at,
        "completedAt": entry.completed_at,
    }

"""What the turns of a session asked people and clients for, and which tools they called, as rows of its transcript.

A fold of the session's events, for one answer. Leaves to others: messages and rows of clients (the transcript), and the
places of all of them (`codex_sessions`).
"""

from dataclasses import field
from typing import Any, Final

from app.core import json
from app.core.value import mutable
from app.events.catalog import interrupt, thread, tool
from app.events.envelope import Event
from app.protocols.dialects.codex_lifecycle import call_item, result_item
from app.protocols.dialects.codex_requests import pending, resolved
from app.views.interrupt import Interrupt
from app.views.transcript import Entry

CALLS: Final = (tool.ToolInvoked.type, tool.ToolResulted.type)
FOLDED: Final = (
    *CALLS,
    interrupt.InterruptRaised.type,
    interrupt.InterruptResolved.type,
    interrupt.InterruptExpired.type,
    thread.ThreadRolledBack.type,
)
_NAMES: Final = {
    "approval": ("approval", "approval"),
    "question": ("tool_input", "tool-input"),
    "external": ("tool_call", "tool-call"),
}
"""By kind: what a row's type begins with, and its id."""


@mutable(slots=True)
class SessionEvents:
    calls: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The items of calls by their ids, as they stand at the end."""
    rolled_back: set[str] = field(default_factory=set)
    """Turns that were taken out of the conversation."""
    _asked: dict[str, Interrupt] = field(default_factory=dict)
    _rows: dict[str, Entry] = field(default_factory=dict)

    @property
    def rows(self) -> list[Entry]:
        """In the order in which they were asked."""
        return [row for row in self._rows.values() if row.turn_id not in self.rolled_back]

    def apply(self, event: Event) -> None:
        payload = event.payload
        match event.type:
            case tool.ToolInvoked.type:
                self.calls[payload["callId"]] = call_item(payload["callId"], payload["tool"], payload["arguments"])
            case tool.ToolResulted.type:
                known = self.calls.get(payload["callId"]) or {}
                self.calls[payload["callId"]] = result_item(payload, known.get("arguments"))
            case interrupt.InterruptRaised.type:
                self._raised(event)
            case thread.ThreadRolledBack.type:
                self.rolled_back |= set(payload["turns"])
            case _:
                self._ended(event)

    def _raised(self, event: Event) -> None:
        asked = Interrupt(event.payload["interruptId"], event.thread_id)
        asked.apply(event)
        if asked.kind not in _NAMES:
            return
        self._asked[asked.id] = asked
        name, prefix = _NAMES[asked.kind]
        message_id = f"{prefix}-{asked.id}" + ("-1" if asked.kind == "external" else "")
        self._rows[message_id] = Entry(
            message_id,
            position=event.seq,
            turn_id=event.run_id or "",
            role="system",
            kind=f"{name}.request",
            content=asked.title,
            status="streaming",
            details=json.dumps(pending(asked)).decode(),
            started_at=event.at,
        )

    def _ended(self, event: Event) -> None:
        asked = self._asked.get(event.payload["interruptId"])
        if asked is None:
            return
        name, prefix = _NAMES[asked.kind]
        answer = resolved(asked.id, asked.kind, event.payload.get("answer"))
        said = answer.get("decision") or ("expired" if answer["status"] == "expired" else _success(answer))
        status = "canceled" if answer["status"] == "expired" or said == "cancel" else "complete"
        message_id = f"{prefix}-{asked.id}"
        if asked.kind == "external":
            # The call and its answer are two rows.
            first = self._rows[f"{message_id}-1"]
            first.status, first.completed_at = status, event.at
            message_id = f"{message_id}-2"
        before = self._rows.get(message_id)
        self._rows[message_id] = Entry(
            message_id,
            position=event.seq if before is None else before.position,
            turn_id=event.run_id or "",
            role="system",
            kind=f"{name}.resolved",
            content=f"{asked.title}: {said}",
            status=status,
            details=json.dumps(answer).decode(),
            started_at=event.at if before is None else before.started_at,
            completed_at=event.at,
        )


def _success(answer: dict[str, Any]) -> str:
    return "succeeded" if answer.get("success") else "failed"

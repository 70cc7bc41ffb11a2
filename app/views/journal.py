"""The journal: the hash-linked view of what changed state, with the source's names for each change."""

from collections.abc import Iterable
from hashlib import sha256
from typing import Any, Final

from app.core.clock import iso
from app.events.envelope import GENESIS, Event

KINDS: Final[dict[str, str]] = {
    "runtime.request.queued": "InputAccepted",
    "runtime.model.negotiated": "ModelSelected",
    "runtime.tool.invoked": "ToolCalled",
    "runtime.tool.resulted": "ToolResultApplied",
    "runtime.context.compacted": "ContextCompacted",
    "runtime.guardrail.triggered": "GuardrailTriggered",
    "runtime.gate.evaluated": "EvalGateDecision",
    "runtime.interrupt.raised": "InterruptRaised",
    "runtime.interrupt.resolved": "InterruptResolved",
    "runtime.interrupt.expired": "InterruptExpired",
    "runtime.command.injected": "CommandInjected",
    "runtime.artifact.created": "ArtifactCreated",
    "runtime.event.amended": "EventAmended",
    "runtime.undo.planned": "UndoPlanned",
    "runtime.undo.action.completed": "UndoActionCompleted",
    "runtime.undo.completed": "UndoCompleted",
    "runtime.request.completed": "OutputCommitted",
    "runtime.request.failed": "RunFailed",
    "runtime.request.cancelled": "RunCancelled",
}


def journal(events: Iterable[Event]) -> list[dict[str, Any]]:
    """`link` chains the journal's own items, so that a journal can be checked without the log around it."""
    items: list[dict[str, Any]] = []
    link = GENESIS
    for event in events:
        kind = KINDS.get(event.type)
        if kind is None:
            continue
        link = sha256((link + event.hash).encode()).hexdigest()
        items.append(
            {
                "eventId": event.id,
                "runId": event.run_id,
                "seq": event.seq,
                "at": iso(event.at),
                "actor": event.actor,
                "kind": kind,
                "type": event.type,
                "payload": event.payload,
                "hash": event.hash,
                "link": link,
            }
        )
    return items

"""The journal: the hash-linked view of what changed state, with the source's names for each change.

`link` chains the journal's own items: each is the hash of the link before it and of the item without its link, so that
a copy of a journal can be checked without the log around it. `hash` is that of the event, which binds it to the log.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field
from hashlib import sha256
from typing import Any, Final

from app.core import json
from app.core.clock import iso
from app.core.value import mutable, value
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
    "runtime.checkpoint.created": "CheckpointCreated",
    "runtime.artifact.created": "ArtifactCreated",
    "runtime.event.amended": "EventAmended",
    "runtime.undo.planned": "UndoPlanned",
    "runtime.undo.action.completed": "UndoActionCompleted",
    "runtime.undo.completed": "UndoCompleted",
    "runtime.request.completed": "OutputCommitted",
    "runtime.request.failed": "RunFailed",
    "runtime.request.cancelled": "RunCancelled",
}
AFTER_THE_END: Final = ("runtime.gate.evaluated", "runtime.event.amended")
"""Changes that may be recorded after a run has ended, as events of its thread that name the run."""

Item = dict[str, Any]


@mutable(slots=True)
class Journal:
    """One run's journal, event by event. `apply` also gets events of the thread that name the run."""

    run_id: str
    items: list[Item] = field(default_factory=list)
    link: str = GENESIS

    def apply(self, event: Event) -> None:
        kind = KINDS.get(event.type)
        mine = event.run_id == self.run_id or (event.run_id is None and event.payload.get("runId") == self.run_id)
        if kind is None or not mine:
            return
        item: Item = {
            "eventId": event.id,
            "runId": self.run_id,
            "seq": event.seq,
            "at": iso(event.at),
            "actor": event.actor,
            "kind": kind,
            "type": event.type,
            "payload": event.payload,
            "hash": event.hash,
        }
        self.link = linked(self.link, item)
        self.items.append({**item, "link": self.link})


def journal(run_id: str, events: Iterable[Event]) -> list[Item]:
    fold = Journal(run_id)
    for event in events:
        fold.apply(event)
    return fold.items


def linked(link: str, item: Mapping[str, Any]) -> str:
    """The link of an item that follows one with the given link."""
    return sha256(link.encode() + json.canonical({key: item[key] for key in item if key != "link"})).hexdigest()


@value(frozen=True, slots=True)
class JournalFault:
    seq: int
    reason: str


def check_links(items: Iterable[Item]) -> JournalFault | None:
    """What is wrong with a journal by itself: an item that was changed, left out, added or moved."""
    link, last = GENESIS, 0
    for item in items:
        seq = item.get("seq")
        if not isinstance(seq, int) or seq <= last:
            return JournalFault(last, "the item after this one is not a later one")
        if linked(link, item) != item.get("link"):
            return JournalFault(seq, "the link is not that of this item after the one before it")
        link, last = item["link"], seq
    return None


def check_against_log(run_id: str, items: Iterable[Item], events: Iterable[Event]) -> JournalFault | None:
    """Whether the journal is what the log says; `events` are those of the thread, from a chain that was verified."""
    expected, found = journal(run_id, events), list(items)
    for wanted, item in zip(expected, found, strict=False):
        if item != wanted:
            seq = min(int(wanted["seq"]), int(item["seq"]))
            return JournalFault(seq, "the journal differs from the log here")
    if len(found) != len(expected):
        longer = found if len(found) > len(expected) else expected
        which = "the log does not have" if longer is found else "the journal leaves out"
        return JournalFault(int(longer[min(len(found), len(expected))]["seq"]), f"{which} this change")
    return None

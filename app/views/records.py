"""One thread's records and the one fold that moves them.

The store applies it inside the append transaction and keeps the result in tables; replay applies it to the
stored events. Both are this code, so replay proves the tables. It has no side effects.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from app.events.catalog import adapter, artifact, interrupt
from app.events.envelope import Event
from app.views.artifact import Artifact, artifact_json
from app.views.interrupt import Interrupt, interrupt_json
from app.views.run import Run, run_json
from app.views.thread import Thread, thread_json
from app.views.transcript import ENTRY_TYPES, Entry, entry_json, entry_key

_INTERRUPTS = frozenset(
    {interrupt.InterruptRaised.type, interrupt.InterruptResolved.type, interrupt.InterruptExpired.type}
)


@dataclass(slots=True)
class Touched:
    """The records beside its thread and its run that an event moves; None where it moves none."""

    interrupt: str | None = None
    entry: str | None = None
    artifact: str | None = None


NOTHING: Final = Touched()

TOUCHING: Final = _INTERRUPTS | ENTRY_TYPES | {artifact.ArtifactCreated.type}
"""The types that move more than their thread and their run; most do not."""


def touched(event: Event) -> Touched:
    if event.type not in TOUCHING:
        return NOTHING
    return Touched(
        interrupt=event.payload["interruptId"] if event.type in _INTERRUPTS else None,
        entry=entry_key(event),
        artifact=event.payload["artifact"]["id"] if event.type == artifact.ArtifactCreated.type else None,
    )


@dataclass(frozen=True, slots=True)
class Change:
    """What an event changed beyond counters."""

    thread: bool
    run: bool


_COUNTERS_ONLY: Final = Change(False, False)


@dataclass(slots=True)
class Records:
    thread: Thread
    runs: dict[str, Run] = field(default_factory=dict)
    interrupts: dict[str, Interrupt] = field(default_factory=dict)
    entries: dict[str, Entry] = field(default_factory=dict)
    artifacts: dict[str, Artifact] = field(default_factory=dict)

    def apply(self, event: Event, moves: Touched | None = None) -> Change:
        thread = self.thread
        thread.last_seq, thread.head_hash, thread.updated_at = event.seq, event.hash, event.at
        if event.seq == 1:
            thread.created_at = event.at
        run = self._count(event)
        if event.type == adapter.AdapterEvent.type:
            return _COUNTERS_ONLY
        thread_changed = thread.apply(event)
        run_changed = False
        if run is not None and run.apply(event):
            thread.note(run)
            run_changed = thread_changed = True
        self._move(event, touched(event) if moves is None else moves)
        return Change(thread_changed, run_changed)

    def _move(self, event: Event, moves: Touched) -> None:
        thread_id = self.thread.id
        if moves.interrupt is not None:
            key = moves.interrupt
            self.interrupts.setdefault(key, Interrupt(key, thread_id)).apply(event)
        if moves.entry is not None:
            self.entries.setdefault(moves.entry, Entry(moves.entry)).apply(event)
        if moves.artifact is not None:
            key = moves.artifact
            self.artifacts.setdefault(key, Artifact(key, thread_id)).apply(event)

    def _count(self, event: Event) -> Run | None:
        if event.run_id is None:
            return None
        run = self.runs.get(event.run_id)
        if run is None:
            run = self.runs[event.run_id] = Run(event.run_id, self.thread.id, first_seq=event.seq)
        run.last_seq, run.run_seq = event.seq, event.run_seq or 0
        return run


def replay(thread_id: str, events: Iterable[Event]) -> Records:
    """Fold a thread from its log. Calling a model or a tool again would be a rerun, not a replay."""
    records = Records(Thread(thread_id))
    for event in events:
        records.apply(event)
    return records


def records_json(records: Records) -> dict[str, Any]:
    """Everything as the wire shows it, in a stable order: what replay prints and tests compare."""
    entries = sorted(records.entries.values(), key=lambda entry: entry.position)
    return {
        "thread": {**thread_json(records.thread), "headHash": records.thread.head_hash},
        "runs": [run_json(run) for run in sorted(records.runs.values(), key=lambda run: run.first_seq)],
        "interrupts": [interrupt_json(i) for i in sorted(records.interrupts.values(), key=lambda i: i.id)],
        "transcript": [entry_json(entry) for entry in entries],
        "artifacts": [artifact_json(a) for a in sorted(records.artifacts.values(), key=lambda a: a.seq)],
    }

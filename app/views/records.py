"""One thread's records and the one fold that moves them.

The store applies it inside the append transaction and keeps the result in tables; replay applies it to the
stored events. Both are this code, so replay proves the tables. It has no side effects.
"""

from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Any, Final, Literal, TypeAlias

from app.core.value import mutable
from app.events.catalog import artifact, interrupt, memory, policy
from app.events.catalog.log import EventAmended, LogCompacted
from app.events.envelope import Event
from app.views.artifact import Artifact, artifact_json
from app.views.interrupt import Interrupt, interrupt_json
from app.views.judgement import RunJudgement
from app.views.memory_record import MemoryRecord, memory_record_json
from app.views.run import RUN_CHANGES, Run, amend_run, run_json
from app.views.thread import THREAD_CHANGES, Thread, thread_json
from app.views.transcript import ENTRY_KEYS, Entry, EventLike, entry_json

Kind: TypeAlias = Literal["interrupt", "entry", "artifact", "memory", "judgement"]
Touched: TypeAlias = tuple[Kind, str]
"""The record other than its thread and its run that an event changes, by kind and name."""


def _interrupt_key(event: EventLike) -> str:
    return str(event.payload["interruptId"])


def _artifact_key(event: EventLike) -> str:
    return str(event.payload["artifact"]["id"])


def _judgement_key(event: EventLike) -> str:
    return event.id


def _memory_key(event: EventLike) -> str:
    return str(event.payload["recordId"])


_TOUCHES: Final[dict[str, tuple[Kind, Callable[[EventLike], str | None]]]] = {
    interrupt.InterruptRaised.type: ("interrupt", _interrupt_key),
    interrupt.InterruptResolved.type: ("interrupt", _interrupt_key),
    interrupt.InterruptExpired.type: ("interrupt", _interrupt_key),
    artifact.ArtifactCreated.type: ("artifact", _artifact_key),
    policy.GateEvaluated.type: ("judgement", _judgement_key),
    policy.FeedbackRecorded.type: ("judgement", _judgement_key),
    memory.MemoryRecordStored.type: ("memory", _memory_key),
    memory.MemoryRecordDecided.type: ("memory", _memory_key),
    memory.MemoryRecordChanged.type: ("memory", _memory_key),
    memory.MemoryRecordSuperseded.type: ("memory", _memory_key),
    memory.MemoryRecordUsed.type: ("memory", _memory_key),
    memory.MemoryRecordForgotten.type: ("memory", _memory_key),
    **{name: ("entry", key_of) for name, key_of in ENTRY_KEYS.items()},
}

TOUCHING: Final = frozenset(name for name, (kind, _) in _TOUCHES.items() if kind != "judgement")
"""The types that move a record which may be stored already; a judgement never is."""
FOLDED: Final = frozenset((*_TOUCHES, *THREAD_CHANGES, *RUN_CHANGES))
"""The types that move more than counters; deltas and most others do not."""


def touched(event: EventLike) -> Touched | None:
    found = _TOUCHES.get(event.type)
    if found is None:
        return None
    kind, key_of = found
    key = key_of(event)
    return None if key is None else (kind, key)


@mutable(slots=True)
class Change:
    """What an event changed beyond counters."""

    thread: bool
    run: bool
    sibling: Touched | None
    amended_run: str | None = None
    """A run that the event is not one of, and that shows something else since."""


_AMENDED: Final = EventAmended.type
_COMPACTED: Final = LogCompacted.type
COUNTERS_ONLY: Final = Change(False, False, None)


@mutable(slots=True)
class Records:
    thread: Thread
    runs: dict[str, Run] = field(default_factory=dict)
    interrupts: dict[str, Interrupt] = field(default_factory=dict)
    entries: dict[str, Entry] = field(default_factory=dict)
    artifacts: dict[str, Artifact] = field(default_factory=dict)
    judgements: dict[str, RunJudgement] = field(default_factory=dict)
    memories: dict[str, MemoryRecord] = field(default_factory=dict)

    def apply(self, event: Event) -> Change:
        thread, run, seq = self.thread, None, event.seq
        thread.last_seq, thread.head_hash = seq, event.hash
        if event.type != _COMPACTED:  # retention is no use of a thread
            thread.updated_at = event.at
        if seq == 1:
            thread.created_at = event.at
        run_id = event.run_id
        if run_id is not None:
            run = self.runs.get(run_id)
            if run is None:
                run = self.runs[run_id] = Run(run_id, thread.id, first_seq=seq)
            run.last_seq, run.run_seq = seq, event.run_seq or 0
        return self._fold(event, run) if event.type in FOLDED else COUNTERS_ONLY

    def _fold(self, event: Event, run: Run | None) -> Change:
        thread, type = self.thread, event.type
        of_thread, of_run = THREAD_CHANGES.get(type), None
        if of_thread is not None:
            of_thread(thread, event)
        if run is not None and (of_run := RUN_CHANGES.get(type)) is not None:
            of_run(run, event)
            thread.note(run)
        sibling = touched(event)
        if sibling is not None:
            self._move(event, *sibling)
        if type == _AMENDED:
            return Change(True, False, sibling, self._amend(event))
        return Change(of_thread is not None or of_run is not None, of_run is not None, sibling)

    def _amend(self, event: Event) -> str | None:
        """Amendments without a type were recorded before views showed them."""
        run = self.runs.get(event.payload.get("runId") or "")
        if run is None or event.payload.get("amendsType") is None:
            return None
        amend_run(run, event.payload)
        return run.id

    def _move(self, event: Event, kind: Kind, key: str) -> None:
        moved: Interrupt | Entry | Artifact | MemoryRecord | RunJudgement | None
        if kind == "entry":
            moved = self.entries.get(key)
            if moved is None:
                moved = self.entries[key] = Entry(key)
        elif kind == "interrupt":
            moved = self.interrupts.get(key)
            if moved is None:
                moved = self.interrupts[key] = Interrupt(key, self.thread.id)
        elif kind == "judgement":
            moved = self.judgements[key] = RunJudgement(key, self.thread.id)  # each has an event of its own
        elif kind == "artifact":
            moved = self.artifacts.get(key)
            if moved is None:
                moved = self.artifacts[key] = Artifact(key, self.thread.id)
        else:
            moved = self.memories.get(key)
            if moved is None:
                moved = self.memories[key] = MemoryRecord(key, self.thread.id)
        moved.apply(event)


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
        **(
            {"memory": [memory_record_json(m) for m in sorted(records.memories.values(), key=lambda m: m.seq)]}
            if records.memories
            else {}
        ),
    }

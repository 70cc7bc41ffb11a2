"""Decides, inside the append transaction, what each waiting command becomes.

Decide, then act: this module tests conditions against the loaded records, gives `seq`, `run_seq` and hash, and folds
the events into the records in memory. `materialize` writes the outcome. A refused command leaves no trace.
"""

from dataclasses import dataclass, field
from typing import Final

from app.core.errors import Failure
from app.events import ports
from app.events.catalog import request, thread
from app.events.envelope import Event, seal
from app.events.ports import Answer, Appended, Command, Draft, Refused
from app.views.records import NOTHING, Records, Touched, touched

_BIRTHS: Final = frozenset({thread.ThreadCreated.type, thread.ThreadForked.type})


@dataclass(slots=True)
class Key:
    body_hash: str
    run_id: str


@dataclass(slots=True)
class Head:
    """A thread as the writer holds it: its records as far as this batch needs them, and what has changed."""

    tenant: str
    records: Records
    key: int | None = None
    """The thread's row; None until it is inserted."""
    purged: bool = False
    """A tombstone stands where the thread was."""
    living_leases: dict[str, str] = field(default_factory=dict)
    """Run id to the owner whose lease is alive, for the runs that this batch wants to claim."""
    living_api_keys: set[str] = field(default_factory=set)
    """Those of the API keys that this batch wants to revoke which are not revoked yet."""
    foreign_runs: set[str] = field(default_factory=set)
    """Runs that the batch names and that belong to another thread."""

    # What this batch changed.
    moved: bool = False
    state_dirty: bool = False
    """More than the thread's counters moved."""
    touched_runs: dict[str, bool] = field(default_factory=dict)
    """Run id to whether more than its counters moved."""
    moves: list[Touched] = field(default_factory=list)
    claims: dict[str, ports.ClaimRun] = field(default_factory=dict)

    @property
    def exists(self) -> bool:
        return self.records.thread.last_seq > 0

    def settle(self) -> None:
        """After the commit: forget what was only needed to write it, keep what the next batch will want."""
        self.moved = self.state_dirty = False
        self.touched_runs.clear()
        if self.claims or self.living_leases:
            self.claims.clear()
            self.living_leases.clear()
        if self.foreign_runs:
            self.foreign_runs.clear()
        self.living_api_keys.clear()
        if self.moves or self.records.interrupts:
            self.moves.clear()
            self.records.interrupts.clear()
            self.records.entries.clear()
            self.records.artifacts.clear()
        for run_id in [run.id for run in self.records.runs.values() if run.terminal]:
            del self.records.runs[run_id]


def decide(command: Command, head: Head, keys: dict[tuple[str, str, str], Key]) -> Answer:
    refused = _first_refusal(command, head, keys)
    if refused is not None:
        return refused
    for condition in command.conditions:
        if isinstance(condition, ports.KeyUnused):
            keys[command.tenant, condition.route, condition.key] = Key(condition.body_hash, condition.run_id)
        elif isinstance(condition, ports.ClaimRun):
            head.living_leases[condition.run_id] = condition.owner
            head.claims[condition.run_id] = condition
        elif isinstance(condition, ports.ApiKeyRevoked):
            head.living_api_keys.discard(condition.key_id)
    return Appended(tuple(_place(command, draft, head) for draft in command.drafts))


def _first_refusal(command: Command, head: Head, keys: dict[tuple[str, str, str], Key]) -> Refused | None:
    # The key goes first: a duplicate gets its run back even if the thread has filled up or closed since.
    for condition in command.conditions:
        if isinstance(condition, ports.KeyUnused) and (refused := _key_taken(command, condition, keys)) is not None:
            return refused
    if command.fence is not None:
        fenced = head.records.runs.get(command.fence.run_id)
        if fenced is None or fenced.epoch != command.fence.epoch:
            return _no("STALE_EPOCH", "a newer executor has taken the run over", command.fence.run_id)
        if fenced.terminal:
            return _no("RUN_TERMINAL", "the run has ended", fenced.id)  # and its subagents with it
    for condition in command.conditions:
        refused = _unmet(condition, head)
        if refused is not None:
            return refused
    return _breaks_the_log(command, head)


def _key_taken(command: Command, condition: ports.KeyUnused, keys: dict[tuple[str, str, str], Key]) -> Refused | None:
    known = keys.get((command.tenant, condition.route, condition.key))
    if known is None:
        return None
    if known.body_hash != condition.body_hash:
        return _no("IDEMPOTENCY_KEY_REUSED", "the key was used with another body", known.run_id)
    return _no("IDEMPOTENCY_KEY_SEEN", "the key stands for an accepted request", known.run_id)


def _unmet(condition: ports.Condition, head: Head) -> Refused | None:
    records, it = head.records, head.records.thread
    match condition:
        case ports.ThreadIsNew() if head.exists or head.purged:
            return _no("THREAD_EXISTS", "there is a thread with that id already", it.id)
        case ports.ThreadAccepts(create=create):
            if head.purged or it.deleted_at is not None:
                return _no("THREAD_DELETED", "the thread was deleted", it.id)
            if not head.exists and not create:
                return _no("THREAD_NOT_FOUND", "there is no such thread", it.id)
            if it.closed:
                return _no("THREAD_CLOSED", "the thread is closed", it.id)
        case ports.ThreadHasRoom(limit=limit) if len(it.active) >= limit:
            blocker = next(iter(it.active))
            code = "THREAD_BUSY" if limit == 1 else "QUEUE_FULL"
            return _no(code, f"the thread has {len(it.active)} active runs", blocker)
        case ports.RunNotTerminal(run_id=run_id) | ports.RunUnclaimed(run_id=run_id):
            run = records.runs.get(run_id)
            if run is None:
                return _no("RUN_NOT_FOUND", "there is no such run", run_id)
            if run.terminal:
                return _no("RUN_TERMINAL", f"the run is {run.status}", run_id)
            if isinstance(condition, ports.RunUnclaimed) and run.status == "running":
                return _no("LEASE_HELD", "an executor works on the run", run_id)
        case ports.InterruptOpen(interrupt_id=interrupt_id):
            found = records.interrupts.get(interrupt_id)
            if found is None or found.status != "open":
                status = found.status if found else "unknown"
                return _no("INTERRUPT_NOT_OPEN", f"the interrupt is {status}", found.answered_by if found else None)
        case ports.ApiKeyRevoked(key_id=key_id) if key_id not in head.living_api_keys:
            return _no("KEY_NOT_FOUND", "there is no such key, or it was revoked before", key_id)
        case ports.ClaimRun(born=True):
            if it.active:
                return _no("THREAD_BUSY", "an earlier run of the thread is active", next(iter(it.active)))
        case ports.ClaimRun(run_id=run_id):
            run, owner = records.runs.get(run_id), head.living_leases.get(run_id)
            if run is None or run.terminal or run.status == "waiting" or run.parent_run_id is not None:
                return _no("RUN_TERMINAL" if run and run.terminal else "RUN_NOT_CLAIMABLE",
                           f"the run is {run.status if run else 'unknown'}", run_id)  # fmt: skip
            if next(iter(it.active)) != run_id:
                return _no("THREAD_BUSY", "an earlier run of the thread is active", next(iter(it.active)))
            if owner is not None:
                return _no("LEASE_HELD", "another executor holds the run", owner)
            if condition.epoch != run.epoch + 1:
                return _no("STALE_EPOCH", f"the run is at epoch {run.epoch}", run_id)
    return None


def _breaks_the_log(command: Command, head: Head) -> Refused | None:
    """What holds for every command, whatever it asked for: births come first, ends come last."""
    born = head.exists
    it = head.records.thread
    if head.purged or it.deleted_at is not None:
        return _no("THREAD_DELETED", "the thread was deleted", it.id)
    known = head.records.runs
    fresh: set[str] = set()
    ended: set[str] = set()
    for draft in command.drafts:
        if not born and draft.type not in _BIRTHS:
            return _no("THREAD_NOT_FOUND", "there is no such thread", it.id)
        if born and draft.type in _BIRTHS:
            return _no("THREAD_EXISTS", "there is a thread with that id already", it.id)
        born = True
        if draft.run_id is None:
            continue
        run = known.get(draft.run_id)
        if draft.run_id in ended or (run is not None and run.terminal):
            return _no("RUN_TERMINAL", "the run has ended", draft.run_id)
        starts = draft.type == request.RequestQueued.type
        if starts and (run is not None or draft.run_id in fresh | head.foreign_runs):
            return _no("RUN_EXISTS", "there is a run with that id already", draft.run_id)
        if not starts and run is None and draft.run_id not in fresh:
            return _no("RUN_NOT_FOUND", "there is no such run", draft.run_id)
        fresh.add(draft.run_id)
        if draft.type in request.TERMINAL:
            ended.add(draft.run_id)
    return None


def _place(command: Command, draft: Draft, head: Head) -> Event:
    """The next `seq`, the next `run_seq`, the link to the event before: the draft becomes an event."""
    records = head.records
    it = records.thread
    seq, prev_hash = it.last_seq + 1, it.head_hash
    run_seq = None
    if draft.run_id is not None:
        run = records.runs.get(draft.run_id)
        run_seq = run.run_seq + 1 if run is not None else 1
    payload_bytes = draft.encoded
    digest = seal(prev_hash, draft.id, command.tenant, it.id, draft.run_id, seq, run_seq, draft.type,
                  draft.actor, draft.at, payload_bytes, draft.parent_id)  # fmt: skip
    event = Event(draft.id, command.tenant, it.id, draft.run_id, seq, run_seq, draft.type, draft.actor,
                  draft.at, payload_bytes, draft.parent_id, prev_hash, digest, draft.payload)  # fmt: skip
    moves = touched(event)
    change = records.apply(event, moves)
    head.moved = True
    head.state_dirty = head.state_dirty or change.thread
    if moves is not NOTHING:
        head.moves.append(moves)
    if draft.run_id is not None:
        head.touched_runs[draft.run_id] = head.touched_runs.get(draft.run_id, False) or change.run
    return event


def _no(code: str, message: str, winner: str | None) -> Refused:
    return Refused(Failure(code, message), winner)

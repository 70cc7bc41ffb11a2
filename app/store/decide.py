"""Decides, inside the append transaction, what each waiting command becomes.

Decide, then act: this module tests conditions against the loaded records, gives `seq`, `run_seq` and hash, and folds
the events into the records in memory. `materialize` writes the outcome. A refused command leaves no trace.
"""

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Final

from app.core.errors import Failure
from app.core.value import mutable
from app.events import ports
from app.events.catalog import request, thread
from app.events.envelope import GENESIS, Event, seal
from app.events.ports import Answer, Appended, Command, Draft, Refused
from app.store.event_rows import Bases
from app.views.records import COUNTERS_ONLY, Records, Touched
from app.views.run import ACTIVE, Run
from app.views.thread import BLOCKED

_CREATIONS: Final = frozenset({thread.ThreadCreated.type, thread.ThreadForked.type})
_QUEUED: Final = request.RequestQueued.type
_TERMINAL: Final = request.TERMINAL
KNOWN_SIBLINGS: Final = 16
"""So many records of a thread are known by name: messages mostly, of which a conversation of some turns has no more."""


@mutable(slots=True)
class UsedKey:
    body_hash: str
    run_id: str


@mutable(slots=True)
class ThreadHead:
    """A thread as the writer holds it: its records as far as this batch needs them, and what has changed."""

    tenant: str
    records: Records
    key: int | None = None
    """The thread's row; None until it is inserted."""
    purged: bool = False
    """A tombstone stands where the thread was."""
    minted: bool = False
    """The thread and its runs are as new as their ids: nothing of them can be stored yet."""
    siblings: tuple[Touched, ...] | None = None
    """The records of a thread that began here, other than itself and its runs: no others are stored. None where that
    is not known, or where there are many."""
    seen: int = 0
    """The last turn of the database in which this was, or became, what is stored."""
    living_leases: dict[str, str] = field(default_factory=dict)
    """Run id to the owner whose lease is alive, for the runs that this batch wants to claim."""
    living_api_keys: frozenset[str] = frozenset()
    """Those of the API keys that this batch wants to revoke which are not revoked yet."""
    due_evaluations: frozenset[str] = frozenset()
    """Those of the runs whose verdicts this batch brings that are still to be judged."""
    foreign_runs: frozenset[str] = frozenset()
    """Runs that the batch names and that belong to another thread."""
    bases: Bases = field(default_factory=dict)
    """Deltas of messages that are being streamed, which the next ones may refer to."""
    tail: tuple[str, bytearray] = (GENESIS, bytearray(32))
    """The hash of an event that was stored last, as text and as the bytes of its row; the head may be ahead of it."""

    # What this batch changed.
    moved: bool = False
    state_dirty: bool = False
    """More than the thread's counters moved."""
    touched_runs: dict[str, bool] = field(default_factory=dict)
    """Run id to whether more than its counters moved."""
    moves: set[Touched] = field(default_factory=set)
    claims: dict[str, ports.ClaimRun] = field(default_factory=dict)

    @property
    def exists(self) -> bool:
        return self.records.thread.last_seq > 0

    def settle(self, turn: int) -> None:
        """Once it is written: forget what was only needed for that, keep what the next batch will want."""
        records = self.records
        self.seen = turn
        self.moved = self.state_dirty = self.minted = False
        self.touched_runs.clear()
        if self.claims or self.living_leases:
            self.claims.clear()
            self.living_leases.clear()
        if self.foreign_runs or self.living_api_keys:
            self.foreign_runs = self.living_api_keys = frozenset()
        if self.due_evaluations:
            self.due_evaluations = frozenset()
        if (
            self.moves
            or records.entries
            or records.interrupts
            or records.artifacts
            or records.memories
            or records.judgements
        ):
            self._note_siblings()
            self.moves.clear()
            records.memories.clear()
            records.judgements.clear()
            records.interrupts.clear()
            records.entries.clear()
            records.artifacts.clear()
        for run in tuple(records.runs.values()):
            if run.status not in ACTIVE:
                del records.runs[run.id]

    def _note_siblings(self) -> None:
        if self.siblings is not None:
            new = [one for one in self.moves if one[0] != "judgement" and one not in self.siblings]
            self.siblings = (*self.siblings, *new) if len(self.siblings) + len(new) <= KNOWN_SIBLINGS else None


@mutable(slots=True)
class LineTurn:
    """Whose turn it is in a project's line: the one that runs, or the first; an empty one is for nobody to know now."""

    run_id: str
    thread_id: str


def decide(
    command: Command,
    head: ThreadHead,
    keys: dict[tuple[str, str, str], UsedKey],
    turns: dict[tuple[str, str], LineTurn] | None = None,
) -> Answer:
    if command.conditions:
        # The key goes first: a duplicate gets its run back even if the thread has filled up or closed since.
        refused = (_used_key(command, keys) if keys else None) or _stale(command, head) or _unmet(command, head)
        if turns:
            refused = refused or _not_its_turn(command, turns)
    else:
        refused = _stale(command, head)
    refused = refused or _breaks_the_log(command, head)
    if refused is not None:
        return refused
    for condition in command.conditions:
        if type(condition) in ONLY_ASKS:
            continue
        if isinstance(condition, ports.ClaimRun):
            head.living_leases[condition.run_id] = condition.owner
            head.claims[condition.run_id] = condition
        elif isinstance(condition, ports.KeyUnused):
            keys[command.tenant, condition.route, condition.key] = UsedKey(condition.body_hash, condition.run_id)
        elif isinstance(condition, ports.ProjectTurn) and turns is not None:
            turns[command.tenant, condition.project_id] = LineTurn(condition.run_id, command.thread_id)
        elif isinstance(condition, ports.ApiKeyRevoked):
            head.living_api_keys -= {condition.key_id}
        elif isinstance(condition, ports.EvaluationDone):
            head.due_evaluations -= {condition.run_id}
    return Appended(tuple([place(draft, head) for draft in command.drafts]))


def _used_key(command: Command, keys: dict[tuple[str, str, str], UsedKey]) -> Refused | None:
    for condition in command.conditions:
        if isinstance(condition, ports.KeyUnused):
            known = keys.get((command.tenant, condition.route, condition.key))
            if known is None:
                continue
            if known.body_hash != condition.body_hash:
                return _no("IDEMPOTENCY_KEY_REUSED", "the key was used with another body", known.run_id)
            return _no("IDEMPOTENCY_KEY_SEEN", "the key stands for an accepted request", known.run_id)
    return None


def _not_its_turn(command: Command, turns: dict[tuple[str, str], LineTurn]) -> Refused | None:
    for condition in command.conditions:
        if isinstance(condition, ports.ProjectTurn):
            turn = turns.get((command.tenant, condition.project_id))
            if turn is not None and turn.run_id != condition.run_id:
                busy = Failure("PROJECT_BUSY", "Another job of the project runs, or is before this one.")
                return Refused(busy, turn.run_id or None, turn.thread_id or None)
    return None


def _stale(command: Command, head: ThreadHead) -> Refused | None:
    fence = command.fence
    if fence is None:
        return None
    fenced = head.records.runs.get(fence.run_id)
    if fenced is None or fenced.epoch != fence.epoch:
        return _no("STALE_EPOCH", "a newer executor has taken the run over", fence.run_id)
    if fenced.status not in ACTIVE:
        return _no("RUN_TERMINAL", "the run has ended", fenced.id)  # and its subagents with it
    return None


def _unmet(command: Command, head: ThreadHead) -> Refused | None:
    for condition in command.conditions:
        test = _TESTS.get(type(condition))
        if test is not None:
            refused = test(condition, head)
            if refused is not None:
                return refused
    return None


def _is_new(_: ports.ThreadIsNew, head: ThreadHead) -> Refused | None:
    if head.exists or head.purged:
        return _no("THREAD_EXISTS", "there is a thread with that id already", head.records.thread.id)
    return None


def _accepts(condition: ports.ThreadAccepts, head: ThreadHead) -> Refused | None:
    it = head.records.thread
    if head.purged or it.deleted_at is not None:
        return _no("THREAD_DELETED", "the thread was deleted", it.id)
    if not head.exists and not condition.create:
        return _no("THREAD_NOT_FOUND", "there is no such thread", it.id)
    if it.closed:
        return _no("THREAD_CLOSED", "the thread is closed", it.id)
    return None


def _has_room(condition: ports.ThreadHasRoom, head: ThreadHead) -> Refused | None:
    active, delayed = head.records.thread.active, head.records.thread.delayed
    # Those whose time has not come keep nobody from a free thread, but take room in its queue.
    count = len(active) if condition.limit == 1 else len(active) + len(delayed)
    if count < condition.limit:
        return None
    code = "THREAD_BUSY" if condition.limit == 1 else "QUEUE_FULL"
    return _no(code, f"the thread has {count} active runs", next(iter(active or delayed)))


def _idle_since(condition: ports.ThreadIdleSince, head: ThreadHead) -> Refused | None:
    if head.records.thread.updated_at <= condition.at_ms:
        return None
    return _no("THREAD_BUSY", "the thread has had events since then", head.records.thread.id)


def _not_terminal(
    condition: ports.RunNotTerminal | ports.RunUnclaimed | ports.RunAtWork, head: ThreadHead
) -> Refused | None:
    run = head.records.runs.get(condition.run_id)
    if run is None:
        return _no("RUN_NOT_FOUND", "there is no such run", condition.run_id)
    if run.terminal:
        return _no("RUN_TERMINAL", f"the run is {run.status}", run.id)
    return None


def _unclaimed(condition: ports.RunUnclaimed, head: ThreadHead) -> Refused | None:
    refused = _not_terminal(condition, head)
    if refused is None and head.records.runs[condition.run_id].status == "running":
        return _no("LEASE_HELD", "an executor works on the run", condition.run_id)
    return refused


def _at_work(condition: ports.RunAtWork, head: ThreadHead) -> Refused | None:
    refused = _not_terminal(condition, head)
    if refused is None and head.records.runs[condition.run_id].status != "running":
        return _no("RUN_NOT_RUNNING", "no executor works on the run", condition.run_id)
    return refused


def _ended(condition: ports.RunEnded, head: ThreadHead) -> Refused | None:
    run = head.records.runs.get(condition.run_id)
    if run is None:
        return _no("RUN_NOT_FOUND", "there is no such run", condition.run_id)
    return None if run.terminal else _no("RUN_NOT_ENDED", f"the run is {run.status}", run.id)


def _entry_shows(condition: ports.EntryShows, head: ThreadHead) -> Refused | None:
    found = head.records.entries.get(condition.message_id)
    if found is not None and (found.content, found.details) == (condition.content, condition.details):
        return None
    return _no("ENTRY_CHANGED", "the entry shows something else by now", condition.message_id)


def _commands_seen(condition: ports.CommandsSeen, head: ThreadHead) -> Refused | None:
    run = head.records.runs.get(condition.run_id)
    if run is not None and run.commanded > condition.count:
        return _no("COMMAND_UNSEEN", "a command was accepted that the run has not seen yet", run.id)
    return None


def _not_cancelled(condition: ports.NotCancelled, head: ThreadHead) -> Refused | None:
    run = head.records.runs.get(condition.run_id)
    if run is not None and run.cancel_requested_at is not None:
        return _no("RUN_CANCELLED", "a cancel of the run was accepted", run.id)
    return None


def _open(condition: ports.InterruptOpen, head: ThreadHead) -> Refused | None:
    found = head.records.interrupts.get(condition.interrupt_id)
    if found is not None and found.status == "open":
        return None
    status = found.status if found else "unknown"
    return _no("INTERRUPT_NOT_OPEN", f"the interrupt is {status}", found.answered_by if found else None)


def _revocable(condition: ports.ApiKeyRevoked, head: ThreadHead) -> Refused | None:
    if condition.key_id in head.living_api_keys:
        return None
    return _no("KEY_NOT_FOUND", "there is no such key, or it was revoked before", condition.key_id)


def _still_due(condition: ports.EvaluationDone, head: ThreadHead) -> Refused | None:
    if condition.run_id in head.due_evaluations:
        return None
    return _no("EVALUATION_DONE", "the run was judged already", condition.run_id)


def _uncompacted(condition: ports.DropDeltas, head: ThreadHead) -> Refused | None:
    it = head.records.thread
    if it.compacted == condition.compacted:
        return None
    return _no("THREAD_BUSY", "another server has dropped deltas of the thread meanwhile", it.id)


def _memory_is(condition: ports.MemoryIs, head: ThreadHead) -> Refused | None:
    found = head.records.memories.get(condition.record_id)
    if found is None:
        if not condition.statuses:
            return None
        return _no("MEMORY_NOT_FOUND", "there is no such memory record", condition.record_id)
    if found.status in condition.statuses:
        return None
    return _no("MEMORY_RECORD_CHANGED", f"the memory record is {found.status}", found.decided_by)


def _claimable(condition: ports.ClaimRun, head: ThreadHead) -> Refused | None:
    active, run_id = head.records.thread.active, condition.run_id
    delayed = head.records.thread.delayed
    if condition.claimed_at_submit:
        return _busy(next(iter(active))) if active else None
    run, owner = head.records.runs.get(run_id), head.living_leases.get(run_id)
    if run is None or run.terminal or run.status == "waiting" or run.parent_run_id is not None:
        return _no(
            "RUN_TERMINAL" if run and run.terminal else "RUN_NOT_CLAIMABLE",
            f"the run is {run.status if run else 'unknown'}",
            run_id,
        )
    if run_id not in active and run_id not in delayed:
        return _busy(run_id)
    if (blocker := _in_the_way(active, run_id)) is not None:
        return _busy(blocker)
    if owner is not None:
        return _no("LEASE_HELD", "another executor holds the run", owner)
    if condition.epoch != run.epoch + 1:
        return _no("STALE_EPOCH", f"the run is at epoch {run.epoch}", run_id)
    return None


def _in_the_way(active: Mapping[str, str], run_id: str) -> str | None:
    """Runs of a thread take turns in their order; one that waits for a delivery lets the next ones go first."""
    earlier = True
    for other, status in active.items():
        if other == run_id:
            earlier = False
        elif status == "running" if not earlier else status != BLOCKED:
            return other
    return None


def _busy(blocker: str) -> Refused:
    return _no("THREAD_BUSY", "an earlier run of the thread is active", blocker)


_TESTS: Final[dict[type, Callable[[Any, ThreadHead], Refused | None]]] = {
    ports.ThreadIsNew: _is_new,
    ports.ThreadAccepts: _accepts,
    ports.ThreadHasRoom: _has_room,
    ports.ThreadIdleSince: _idle_since,
    ports.RunNotTerminal: _not_terminal,
    ports.RunUnclaimed: _unclaimed,
    ports.RunAtWork: _at_work,
    ports.RunEnded: _ended,
    ports.EntryShows: _entry_shows,
    ports.CommandsSeen: _commands_seen,
    ports.NotCancelled: _not_cancelled,
    ports.InterruptOpen: _open,
    ports.ApiKeyRevoked: _revocable,
    ports.EvaluationDone: _still_due,
    ports.DropDeltas: _uncompacted,
    ports.MemoryIs: _memory_is,
    ports.ClaimRun: _claimable,
}


ONLY_ASKS: Final = frozenset(
    {
        ports.ThreadIsNew,
        ports.ThreadAccepts,
        ports.ThreadHasRoom,
        ports.RunNotTerminal,
        ports.CommandsSeen,
        ports.NotCancelled,
    }
)
"""Conditions of every run that change and store nothing once they are met: the rest need not be tried on them."""


def _breaks_the_log(command: Command, head: ThreadHead) -> Refused | None:
    """What holds for every command, whatever it asked for: creations come first, ends come last."""
    it = head.records.thread
    if head.purged or it.deleted_at is not None:
        return _no("THREAD_DELETED", "the thread was deleted", it.id)
    exists = it.last_seq > 0
    known = head.records.runs
    fresh: list[str] = []
    ended: list[str] = []
    for draft in command.drafts:
        type_, run_id = draft.type, draft.run_id
        if exists is (type_ in _CREATIONS):
            if exists:
                return _no("THREAD_EXISTS", "there is a thread with that id already", it.id)
            return _no("THREAD_NOT_FOUND", "there is no such thread", it.id)
        exists = True
        if run_id is None:
            continue
        run = known.get(run_id)
        if (ended and run_id in ended) or (run is not None and run.status not in ACTIVE):
            return _no("RUN_TERMINAL", "the run has ended", run_id)
        if type_ == _QUEUED:
            if run is not None or run_id in fresh or run_id in head.foreign_runs:
                return _no("RUN_EXISTS", "there is a run with that id already", run_id)
            fresh.append(run_id)
        elif run is None and run_id not in fresh:
            return _no("RUN_NOT_FOUND", "there is no such run", run_id)
        if type_ in _TERMINAL:
            ended.append(run_id)
    return None


def place(draft: Draft, head: ThreadHead) -> Event:
    """The next `seq`, the next `run_seq`, the link to the event before: the draft becomes an event."""
    records = head.records
    it, run_id = records.thread, draft.run_id
    seq, prev_hash, run_seq = it.last_seq + 1, it.head_hash, None
    if run_id is not None:
        run: Run | None = records.runs.get(run_id)
        run_seq = 1 if run is None else run.run_seq + 1
    digest = seal(
        prev_hash,
        draft.id,
        head.tenant,
        it.id,
        run_id,
        seq,
        run_seq,
        draft.type,
        draft.actor,
        draft.at,
        draft.encoded,
        draft.parent_id,
    )
    event = Event(
        draft.id,
        head.tenant,
        it.id,
        run_id,
        seq,
        run_seq,
        draft.type,
        draft.actor,
        draft.at,
        draft.encoded,
        draft.parent_id,
        prev_hash,
        digest,
        draft.payload,
    )
    change = records.apply(event)
    head.moved = True
    if change is COUNTERS_ONLY:
        if run_id is not None:
            head.touched_runs.setdefault(run_id, False)
        return event
    if change.thread:
        head.state_dirty = True
    if change.sibling is not None:
        head.moves.add(change.sibling)
    if run_id is not None and not head.touched_runs.get(run_id):
        head.touched_runs[run_id] = change.run
    if change.amended_run is not None:
        head.touched_runs[change.amended_run] = True
    return event


def _no(code: str, message: str, winner: str | None) -> Refused:
    return Refused(Failure(code, message), winner)

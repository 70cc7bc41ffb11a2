"""The batch that a streamed answer writes again and again: events that move counters and nothing else.

Everything that it looks at is in memory, and everything that it writes goes into four tables. Where other servers write
too, the statement that writes it compares each thread's hash with the one in memory, and the batch goes the long way if
one of them differs. That is enough because all that is looked at here (epochs, states, deletions) is folded from the
events that the hash seals, and changes in no other way (tests/store/test_unlocked_batches.py). Nothing in it can be
refused: what `decide` asks of a command without conditions is asked of all of them first, and no event of the batch
changes the answer. Leaves to others: any batch with a condition, a blob, a change of a record, a thread that has to be
looked up, or a command that is refused.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from app.core.value import mutable
from app.events.ports import Answer, Appended, Command
from app.store.decide import ThreadHead
from app.store.engine import Row, Tx
from app.store.event_rows import fromhex
from app.store.plain_event import place_plain
from app.views.records import FOLDED
from app.views.run import ACTIVE

MAX_LOCKED: Final = 256
"""Batches in a row that are not decided from memory: under a second of a busy server."""
WORTH_WHILE: Final = 64
"""Batches from memory that save more than one that fails costs: of 100 threads, some five batches."""


class MemoryTrust:
    """Whether it is worth while to decide from memory. Where others write to the same threads all the time it is not:
    a batch that fails for it has lost what it had in memory of all its threads, and reads it again."""

    def __init__(self) -> None:
        self._kept = WORTH_WHILE
        self._penalty = self._left = 0

    def allows(self) -> bool:
        if self._left:
            self._left -= 1
            return False
        return True

    def kept(self) -> None:
        self._kept += 1

    def broken(self) -> None:
        """The next one locks its threads; four times as many each time that it was not worth while."""
        self._penalty = 1 if self._kept >= WORTH_WHILE else min(MAX_LOCKED, self._penalty * 4)
        self._left, self._kept = self._penalty, 0


def plain_heads(
    commands: Sequence[Command], hot: Mapping[tuple[str, str], ThreadHead], disturbed: int | None
) -> list[ThreadHead] | None:
    """The head of each command of such a batch; None for any other one. They are as they were when nobody else had
    written since `disturbed`; without that number they may not be, which the database says when the batch is written.
    """
    heads: list[ThreadHead] = []
    for command in commands:
        head = hot.get((command.tenant, command.thread_id))
        if command.conditions or not command.drafts or head is None or head.key is None:
            return None
        if disturbed is not None and head.seen < disturbed:
            return None
        runs, fence = head.records.runs, command.fence
        if head.purged or head.records.thread.deleted_at is not None:
            return None
        if fence is not None:
            fenced = runs.get(fence.run_id)
            if fenced is None or fenced.epoch != fence.epoch or fenced.status not in ACTIVE:
                return None
        for draft in command.drafts:
            # Whatever creates a thread or a run, or ends one, is folded.
            if draft.type in FOLDED or draft.blobs or draft.run_id is None:
                return None
            run = runs.get(draft.run_id)
            if run is None or run.status not in ACTIVE:
                return None
        heads.append(head)
    return heads


@mutable(slots=True)
class PlainBatch:
    """The answers to its commands, and the rows to write before they are given."""

    answers: list[Answer]
    events: list[Row]
    deltas: list[Row]
    threads: list[Row]
    runs: list[Row]
    before: list[Row]


def place_batch(commands: Sequence[Command], heads: Sequence[ThreadHead], turn: int | None) -> PlainBatch:
    """Gives each event its place. There is a head for each command; all are ready for the next batch then."""
    answers: list[Answer] = []
    events: list[Row] = []
    deltas: list[Row] = []
    before: list[Row] = []
    guarded = turn is None
    for command, head in zip(commands, heads, strict=True):
        if guarded and not head.touched_runs:  # the first command of its thread
            before.append(_before(head))
        drafts = command.drafts
        if len(drafts) == 1:  # nearly always, and it needs no loop
            answers.append(Appended((place_plain(drafts[0], head, events, deltas),)))
        else:
            answers.append(Appended(tuple([place_plain(draft, head, events, deltas) for draft in drafts])))
    seen = turn or 0
    threads: list[Row] = []
    moved: list[Row] = []
    for head in heads:
        touched = head.touched_runs
        if not touched:  # another command of a thread that is among the rows already
            continue
        head.seen = seen
        it, runs, key = head.records.thread, head.records.runs, head.key
        known, digest = head.tail
        threads.append((
            key, it.last_seq, digest if known is it.head_hash else fromhex(it.head_hash), it.updated_at
        ))  # fmt: skip
        for run_id in touched:
            run = runs[run_id]
            moved.append((key, run.first_seq, run.last_seq, run.run_seq))
        touched.clear()
    return PlainBatch(answers, events, deltas, threads, moved, before)


async def append_plain(tx: Tx, batch: PlainBatch, *, alone: bool) -> None:
    await tx.append(batch.events, batch.deltas, batch.threads, batch.runs, batch.before, alone=alone)


def _before(head: ThreadHead) -> Row:
    """What must still be stored when the batch is written. The hash stands for everything that was looked at: epochs,
    states and deletions are folded from the events that it seals."""
    known, digest = head.tail
    stored = head.records.thread.head_hash
    return (digest if known is stored else fromhex(stored),)

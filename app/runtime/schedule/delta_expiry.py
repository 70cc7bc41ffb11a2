"""Drops the deltas of messages that were completed long enough ago (`retention.deltaDays`).

A delta goes only if it was said between a model's request and its answer, which has the whole text and stays. Those of
abandoned messages, of backends that speak without a model, and of runs that have not ended stay. The deltas of a
message go together, in the same commit as the `runtime.log.compacted` that says which they were and what the chain over
them was. Leaves to others: how rows are removed (the store), and verifying what is left (`events.gaps`).
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import field
from typing import Any, Final, Protocol

import structlog

from app.core.clock import Clock
from app.core.value import mutable
from app.events.catalog import adapter, model, request
from app.events.catalog.log import DroppedMessage, DroppedNumbers, DroppedRange, LogCompacted
from app.events.envelope import Event
from app.events.gaps import MessageSpans
from app.events.ports import Appended, DropDeltas
from app.events.recorder import Recorder, Scope
from app.runtime.schedule.effective_settings import DAY_MS
from app.views.ports import Reader, SweepThread
from app.views.thread import Thread

BATCH: Final = 500
"""Threads whose rows are looked at together."""
PAGE: Final = 1000
MAX_DELTAS: Final = 1000
"""Rows that one commit removes, a few milliseconds of the only writer; more if one message has more."""
MIN_DELTAS: Final = 4
"""A range takes about 370 bytes of the event that records it: dropping fewer would save nothing."""
MAX_BYTES: Final = 15_000
"""Of the ranges in one event, so that it stays under 16 KiB: some 40."""
MAX_NAMES: Final = 8
"""Messages of one range. Those of parallel subagents may be mixed; then the next range begins."""
MAX_ID: Final = 200
"""A message whose id is longer keeps its deltas. Ids of ours have 36 characters."""
MAX_COMMITS: Final = 2000
"""Of one sweep. What is left is for the next."""

_FRAME: Final = (model.ModelRequested.type, model.ModelCompleted.type, *sorted(request.TERMINAL))
"""What begins and ends a message, and a run."""
_DELTAS: Final = (adapter.AdapterEvent.type,)

log = structlog.get_logger("holdfast.retention")


class SweptThreads(Protocol):
    async def threads(
        self, before_ms: int, after: tuple[int, int], limit: int
    ) -> tuple[list[SweepThread], tuple[int, int] | None]:
        """Threads created before that time which have something to look at, and where to go on."""
        ...

    async def swept(self, threads: Sequence[tuple[int, int]]) -> None:
        """Keep up to which `seq` these were swept, by key."""
        ...


@mutable(slots=True)
class _Ends:
    """What has ended in a thread by the time that deltas are kept for."""

    calls: MessageSpans = field(default_factory=MessageSpans)
    asked: dict[str, int] = field(default_factory=dict)
    """By run: the `seq` of its first request to a model."""
    runs: set[str | None] = field(default_factory=set)
    last: int = 0
    """Up to here everything is old enough."""

    def add(self, event: Event) -> None:
        if event.type in request.TERMINAL:
            self.runs.add(event.run_id)
        else:
            self.calls.read(event, event.payload)
            self.asked.setdefault(event.run_id or "", event.seq)
        self.last = event.seq

    def open(self) -> int | None:
        """The first request of a run that has not ended: from there on the next sweep looks again."""
        return min((seq for run_id, seq in self.asked.items() if run_id not in self.runs), default=None)


@mutable(slots=True)
class _Range:
    """Deltas next to each other, while they are collected."""

    first: Event
    last: Event
    numbers: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By run: the first `runSeq`, and how many."""
    messages: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By run and message: how many deltas are text."""

    def add(self, event: Event, signal: dict[str, Any]) -> None:
        self.last = event
        assert event.run_id is not None and event.run_seq is not None, "a delta belongs to a run"
        first, count = self.numbers.get(event.run_id, (event.run_seq, 0))
        self.numbers[event.run_id] = (first, count + 1)
        self.messages[event.run_id, signal["messageId"]] += signal["phase"] == adapter.OUTPUT_DELTA

    def takes(self, event: Event, signal: dict[str, Any]) -> bool:
        known = (event.run_id, signal["messageId"]) in self.messages
        return event.seq == self.last.seq + 1 and (known or len(self.messages) < MAX_NAMES)

    @property
    def count(self) -> int:
        return self.last.seq - self.first.seq + 1

    def value(self) -> DroppedRange:
        return DroppedRange(
            from_seq=self.first.seq,
            to_seq=self.last.seq,
            prev_hash=self.first.prev_hash,
            head_hash=self.last.hash,
            runs=[
                DroppedNumbers(run_id=run, run_seq=first, count=count) for run, (first, count) in self.numbers.items()
            ],
            messages=[
                DroppedMessage(run_id=run, message_id=name, text_deltas=count)
                for (run, name), count in self.messages.items()
            ],
        )


class DeltaExpiry:
    def __init__(
        self,
        recorder: Recorder,
        reader: Reader,
        swept: SweptThreads,
        clock: Clock,
        days: Callable[[], int | None],
    ) -> None:
        self._recorder, self._reader, self._swept, self._clock, self._days = recorder, reader, swept, clock, days

    async def expire(self, stopping: Callable[[], bool] = lambda: False) -> int:
        """Drop what is due; returns how many deltas. Small commits, so that writing and stopping never wait long."""
        days = self._days()
        if days is None:
            return 0
        before = self._clock.now_ms() - days * DAY_MS
        dropped = commits = touched = 0

        def goes_on(made: int) -> bool:
            return not stopping() and commits + made < MAX_COMMITS

        place: tuple[int, int] | None = (0, 0)
        while place is not None and goes_on(0):
            threads, place = await self._swept.threads(before, place, BATCH)
            done: list[tuple[int, int]] = []
            for thread in threads:
                if not goes_on(0):
                    break
                sweep = _ThreadSweep(self._reader, self._recorder, thread, before, days)
                swept = await sweep.run(goes_on)
                dropped += sweep.dropped
                commits += sweep.commits
                touched += bool(sweep.dropped)
                if swept > thread.swept_seq:
                    done.append((thread.key, swept))
            if done:
                await self._swept.swept(done)
        if dropped:
            log.info("deltas.dropped", deltas=dropped, threads=touched, days=days)
        return dropped


class _ThreadSweep:
    """One thread: what has ended, then the deltas of it, commit by commit."""

    def __init__(self, reader: Reader, recorder: Recorder, thread: SweepThread, before: int, days: int) -> None:
        self._reader, self._recorder, self._thread, self._before, self._days = reader, recorder, thread, before, days
        self._ends = _Ends()
        self._compacted = 0
        self._batch: list[_Range] = []
        """What the next commit drops."""
        self.dropped = 0
        self.commits = 0

    async def run(self, goes_on: Callable[[int], bool]) -> int:
        """Up to which `seq` nothing is left to drop. Asks after each commit whether to go on."""
        thread = self._thread
        found = await self._reader.thread(thread.tenant, thread.id)
        if not isinstance(found, Thread):
            return thread.swept_seq
        self._compacted = found.compacted
        await self._find_ends(found)
        group: list[_Range] = []
        reaches = 0
        """The end of the messages in the group; before it there may be more of their deltas."""
        async for event in self._events(_DELTAS, self._ends.last):
            end = self._end_of_message(event)
            if end is None:
                continue
            if event.seq > reaches:
                self._take(group)
                group = []
                if self._due >= MAX_DELTAS and not (await self._drop() and goes_on(self.commits)):
                    return thread.swept_seq
            reaches = max(reaches, end)
            signal = event.payload["event"]
            if not group or not group[-1].takes(event, signal):
                group.append(_Range(event, event))
            group[-1].add(event, signal)
        self._take(group)
        if self._batch and not await self._drop():
            return thread.swept_seq
        still_open = self._ends.open()
        return self._ends.last if still_open is None else still_open - 1

    @property
    def _due(self) -> int:
        return sum(each.count for each in self._batch)

    def _take(self, group: Sequence[_Range]) -> None:
        """Messages whose deltas are mixed with each other go together, or stay where it would save nothing."""
        if sum(each.count for each in group) >= MIN_DELTAS * len(group):
            self._batch += group

    async def _find_ends(self, found: Thread) -> None:
        ends, thread = self._ends, self._thread
        ends.last = thread.swept_seq
        async for event in self._events(_FRAME, thread.last_seq):
            if event.at > self._before:
                return
            ends.add(event)
        if found.updated_at <= self._before and not found.active:
            ends.last = thread.last_seq  # nothing follows that could be part of anything unfinished

    def _end_of_message(self, event: Event) -> int | None:
        """The `seq` at which the message of a delta that may be dropped ends."""
        signal = event.payload["event"]
        message = signal.get("messageId")
        if signal.get("phase") not in adapter.DELTAS or message is None or len(message) > MAX_ID:
            return None
        if event.run_id is None or event.run_id not in self._ends.runs:
            return None
        call = self._ends.calls.around(event.run_id, message, event.seq, event.seq)
        return None if call is None else call[1]

    async def _events(self, types: Sequence[str], up_to: int) -> AsyncIterator[Event]:
        thread, after, full = self._thread, self._thread.swept_seq, True
        while full:
            page = await self._reader.events_of(thread.tenant, thread.id, types, after, up_to, PAGE)
            for event in page:
                yield event
                after = event.seq
            full = len(page) == PAGE

    async def _drop(self) -> bool:
        """False when another server did the same meanwhile, or the thread was deleted."""
        thread, batch, due = self._thread, self._batch, self._due
        drop = DropDeltas(tuple((each.first.seq, each.last.seq) for each in batch), self._compacted)
        facts = [
            LogCompacted(deltas=sum(r.to_seq - r.from_seq + 1 for r in part), delta_days=self._days, ranges=part)
            for part in _parts(each.value() for each in batch)
        ]
        answer = await self._recorder.record(Scope(thread.tenant, thread.id), *facts, conditions=[drop])
        if not isinstance(answer, Appended):
            return False
        self._compacted, self._batch = answer.events[-1].seq, []
        self.commits += 1
        self.dropped += due
        return True


def _parts(ranges: Iterable[DroppedRange]) -> list[list[DroppedRange]]:
    """As many ranges to an event as may be: a value over 16 KiB would be stored apart from it."""
    parts: list[list[DroppedRange]] = []
    room = 0
    for each in ranges:
        size = len(each.model_dump_json(by_alias=True)) + 1
        if size > room:
            parts.append([])
            room = MAX_BYTES
        parts[-1].append(each)
        room -= size
    return parts

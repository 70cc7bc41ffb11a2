"""Gaps in a thread's log, and the `runtime.log.compacted` events that explain them.

A gap is explained by ranges that lie in it end to end, whose hashes lead from the event before the gap to the one after
it, and whose messages were being made at that place: a model was asked before the range and answered after it, in
events that are still there. What explains a gap comes later in the log than the gap, so the verdict is given at the
end. Leaves to others: the hashes of the events themselves (`chain`).
"""

from typing import Final

from pydantic import ValidationError

from app.core import json
from app.core.value import value
from app.events.catalog import model
from app.events.catalog.log import DroppedRange, LogCompacted
from app.events.envelope import Event

_READ: Final = frozenset({model.ModelRequested.type, model.ModelCompleted.type, LogCompacted.type})


@value(frozen=True, slots=True)
class Gap:
    first: int
    last: int
    prev_hash: str
    head_hash: str


@value(frozen=True, slots=True)
class NumberGap:
    """Numbers of a run that no event has; `seq` is that of the event after them."""

    seq: int
    run_id: str
    first: int
    last: int


class MessageSpans:
    """From a model's request to its answer, for each message: deltas lie between them."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], int] = {}
        self._spans: dict[tuple[str, str], list[tuple[int, int]]] = {}

    def read(self, event: Event, payload: object) -> None:
        """An event of one of the two types, whatever it says."""
        message = payload.get("messageId") if isinstance(payload, dict) else None
        if not isinstance(message, str) or event.run_id is None:
            return
        place = (event.run_id, message)
        if event.type == model.ModelRequested.type:
            self._open[place] = event.seq
        elif place in self._open:
            self._spans.setdefault(place, []).append((self._open.pop(place), event.seq))

    def around(self, run_id: str, message_id: str, first: int, last: int) -> tuple[int, int] | None:
        """The request and the answer between which a message's deltas from one `seq` to another lie."""
        for asked, answered in self._spans.get((run_id, message_id), ()):
            if asked < first <= last < answered:
                return asked, answered
        return None


class Gaps:
    def __init__(self) -> None:
        self._gaps: list[Gap] = []
        self._numbers: list[NumberGap] = []
        self._ranges: dict[int, DroppedRange] = {}
        self._runs: dict[tuple[str, int], int] = {}
        """How many numbers of a run were dropped from that one on."""
        self._spans = MessageSpans()

    def add(self, gap: Gap) -> None:
        self._gaps.append(gap)

    def add_numbers(self, gap: NumberGap) -> None:
        self._numbers.append(gap)

    @property
    def any(self) -> bool:
        return bool(self._gaps)

    @property
    def missing(self) -> int:
        """Events that are no longer there."""
        return sum(gap.last - gap.first + 1 for gap in self._gaps)

    def read(self, event: Event) -> str | None:
        """Takes what the event says about messages and ranges; returns what is wrong with it."""
        if event.type not in _READ:
            return None
        try:
            payload: object = event.payload
        except json.JsonError:
            return "its payload is not JSON"
        if event.type == LogCompacted.type:
            return self._compacted(event.seq, payload)
        self._spans.read(event, payload)
        return None

    def _compacted(self, seq: int, payload: object) -> str | None:
        try:
            said = LogCompacted.model_validate(payload)
        except ValidationError:
            return "it does not say which deltas were dropped"
        for dropped in said.ranges:
            count = dropped.to_seq - dropped.from_seq + 1
            if not dropped.to_seq < seq or count != sum(run.count for run in dropped.runs):
                return f"the range of deltas that it dropped from seq {dropped.from_seq} on cannot be"
            if dropped.from_seq in self._ranges:
                return f"the deltas from seq {dropped.from_seq} on were dropped before"
            if not self._are_deltas(dropped):
                return (
                    f"what it dropped from seq {dropped.from_seq} on was not said between a model's request and answer"
                )
            self._ranges[dropped.from_seq] = dropped
            self._runs |= {(run.run_id, run.run_seq): run.count for run in dropped.runs}
        if said.deltas != sum(dropped.to_seq - dropped.from_seq + 1 for dropped in said.ranges):
            return "its ranges do not add up to the deltas that it dropped"
        return None

    def _are_deltas(self, dropped: DroppedRange) -> bool:
        """As far as what is left can show: each message, and a message of each run, was being made there."""
        runs = {message.run_id for message in dropped.messages}
        return runs == {run.run_id for run in dropped.runs} and all(
            self._spans.around(message.run_id, message.message_id, dropped.from_seq, dropped.to_seq) is not None
            for message in dropped.messages
        )

    def splits(self, seq: int) -> bool:
        """Whether a dropped range began before this event and went on after it."""
        return any(dropped.from_seq <= seq < dropped.to_seq for dropped in self._ranges.values())

    def differs(self, seq: int, hash: str) -> str | None:
        """Why an event that may have been dropped cannot be the one with that hash."""
        if not any(gap.first <= seq <= gap.last for gap in self._gaps):
            return None
        known = {dropped.to_seq: dropped.head_hash for dropped in self._ranges.values()}
        if known.get(seq) == hash:
            return None
        if seq in known:
            return "its hash is not the one of the exported head"
        return "retention dropped this event, so its hash cannot be compared with that of the exported head"

    def unexplained(self) -> tuple[int, str] | None:
        """The first `seq` that is missing without a reason, and what was found instead."""
        faults = [
            (gap.first, f"expected seq {gap.first}, found {gap.last + 1}")
            for gap in self._gaps
            if not self._explains(gap)
        ]
        faults += [
            (gap.seq, f"its runSeq {gap.last + 1} does not follow {gap.first - 1}")
            for gap in self._numbers
            if not self._counts(gap)
        ]
        return min(faults, default=None)

    def _explains(self, gap: Gap) -> bool:
        seq, link = gap.first, gap.prev_hash
        while seq <= gap.last:
            dropped = self._ranges.get(seq)
            if dropped is None or dropped.prev_hash != link:
                return False
            seq, link = dropped.to_seq + 1, dropped.head_hash
        return seq == gap.last + 1 and link == gap.head_hash

    def _counts(self, gap: NumberGap) -> bool:
        number = gap.first
        while number <= gap.last:
            count = self._runs.get((gap.run_id, number))
            if count is None:
                return False
            number += count
        return number == gap.last + 1

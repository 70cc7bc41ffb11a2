"""Verifies a thread's chain: every event follows the one before it and carries the hash it must.

A pure function of events in order. It finds a flipped byte, a missing, added or moved event; that the end of
a chain was cut off shows only against a head that was kept elsewhere. Deltas that retention dropped are missing with a
reason, which is part of the chain (`gaps`).
"""

from collections.abc import Iterable
from dataclasses import field

from app.core.value import value
from app.events.envelope import GENESIS, Event
from app.events.gaps import Gap, Gaps, NumberGap


@value(frozen=True, slots=True)
class Head:
    """Where a chain ends: enough to notice later that it was cut off."""

    seq: int
    hash: str
    dropped: int = field(default=0, compare=False)
    """Deltas before it that retention dropped."""


@value(frozen=True, slots=True)
class Broken:
    """The first `seq` that does not fit, and why."""

    seq: int
    reason: str


class ChainCheck:
    """Fed page by page; stops at the first fault."""

    def __init__(self, expected: Head | None = None, start: Head | None = None) -> None:
        """`start` is the event before the first one that is fed, for a part of a thread."""
        self._expected = expected
        self._seq = 0 if start is None else start.seq
        self._hash = GENESIS if start is None else start.hash
        self._in_the_middle = start is not None and start.seq > 0
        self._place: tuple[str, str] | None = None
        self._run_seqs: dict[str, int] = {}
        self._gaps = Gaps()
        self.broken: Broken | None = None

    @property
    def seq(self) -> int:
        """Of the last event that fits."""
        return self._seq

    def feed(self, events: Iterable[Event]) -> bool:
        """False as soon as something is wrong for certain."""
        for event in events:
            if self.broken is not None:
                self._gaps.read(event)  # whether an earlier gap is the first fault may depend on what follows
                continue
            reason = self._fault(event) or self._gaps.read(event)
            if reason is not None:
                self.broken = Broken(self._seq + 1, reason)
                continue
            self._seq, self._hash = event.seq, event.hash
            self._place = (event.tenant, event.thread_id)
            if event.run_id is not None:
                self._run_seqs[event.run_id] = event.run_seq or 0
        return self.broken is None

    def explain(self, later: Iterable[Event]) -> None:
        """Takes what later events of the thread say about dropped deltas, without their places in the chain."""
        for event in later:
            if event.sealed() == event.hash:
                self._gaps.read(event)

    def finish(self) -> Head | Broken:
        unexplained = self._gaps.unexplained()
        if unexplained is not None and (self.broken is None or unexplained[0] <= self.broken.seq):
            return Broken(*unexplained)
        if self.broken is not None:
            return self.broken
        expected = self._expected
        if expected is not None and self._seq < expected.seq:
            return Broken(self._seq + 1, f"the log ends at {self._seq}, but it once reached {expected.seq}")
        if expected is not None and (reason := self._gaps.differs(expected.seq, expected.hash)) is not None:
            return Broken(expected.seq, reason)
        return Head(self._seq, self._hash, self._gaps.missing)

    def _fault(self, event: Event) -> str | None:
        missing = event.seq - self._seq - 1
        if missing < 0 or (missing and self._place is None):
            return f"expected seq {self._seq + 1}, found {event.seq}"
        if missing:
            self._gaps.add(Gap(self._seq + 1, event.seq - 1, self._hash, event.prev_hash))
        elif event.prev_hash != self._hash:
            return "its prevHash is not the hash of the event before it"
        if event.sealed() != event.hash:
            return "its content does not give its hash"
        if self._place is not None and self._place != (event.tenant, event.thread_id):
            return "it belongs to another thread than the event before it"
        if event.run_id is not None and (reason := self._number_fault(event, event.run_id)) is not None:
            return reason
        expected = self._expected
        if expected is not None and event.seq == expected.seq and event.hash != expected.hash:
            return "its hash is not the one of the exported head"
        return None

    def _number_fault(self, event: Event, run_id: str) -> str | None:
        last, number = self._run_seqs.get(run_id, 0), event.run_seq or 0
        if number == last + 1 or (last == 0 and self._in_the_middle):
            return None
        if number <= last or last == 0 or not self._gaps.any:
            return f"its runSeq {event.run_seq} does not follow {last}"
        self._gaps.add_numbers(NumberGap(event.seq, run_id, last + 1, number - 1))
        return None


def verify(events: Iterable[Event], expected: Head | None = None) -> Head | Broken:
    check = ChainCheck(expected)
    check.feed(events)
    return check.finish()

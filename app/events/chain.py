"""Verifies a thread's chain: every event follows the one before it and carries the hash it must.

A pure function of events in order. It finds a flipped byte, a missing, added or moved event; that the end of
a chain was cut off shows only against a head that was kept elsewhere.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from app.events.envelope import GENESIS, Event


@dataclass(frozen=True, slots=True)
class Head:
    """Where a chain ends: enough to notice later that it was cut off."""

    seq: int
    hash: str


@dataclass(frozen=True, slots=True)
class Broken:
    """The first `seq` that does not fit, and why."""

    seq: int
    reason: str


class ChainCheck:
    """Fed page by page; stops at the first fault."""

    def __init__(self, expected: Head | None = None) -> None:
        self._expected = expected
        self._seq = 0
        self._hash = GENESIS
        self._place: tuple[str, str] | None = None
        self._run_seqs: dict[str, int] = {}
        self.broken: Broken | None = None

    def feed(self, events: Iterable[Event]) -> bool:
        """False as soon as something is wrong."""
        for event in events:
            reason = self._fault(event)
            if reason is not None:
                self.broken = Broken(self._seq + 1, reason)
                return False
            self._seq, self._hash = event.seq, event.hash
            self._place = (event.tenant, event.thread_id)
            if event.run_id is not None:
                self._run_seqs[event.run_id] = event.run_seq or 0
        return True

    def finish(self) -> Head | Broken:
        if self.broken is not None:
            return self.broken
        expected = self._expected
        if expected is not None and self._seq < expected.seq:
            return Broken(self._seq + 1, f"the log ends at {self._seq}, but it once reached {expected.seq}")
        return Head(self._seq, self._hash)

    def _fault(self, event: Event) -> str | None:
        if event.seq != self._seq + 1:
            return f"expected seq {self._seq + 1}, found {event.seq}"
        if event.prev_hash != self._hash:
            return "its prevHash is not the hash of the event before it"
        if event.sealed() != event.hash:
            return "its content does not give its hash"
        if self._place is not None and self._place != (event.tenant, event.thread_id):
            return "it belongs to another thread than the event before it"
        if event.run_id is not None and event.run_seq != self._run_seqs.get(event.run_id, 0) + 1:
            return f"its runSeq {event.run_seq} does not follow {self._run_seqs.get(event.run_id, 0)}"
        expected = self._expected
        if expected is not None and event.seq == expected.seq and event.hash != expected.hash:
            return "its hash is not the one of the exported head"
        return None


def verify(events: Iterable[Event], expected: Head | None = None) -> Head | Broken:
    check = ChainCheck(expected)
    check.feed(events)
    return check.finish()

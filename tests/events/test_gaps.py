"""Gaps in a chain: only ranges that fill them exactly, of messages that were made there, explain them."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any, Final

import pytest

from app.core import json
from app.events.chain import Broken, Head, verify
from app.events.envelope import GENESIS, Event, seal

RUN: Final = "run_1"
MESSAGE: Final = "msg_1"


class _Chain:
    """Events with a valid chain, whatever they say."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._numbers: dict[str, int] = {}

    def add(self, type: str, payload: Any, run_id: str | None = RUN) -> Event:
        seq, prev = len(self.events) + 1, self.events[-1].hash if self.events else GENESIS
        number = None
        if run_id is not None:
            number = self._numbers[run_id] = self._numbers.get(run_id, 0) + 1
        encoded = payload if isinstance(payload, bytes) else json.canonical(payload)
        place = (f"evt_{seq}", "default", "thr_1", run_id, seq, number, f"runtime.{type}", "system", seq, encoded, None)
        self.events.append(Event(*place, prev, seal(prev, *place)))
        return self.events[-1]

    def deltas(self, count: int, run_id: str = RUN) -> None:
        for _ in range(count):
            self.add("adapter.event", {"event": {"phase": "agent.output.delta", "messageId": MESSAGE}}, run_id)

    def range(self, first: int, last: int) -> dict[str, Any]:
        """What is to be said of dropping these."""
        events = self.events[first - 1 : last]
        runs = {event.run_id: event for event in reversed(events)}
        return {
            "fromSeq": first,
            "toSeq": last,
            "prevHash": events[0].prev_hash,
            "headHash": events[-1].hash,
            "runs": [
                {"runId": name, "runSeq": of.run_seq, "count": sum(event.run_id == name for event in events)}
                for name, of in runs.items()
            ],
            "messages": [{"runId": RUN, "messageId": MESSAGE, "textDeltas": last - first + 1}],
        }

    def compact(self, *ranges: dict[str, Any]) -> Event:
        deltas = sum(found["toSeq"] - found["fromSeq"] + 1 for found in ranges)
        return self.add("log.compacted", {"deltas": deltas, "deltaDays": 30, "ranges": list(ranges)}, None)

    def without(self, *gone: int) -> list[Event]:
        return [event for event in self.events if event.seq not in gone]


def _talk() -> _Chain:
    """1 thread, 2 queued, 3 requested, 4 to 7 deltas, 8 completed, 9 a tool's call, 10 the run's end, 11 a title."""
    chain = _Chain()
    chain.add("thread.created", {}, None)
    chain.add("request.queued", {})
    chain.add("model.requested", {"messageId": MESSAGE})
    chain.deltas(4)
    chain.add("model.completed", {"messageId": MESSAGE})
    chain.add("tool.invoked", {})
    chain.add("request.completed", {"messageId": MESSAGE})
    chain.add("thread.updated", {}, None)
    return chain


@pytest.mark.requirement("G19")
def test_a_range_explains_the_gap_that_it_fills() -> None:
    chain = _talk()
    chain.compact(chain.range(4, 7))
    found = verify(chain.without(4, 5, 6, 7))
    assert found == Head(12, chain.events[-1].hash)
    assert found.dropped == 4
    assert isinstance(verify(chain.events), Head), "they may still be there"


@pytest.mark.requirement("G19")
def test_ranges_of_several_events_fill_a_gap_together() -> None:
    chain = _talk()
    chain.compact(chain.range(6, 7), chain.range(4, 4))
    chain.compact(chain.range(5, 5))
    found = verify(chain.without(4, 5, 6, 7))
    assert isinstance(found, Head) and found.dropped == 4
    assert isinstance(verify(chain.without(4, 6, 7)), Head)
    for less in ((4, 5, 7), (5, 6), (3, 4, 5, 6, 7), (4, 5, 6, 7, 8), (4, 5, 6, 7, 9)):
        assert isinstance(verify(chain.without(*less)), Broken), less


def _change(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(payload: dict[str, Any]) -> None:
        *way, last = path.split(".")
        where: Any = payload
        for name in way:
            where = where[int(name)] if name.isdigit() else where[name]
        where[last] = value

    return change


FORGED: Final = {
    "another hash before": _change("ranges.0.prevHash", "ab" * 32),
    "another hash at the end": _change("ranges.0.headHash", "ab" * 32),
    "fewer": _change("ranges.0.toSeq", 6),
    "more": _change("ranges.0.toSeq", 8),
    "later than itself": _change("ranges.0.toSeq", 99),
    "nowhere": _change("ranges.0.fromSeq", 0),
    "other numbers": _change("ranges.0.runs.0.runSeq", 4),
    "fewer numbers": _change("ranges.0.runs.0.count", 3),
    "another run": _change("ranges.0.runs.0.runId", "run_2"),
    "an unknown message": _change("ranges.0.messages.0.messageId", "msg_2"),
    "a message of another run": _change("ranges.0.messages.0.runId", "run_2"),
    "no message": _change("ranges.0.messages", []),
    "another total": _change("deltas", 5),
    "no ranges": _change("ranges", []),
    "ranges elsewhere": _change("ranges", {"$blob": {"sha256": "ab" * 32, "size": 1, "mime": "application/json"}}),
    "unknown fields": _change("ranges.0.reason", "none"),
}


@pytest.mark.requirement("G19")
@pytest.mark.parametrize("name", FORGED)
def test_a_forged_reason_explains_nothing(name: str) -> None:
    chain = _talk()
    payload = {"deltas": 4, "deltaDays": 30, "ranges": [deepcopy(chain.range(4, 7))]}
    FORGED[name](payload)
    chain.add("log.compacted", payload, None)
    assert isinstance(verify(chain.without(4, 5, 6, 7)), Broken)


@pytest.mark.requirement("G19")
@pytest.mark.parametrize("hidden", [(9, 9), (8, 9), (3, 7), (2, 2), (10, 10), (7, 8), (3, 8), (3, 9), (11, 11)])
def test_what_is_no_delta_of_a_message_cannot_be_hidden(hidden: tuple[int, int]) -> None:
    """Although whoever forged it has made its hashes right."""
    chain = _talk()
    first, last = hidden
    forged = chain.range(first, last)
    chain.compact(forged)
    assert isinstance(verify(chain.without(*range(first, last + 1))), Broken)


@pytest.mark.requirement("G19")
@pytest.mark.parametrize("payload", [b"{", b"[]", b"null", b'"x"', b'{"ranges":1}'])
def test_a_payload_that_says_nothing_breaks_the_chain_and_nothing_else(payload: bytes) -> None:
    chain = _talk()
    chain.add("log.compacted", payload, None)
    found = verify(chain.events)
    assert isinstance(found, Broken) and found.seq == 12


def test_the_same_range_is_dropped_only_once() -> None:
    chain = _talk()
    chain.compact(chain.range(4, 7))
    chain.compact(chain.range(4, 7))
    found = verify(chain.without(4, 5, 6, 7))
    assert isinstance(found, Broken) and found.seq == 13


def test_the_first_fault_is_named_although_a_reason_comes_later() -> None:
    chain = _talk()
    chain.compact(chain.range(4, 7))
    left = chain.without(4, 5, 6, 7)
    left[4].payload_bytes = b"[]"
    found = verify(left)
    assert found == Broken(9, "its content does not give its hash"), "not the gap before it, which has a reason"
    both = [event for event in left if event.seq != 2]
    assert verify(both) == Broken(2, "expected seq 2, found 3")


@pytest.mark.requirement("G19")
def test_a_head_that_was_kept_is_compared_as_far_as_it_can_be() -> None:
    chain = _talk()
    hashes = [event.hash for event in chain.events]
    chain.compact(chain.range(4, 7))
    left = chain.without(4, 5, 6, 7)
    for seq in (1, 3, 7, 8, 10):
        assert isinstance(verify(left, Head(seq, hashes[seq - 1])), Head), seq
        assert isinstance(verify(left, Head(seq, "ab" * 32)), Broken), seq
    unknown = verify(left, Head(5, hashes[4]))
    assert isinstance(unknown, Broken) and unknown.seq == 5 and "retention dropped this event" in unknown.reason

"""The rows of events: whatever goes in comes out byte for byte, stored wide or tight, on whatever page it is read."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlalchemy.dialects.sqlite import dialect
from sqlalchemy.schema import CreateTable

from app.core import json
from app.events.catalog.adapter import DELTAS, OUTPUT_DELTA
from app.events.envelope import GENESIS, Event
from app.store import reader
from app.store.engine import Row, Sql, Tx
from app.store.event_rows import DELTA, MAX_BASES, MAX_PREFIX_BYTES, Bases, add_rows, events_from
from app.store.event_rows import read_page as read_rows
from app.store.sqlite import _run_to_end, _SqliteTx
from app.store.tables import log
from tests.examples import examples

KEY: Final = 7
AT: Final = 0x018BCFE56800
_FIELDS: Final = ("id", "run_id", "seq", "run_seq", "type", "actor", "at", "payload_bytes", "parent_id", "prev_hash",
                  "hash")  # fmt: skip


def delta(text: str, message: str = "msg_1", phase: str = OUTPUT_DELTA, **more: Any) -> bytes:
    signal = {"adapter": "test", "messageId": message, "part": 0, "phase": phase, "text": text, **more}
    return json.canonical({"event": signal})


def chained(contents: Sequence[dict[str, Any]]) -> list[Event]:
    """One thread of events with this content, each with the hash that it must have."""
    events: list[Event] = []
    for seq, content in enumerate(contents, 1):
        given_: dict[str, Any] = {
            "id": f"evt_{AT:012x}{seq:020x}",
            "run_id": "run_1",
            "run_seq": seq,
            "type": DELTA,
            "actor": "backend:test",
            "at": AT,
            "parent_id": None,
            **content,
        }
        prev = events[-1].hash if events else GENESIS
        event = Event(tenant="default", thread_id="thr_1", seq=seq, prev_hash=prev, hash="", **given_)
        event.hash = event.sealed()
        events.append(event)
    return events


def same(found: Sequence[Event], expected: Sequence[Event]) -> None:
    assert [[getattr(event, name) for name in _FIELDS] for event in found] == [
        [getattr(event, name) for name in _FIELDS] for event in expected
    ]
    assert [event.export_line() for event in found] == [event.export_line() for event in expected]


class Rows:
    """The two tables of the log, and what the store's own statements do with them."""

    def __init__(self, events: Sequence[Event], at_once: int = 1000) -> None:
        self.connection = sqlite3.connect(":memory:", isolation_level=None)
        for table in (log.events, log.deltas):
            self.connection.execute(str(CreateTable(table).compile(dialect=dialect())))
        self.tx: Tx = _SqliteTx(self.connection.cursor())
        self.bases: Bases = {}
        self.wide: list[Row] = []
        self.tight: list[Row] = []
        for first in range(0, len(events), at_once):
            add_rows(KEY, events[first : first + at_once], self.bases, self.wide, self.tight)
        _run_to_end(self.tx.append(self.wide, self.tight))

    def read(self, sql: Sql, *params: Any) -> list[Event]:
        return events_from("default", "thr_1", _run_to_end(read_rows(self.tx, KEY, sql, *params)))

    def pages(self, limit: int) -> Iterator[Event]:
        after = 0
        while page := self.read(reader._EVENTS, after, limit):
            yield from page
            after = page[-1].seq


_texts = st.text(max_size=12) | st.sampled_from(
    ['","text":"', ',"text":"', '"}}', '\\"}}', '","text":"x"}}', "\\", '"', "}}", "é😀", "\x1f", "x" * 9000]
)
_hex = st.sampled_from("0123456789abcdef")
_ids = (
    st.text(_hex, min_size=32, max_size=32).map("evt_".__add__)
    | st.text("0123456789abcdefABCDEF \t\nx", max_size=40).map("evt_".__add__)
    | st.text(max_size=8)
)
_payloads = (
    st.builds(delta, _texts)
    | st.builds(delta, _texts, st.sampled_from(["msg_1", "msg_2"]), st.sampled_from(sorted(DELTAS)))
    | st.builds(lambda text, name: delta(text, toolId=name), _texts, _texts)
    | st.builds(lambda text, other: delta(text, zone={"a": 1, "text": other}), _texts, _texts)
    | st.builds(lambda text, other: delta(text, event={"a": 1, "text": other}), _texts, _texts)
    | st.sampled_from([delta("x", adapter="a" * (MAX_PREFIX_BYTES + 1)), delta("y" * 600), b"{}", b'{"event":{}}'])
    # Not canonical, and not JSON: the rows do not know what a payload is.
    | st.binary(max_size=20)
    | st.lists(st.sampled_from([b',"text":"', b'"}}', b"a", b'{"event":{'])).map(b"".join)
)
_contents = st.fixed_dictionaries(
    {"payload_bytes": _payloads},
    optional={
        "id": _ids,
        "run_id": st.sampled_from(["run_1", "run_2", None]),
        "run_seq": st.none() | st.integers(0, 5) | st.integers(-(2**63), 2**63 - 1),
        "type": st.sampled_from([DELTA, "runtime.step.completed"]),
        "actor": st.sampled_from(["backend:test", "backend:other", ""]),
        "at": st.integers(0, 2**40) | st.integers(0, 253_402_300_799_999),
        "parent_id": st.none() | st.sampled_from(["evt_1", ""]),
    },
)


@settings(max_examples=examples(300))
@given(st.lists(_contents, max_size=30), st.integers(1, 8), st.integers(1, 12))
@example([{"payload_bytes": delta("a")}, {"payload_bytes": delta('","text":"')}], 1, 1)
@example([{"payload_bytes": delta("a")}, {"payload_bytes": delta("")[:-3] + b"}}"}], 1, 1)
@example([{"payload_bytes": delta("a")}, {"payload_bytes": delta("")[:-3]}, {"payload_bytes": delta("")[:-1]}], 1, 1)
def test_any_events_come_out_as_they_went_in_page_by_page(
    contents: list[dict[str, Any]], at_once: int, limit: int
) -> None:
    events = chained(contents)
    rows = Rows(events, at_once)
    with closing(rows.connection):
        same(list(rows.pages(limit)), events)
        for run_id in ("run_1", "run_2"):
            for after in (0, len(events) // 2):
                of_run = [event for event in events if event.run_id == run_id and event.seq > after]
                same(rows.read(reader._RUN_EVENTS, after, len(events), run_id, limit), of_run[:limit])
        deltas = [event for event in events if event.type == DELTA]
        same(rows.read(reader._EVENTS_AND_DELTAS_OF, 0, len(events), [DELTA], 100), deltas)


@settings(max_examples=examples(100))
@given(st.lists(st.text(max_size=100), min_size=2, max_size=20), st.lists(st.integers(-1000, 1000), min_size=20))
def test_every_delta_of_a_message_but_the_first_is_tight(texts: list[str], lags: list[int]) -> None:
    contents = [{"payload_bytes": delta(text), "at": AT + lags[n]} for n, text in enumerate(texts)]
    rows = Rows(chained(contents))
    with closing(rows.connection):
        assert (len(rows.wide), len(rows.tight)) == (1, len(texts) - 1)
        same(list(rows.pages(3)), chained(contents))


def test_messages_and_runs_that_alternate_each_have_their_base() -> None:
    contents = [
        {"payload_bytes": delta("x", message), "run_id": run_id, "run_seq": 1 + n}
        for n in range(10)
        for run_id in ("run_1", "run_2")
        for message in ("msg_1", "msg_2")
    ]
    contents = [{**content, "run_seq": 1 + 2 * (n // 4) + n % 2} for n, content in enumerate(contents)]
    rows = Rows(chained(contents))
    with closing(rows.connection):
        assert len(rows.wide) == 4
        same(list(rows.pages(7)), chained(contents))
        second = [event for event in chained(contents) if event.run_id == "run_2" and event.seq > 21]
        same(rows.read(reader._RUN_EVENTS, 21, 40, "run_2", 4), second[:4])


def test_another_event_of_the_run_ends_a_base_and_one_of_another_run_does_not() -> None:
    step = {"type": "runtime.step.completed", "payload_bytes": b"{}"}
    contents: list[dict[str, Any]] = [{"payload_bytes": delta("a")}, {**step, "run_id": "run_2"},
                                      {"payload_bytes": delta("b")}, step, {"payload_bytes": delta("c")}]  # fmt: skip
    rows = Rows(chained(contents))
    rows.connection.close()
    assert [row[1] for row in rows.tight] == [3]


def test_what_is_remembered_of_a_thread_is_bounded() -> None:
    contents = [
        {"payload_bytes": delta("x", f"msg_{m}", adapter="a" * 900), "run_id": f"run_{r}", "run_seq": 1}
        for r in range(100)
        for m in range(100)
    ]
    rows = Rows(chained(contents))
    rows.connection.close()
    assert len(rows.bases) <= MAX_BASES and all(len(of_run) <= MAX_BASES for of_run in rows.bases.values())


@pytest.mark.parametrize("column", ["back", "uuid", "run_shift", "at_shift", "text", "hash"])
@pytest.mark.parametrize("value", ["NULL", "'words'", "3", "-3", "1.5", "X''", "X'FF'", "9223372036854775807"])
def test_no_value_in_a_tight_row_keeps_the_others_from_being_read(column: str, value: str) -> None:
    events = chained([{"payload_bytes": delta(f"{n}")} for n in range(6)])
    rows = Rows(events)
    with closing(rows.connection):
        try:
            rows.connection.execute(f"UPDATE deltas SET {column} = {value} WHERE seq = 4")
        except sqlite3.IntegrityError:
            return  # NULL where there has to be something
        found = list(rows.pages(2))
        assert [event.seq for event in found] == [1, 2, 3, 4, 5, 6]
        same(found[:3], events[:3])
        same(found[5:], events[5:])

"""Whatever a thread's history: without its old deltas it verifies, folds to the same, and lacks nothing else."""

import random
import time
from collections.abc import Iterator
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.core.clock import ManualClock
from app.core.ids import new_id
from app.events.catalog import adapter, model, request, thread
from app.events.catalog.adapter import AdapterEvent, Signal
from app.events.catalog.base import Payload
from app.events.catalog.log import LogCompacted
from app.events.catalog.values import ErrorValue, Usage
from app.events.chain import Broken, Head, verify
from app.events.envelope import Event
from app.events.recorder import Scope
from app.protocols.dialects.native import export, read_export
from app.runtime.schedule import delta_expiry
from app.runtime.schedule.delta_expiry import DeltaExpiry
from app.store.compaction import SweepTable
from app.views.records import records_json, replay
from app.views.thread import Thread
from app.wiring.store import Store
from tests.examples import examples
from tests.runtime.schedule.test_delta_expiry import requested
from tests.store.test_properties import WithStore
from tests.store.test_properties import with_store as with_store
from tests.store_equals_replay import assert_tables_equal_replay

DAY_MS: Final = 86_400_000
_ERROR: Final = ErrorValue(code="BACKEND_FAILED", message="no")
_PHASES: Final = sorted(adapter.DELTAS)

runs = st.sampled_from(["a", "b", "c"])
messages = st.sampled_from(["m", "n"])
ends = st.sampled_from(["ask", "complete", "abandon", "finish", "finish with it", "cancel", "fail"])
moves = st.tuples(runs, messages, st.integers(1, 6) | ends | st.just("whole"))
histories = st.lists(moves, max_size=25)


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a short history takes several pages, commits and events."""
    for name, value in (("MAX_DELTAS", 9), ("PAGE", 7), ("MAX_BYTES", 900), ("MAX_NAMES", 2), ("MIN_DELTAS", 2)):
        monkeypatch.setattr(delta_expiry, name, value)


def _payloads(message: str, move: int | str) -> Iterator[Payload]:
    if isinstance(move, int):
        for number in range(move):
            phase = _PHASES[(number // 2) % 3]
            yield AdapterEvent(event=Signal(adapter="x", phase=phase, message_id=message, part=0, text=str(number)))
        return
    answer = model.ModelCompleted(
        message_id=message, model="m", provider="p", text="t", tool_calls=[], finish_reason="stop", usage=Usage()
    )
    failed = model.ModelFailed(message_id=message, model="m", provider="p", error=_ERROR, abandoned=True)
    asked = requested(message)
    if move == "whole":
        yield asked
        yield from _payloads(message, 5)
        yield answer
        return
    yield {
        "ask": asked,
        "complete": answer,
        "abandon": failed,
        "finish": request.RequestCompleted(output={"a": 1}),
        "finish with it": request.RequestCompleted(output="t", message_id=message),
        "cancel": request.RequestCancelled(output="t", message_id=message),
        "fail": request.RequestFailed(error=_ERROR),
    }[move]


async def _play(store: Store, history: list[tuple[str, str, int | str]]) -> str:
    thread_id = new_id("thread")
    await store.recorder.record(Scope("default", thread_id), thread.ThreadCreated())
    living: dict[str, str] = {}
    for letter, message, move in history:
        if letter not in living:
            living[letter] = new_id("run")
            scope = Scope("default", thread_id, living[letter])
            await store.recorder.record(scope, request.RequestQueued(agent="x", input="i"))
        scope = Scope("default", thread_id, living[letter])
        for payload in _payloads(f"{message}-{living[letter]}", move):
            await store.recorder.record(scope, payload)
        if move in ("finish", "finish with it", "cancel", "fail"):
            del living[letter]
    return thread_id


async def _events(store: Store, thread_id: str) -> list[Event]:
    return await store.reader.events("default", thread_id, 0, 10_000)


def _lines(events: list[Event]) -> list[bytes]:
    return [event.export_line() for event in events]


async def _sweep(store: Store, days: int) -> int:
    clock = ManualClock(time.time_ns() // 1_000_000 + days * DAY_MS)
    return await DeltaExpiry(store.recorder, store.reader, SweepTable(store.database), clock, lambda: 30).expire()


def _folded(thread_id: str, events: list[Event]) -> dict[str, object]:
    made = records_json(replay(thread_id, events))
    for name in ("lastSeq", "headHash"):
        del made["thread"][name]
    return made


@pytest.mark.requirement("G19", "G22")
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(histories, st.randoms(use_true_random=False))
def test_any_history_without_its_old_deltas(
    with_store: WithStore, history: list[tuple[str, str, int | str]], chance: random.Random
) -> None:
    async def work(store: Store) -> None:
        thread_id = await _play(store, history)
        before = await _events(store, thread_id)
        await _sweep(store, 29)
        assert _lines(await _events(store, thread_id)) == _lines(before)
        await _sweep(store, 31)
        after = await _events(store, thread_id)
        kept = {event.seq for event in after}
        gone = [event for event in before if event.seq not in kept]
        facts = [event for event in after if event.type != LogCompacted.type]
        assert _lines(facts) == _lines([event for event in before if event.seq in kept])
        _assert_only_what_may_go(before, gone)
        found = verify(after)
        assert isinstance(found, Head), found
        assert found.dropped == len(gone)
        assert _folded(thread_id, after) == _folded(thread_id, before)
        await assert_tables_equal_replay(store, [("default", thread_id)])
        row = await store.reader.thread("default", thread_id)
        assert isinstance(row, Thread)
        exported = read_export([line async for line in export(store.reader, "default", row)])
        assert _lines(exported.events) == _lines(after)
        assert verify(exported.events, exported.head) == exported.head
        place = chance.randrange(len(after))
        if after[place].seq < after[-1].seq:
            assert isinstance(verify([*after[:place], *after[place + 1 :]]), Broken), "another one is missing"
        await _sweep(store, 31)
        assert isinstance(verify(await _events(store, thread_id)), Head), "whatever a second one found worth it"

    with_store(work, fresh=False)


def _assert_only_what_may_go(before: list[Event], gone: list[Event]) -> None:
    """Deltas of runs that have ended, between a model's request and its answer; and of those all or none."""
    ended = {event.run_id for event in before if event.type in request.TERMINAL}
    asked: dict[str, int] = {}
    answers: list[tuple[str, int, int]] = []
    for event in before:
        if event.type == model.ModelRequested.type:
            asked[event.payload["messageId"]] = event.seq
        elif event.type == model.ModelCompleted.type and event.payload["messageId"] in asked:
            answers.append((event.payload["messageId"], asked.pop(event.payload["messageId"]), event.seq))
    lost = {event.seq for event in gone}
    of_answers: set[int] = set()
    for name, first, last in answers:
        own = {
            event.seq
            for event in before[first : last - 1]
            if event.type == AdapterEvent.type and event.payload["event"]["messageId"] == name
        }
        assert not own & lost or own <= lost
        of_answers |= own
    assert lost <= of_answers and all(event.run_id in ended for event in gone)

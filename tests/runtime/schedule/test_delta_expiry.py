"""The sweep that drops old deltas: in bounded commits, all or nothing, once however many sweep at the same time."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import pytest

from app.core.clock import ManualClock
from app.core.errors import HoldfastError
from app.core.ids import new_id
from app.core.settings import Settings
from app.events.catalog import adapter, model, request, thread
from app.events.catalog.log import LogCompacted
from app.events.catalog.values import Usage
from app.events.chain import Head, verify
from app.events.envelope import Event
from app.events.recorder import Scope
from app.protocols.dialects import native
from app.runtime.schedule import delta_expiry
from app.runtime.schedule.delta_expiry import DeltaExpiry
from app.store import materialize
from app.store.compaction import SweepTable
from app.store.event_rows import drop_rows
from app.store.reader import StoreReader
from app.views.thread import Thread
from app.wiring.store import Store, open_store
from tests.store_equals_replay import assert_tables_equal_replay

DAY_MS: Final = 86_400_000


@pytest.fixture
async def store(settings: Settings) -> AsyncIterator[Store]:
    async with open_store(settings) as opened:
        yield opened
        await assert_tables_equal_replay(opened)


def _expiry(store: Store, days_later: int = 31) -> DeltaExpiry:
    clock = ManualClock(time.time_ns() // 1_000_000 + days_later * DAY_MS)
    return DeltaExpiry(store.recorder, store.reader, SweepTable(store.database), clock, lambda: 30)


def requested(message_id: str) -> model.ModelRequested:
    return model.ModelRequested(
        message_id=message_id, model="m", provider="p", provider_model="m", attempt=1, request_hash="h", parameters={}
    )


def _answer(message_id: str) -> model.ModelCompleted:
    return model.ModelCompleted(
        message_id=message_id, model="m", provider="p", text="t", tool_calls=[], finish_reason="stop", usage=Usage()
    )


def _delta(message_id: str, text: str) -> adapter.AdapterEvent:
    signal = adapter.Signal(adapter="x", phase=adapter.OUTPUT_DELTA, message_id=message_id, part=0, text=text)
    return adapter.AdapterEvent(event=signal)


async def _talk(store: Store, messages: int, deltas: int) -> str:
    """A thread with one run that has ended and said so many messages in so many deltas each."""
    scope = Scope("default", new_id("thread"), new_id("run"))
    await store.recorder.record(scope, thread.ThreadCreated(), request.RequestQueued(agent="a", input="hi"))
    for _ in range(messages):
        name = new_id("message")
        said = [_delta(name, str(number)) for number in range(deltas)]
        await store.recorder.record(scope, requested(name), *said, _answer(name))
    await store.recorder.record(scope, request.RequestCompleted(output="t"))
    return scope.thread_id


async def _stored(store: Store, thread_id: str) -> list[Event]:
    return await store.reader.events("default", thread_id, 0, 100_000)


def _facts(events: Sequence[Event]) -> list[Event]:
    return [event for event in events if event.type == LogCompacted.type]


async def test_a_long_backlog_goes_in_bounded_commits_and_events(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    thread_id = await _talk(store, 160, 20)
    removed: list[int] = []

    async def counted(tx: Any, key: int, ranges: Sequence[tuple[int, int]]) -> None:
        removed.append(sum(last - first + 1 for first, last in ranges))
        await drop_rows(tx, key, ranges)

    monkeypatch.setattr(materialize, "drop_rows", counted)
    assert await _expiry(store).expire() == 3200 == sum(removed)
    assert max(removed) <= delta_expiry.MAX_DELTAS + 20 and len(removed) == 4
    left = await _stored(store, thread_id)
    assert len(left) == 3 + 2 * 160 + len(_facts(left))
    for fact in _facts(left):
        assert len(fact.payload_bytes) < 16_384 and isinstance(fact.payload["ranges"], list)
    found = verify(left)
    assert isinstance(found, Head) and found.dropped == 3200


async def test_a_sweep_that_has_done_enough_leaves_the_rest_to_the_next(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta_expiry, "MAX_COMMITS", 1)
    thread_id = await _talk(store, 30, 50)
    assert await _expiry(store).expire() == 1000
    assert isinstance(verify(await _stored(store, thread_id)), Head)
    assert await _expiry(store).expire() == 500
    assert await _expiry(store).expire() == 0
    assert await _expiry(store).expire(lambda: True) == 0, "nor does one that is to stop begin"


@pytest.mark.requirement("G19")
async def test_two_servers_that_sweep_at_once_drop_each_delta_once(store: Store) -> None:
    threads = [await _talk(store, 5, 10) for _ in range(3)]
    dropped = await asyncio.gather(*(_expiry(store).expire() for _ in range(4)))
    assert sum(dropped) == 150
    for thread_id in threads:
        left = await _stored(store, thread_id)
        assert isinstance(verify(left), Head) and len(_facts(left)) == 1


@pytest.mark.requirement("G19")
async def test_rows_and_the_event_that_names_them_go_together_or_not_at_all(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread_id = await _talk(store, 2, 10)
    before = [event.export_line() for event in await _stored(store, thread_id)]

    async def broken(tx: Any, key: int, ranges: Sequence[tuple[int, int]]) -> None:
        await drop_rows(tx, key, ranges)
        raise _Crash

    with monkeypatch.context() as patched:
        patched.setattr(materialize, "drop_rows", broken)
        with pytest.raises(_Crash):
            await _expiry(store).expire()
    assert [event.export_line() for event in await _stored(store, thread_id)] == before
    assert await _expiry(store).expire() == 20


async def test_a_deleted_thread_is_left_to_the_purge(store: Store) -> None:
    thread_id = await _talk(store, 1, 10)
    await store.recorder.record(Scope("default", thread_id), thread.ThreadDeleted())
    assert await _expiry(store).expire() == 0


async def test_a_thread_in_use_is_swept_as_far_as_it_is_old(store: Store) -> None:
    thread_id = await _talk(store, 1, 10)
    assert await _expiry(store).expire() == 10
    scope = Scope("default", thread_id, new_id("run"))
    name = new_id("message")
    words = [_delta(name, str(number)) for number in range(8)]
    await store.recorder.record(scope, request.RequestQueued(agent="a", input="again"), requested(name))
    await store.recorder.record(scope, *words)
    assert await _expiry(store).expire() == 0, "the run has not ended"
    await store.recorder.record(scope, _answer(name))
    assert await _expiry(store).expire() == 0, "nor now"
    await store.recorder.record(scope, request.RequestCompleted(output="01234567", message_id=name))
    assert await _expiry(store, 29).expire() == 0
    assert await _expiry(store).expire() == 8
    assert isinstance(verify(await _stored(store, thread_id)), Head)


class _Crash(Exception):
    pass


class _SweepBetweenPages(StoreReader):
    """A reader whose thread is swept after its first page was read."""

    def __init__(self, store: Store) -> None:
        super().__init__(store.database)
        self._store = store
        self._pages = 0

    async def events(self, tenant: str, thread_id: str, after: int, limit: int) -> list[Event]:
        page = await super().events(tenant, thread_id, after, limit)
        self._pages += 1
        if self._pages == 1:
            assert await _expiry(self._store).expire() > 0
        return page


async def _export(store: Store, thread_id: str) -> native.Export:
    row = await store.reader.thread("default", thread_id)
    assert isinstance(row, Thread)
    return native.read_export([line async for line in native.export(_SweepBetweenPages(store), "default", row)])


@pytest.mark.requirement("G19")
async def test_an_export_during_a_sweep_is_whole(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "PAGE", 14)
    found = await _export(store, await _talk(store, 3, 10))  # the first page ends with the end of the first message
    assert len(found.events) == 2 + 12 + 2 + 2 + 1 + 1
    checked = verify(found.events, found.head)
    assert checked == found.head
    assert checked is not None
    assert checked.dropped == 20


async def test_an_export_that_has_half_of_a_dropped_message_says_so(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "PAGE", 8)
    with pytest.raises(HoldfastError) as refused:
        await _export(store, await _talk(store, 3, 10))
    assert refused.value.code == "THREAD_BUSY"

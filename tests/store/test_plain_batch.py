"""The short path of a stream: it writes what any other batch would, and leaves to the other what is not its own."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.core.ids import new_id
from app.core.settings import Settings
from app.events.catalog import request, thread
from app.events.catalog.adapter import OUTPUT_DELTA
from app.events.catalog.execution import StepCompleted
from app.events.ports import Appended, Fence, Refused
from app.events.recorder import Scope
from app.store import log as log_module
from app.store import plain_batch
from app.store.commit_watch import CommitWatch
from app.views.records import FOLDED
from app.wiring.store import Store, open_store
from tests.store_equals_replay import assert_tables_equal_replay


@pytest.fixture
async def store(settings: Settings) -> AsyncIterator[Store]:
    async with open_store(settings) as opened:
        yield opened


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the batches that went the short way."""
    sizes: list[int] = []
    append = plain_batch.append_plain

    async def counted(tx: Any, batch: Any, *, alone: bool) -> None:
        sizes.append(len(batch.answers))
        await append(tx, batch, alone=alone)

    monkeypatch.setattr(log_module, "append_plain", counted)
    return sizes


async def begun(store: Store) -> Scope:
    scope = Scope("default", new_id("thread"), new_id("run"), "backend:test")
    await store.recorder.record(scope, thread.ThreadCreated(), request.RequestQueued(agent="a", input="hi"))
    return scope


async def test_runs_of_one_thread_in_one_batch_move_each_by_itself(store: Store, short: list[int]) -> None:
    first = await begun(store)
    second = Scope(first.tenant, first.thread_id, new_id("run"), "backend:test")
    await store.recorder.record(second, request.RequestQueued(agent="a", input="hi"))
    one, two = StepCompleted(step="s", key="s:1"), StepCompleted(step="s", key="s:2")
    await asyncio.gather(*(store.recorder.record(scope, one, two) for scope in (first, second, first)))
    assert short == [3]
    for scope, (last_seq, run_seq) in ((first, (9, 5)), (second, (7, 3))):
        assert scope.run_id is not None
        run = await store.reader.run(scope.tenant, scope.run_id)
        assert run is not None
        assert (run.last_seq, run.run_seq) == (last_seq, run_seq)
    await assert_tables_equal_replay(store)


async def test_streams_on_several_threads_give_the_tables_that_their_log_gives(store: Store, short: list[int]) -> None:
    scopes = [await begun(store) for _ in range(3)]
    for n in range(5):
        words = [store.recorder.record_delta(scope, OUTPUT_DELTA, "msg_1", 0, f"word{n}") for scope in scopes]
        assert all(isinstance(answer, Appended) for answer in await asyncio.gather(*words))
    await store.recorder.record(scopes[0], StepCompleted(step="s", key="s:1"))
    for scope in scopes:
        events = await store.reader.events(scope.tenant, scope.thread_id, 0, 100)
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert [event.payload["event"]["text"] for event in events[2:7]] == [f"word{n}" for n in range(5)]
    await assert_tables_equal_replay(store)
    assert sum(short) >= 12, short


async def test_a_batch_that_changes_a_record_goes_the_long_way(store: Store, short: list[int]) -> None:
    scope = await begun(store)
    before = len(short)
    await store.recorder.record(scope, request.RequestCancelled(by="user:x"))
    assert len(short) == before
    refused = await store.recorder.record_delta(scope, OUTPUT_DELTA, "msg_1", 0, "late")
    assert isinstance(refused, Refused)
    await assert_tables_equal_replay(store)


async def test_a_stale_owner_is_refused_on_the_short_way_too(store: Store) -> None:
    scope = await begun(store)
    assert isinstance(await store.recorder.record_delta(scope, OUTPUT_DELTA, "msg_1", 0, "a"), Appended)
    assert scope.run_id is not None
    stale = Scope(scope.tenant, scope.thread_id, scope.run_id, scope.actor, Fence(scope.run_id, 7))
    refused = await store.recorder.record_delta(stale, OUTPUT_DELTA, "msg_1", 0, "b")
    assert isinstance(refused, Refused) and refused.failure.code == "STALE_EPOCH"
    after = await store.recorder.record_delta(scope, OUTPUT_DELTA, "msg_1", 0, "c")
    assert isinstance(after, Appended)
    await assert_tables_equal_replay(store)


async def test_one_watch_gives_up_on_the_batch_that_is_overdue_and_on_no_other() -> None:
    given_up: asyncio.Queue[str] = asyncio.Queue()
    watch = CommitWatch[str](0.05, given_up.put_nowait)
    watch.begin("first")
    watch.end()
    watch.begin("second")
    assert await asyncio.wait_for(given_up.get(), 30) == "second"
    watch.begin("third")
    watch.end()
    watch.begin("fourth")
    assert await asyncio.wait_for(given_up.get(), 30) == "fourth"
    watch.close()
    assert given_up.empty()


def test_whatever_begins_or_ends_something_is_left_to_the_long_way() -> None:
    """The short way does not ask whether a thread or a run is there already, because these types never go it."""
    creations = {thread.ThreadCreated.type, thread.ThreadForked.type, request.RequestQueued.type}
    assert creations | request.TERMINAL <= FOLDED

"""The connection is lost while committing: the log finds out before it answers, and never reports what is not so."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from app.core.principal import DEFAULT_TENANT
from app.core.settings import Settings
from app.events.catalog.request import RequestQueued
from app.events.catalog.thread import ThreadCreated
from app.events.ports import Answer, Appended, StorageDown
from app.events.recorder import Scope
from app.store.engine import CommitUnknown, Database
from app.store.log import PATIENCE_SECONDS
from app.wiring.store import Store
from tests.faults.audit import SeenEvent, audit
from tests.faults.points import ForgetfulDatabase, RefusingDatabase, open_wrapped

CLOSES_WITHIN = 30.0


@contextlib.asynccontextmanager
async def _open(settings: Settings) -> AsyncIterator[tuple[Store, ForgetfulDatabase]]:
    made: list[ForgetfulDatabase] = []

    def wrap(inner: Database) -> Database:
        made.append(ForgetfulDatabase(inner))
        return made[0]

    async with open_wrapped(settings, wrap) as store:
        await _append(store, ThreadCreated())
        yield store, made[0]


async def _append(store: Store, payload: ThreadCreated | RequestQueued, run_id: str | None = None) -> Answer:
    return await store.recorder.record(Scope(DEFAULT_TENANT, "thr_1", run_id), payload)


async def _append_again(store: Store, payload: RequestQueued, run_id: str) -> Answer:
    """As a client does: until the log has found its database again."""
    async with asyncio.timeout(30):
        while True:
            try:
                return await _append(store, payload, run_id)
            except StorageDown:
                await asyncio.sleep(0.01)


@pytest.mark.requirement("G1", "G2")
async def test_a_commit_that_turns_out_stored_is_answered_and_published_once(settings: Settings) -> None:
    async with _open(settings) as (store, database):
        listening = store.hub.subscribe(DEFAULT_TENANT, ["thr_1"])
        database.next_commit = "stored"
        answer = await _append(store, RequestQueued(agent="a"), "run_1")
        assert isinstance(answer, Appended)
        assert [event.id for event in listening.take()] == [answer.events[0].id]
        await _append(store, RequestQueued(agent="a"), "run_2")
        (await audit(store, [SeenEvent.of(answer.events[0])])).assert_sound()


@pytest.mark.requirement("G1", "G2", "G3")
async def test_a_commit_that_turns_out_lost_is_refused_and_leaves_nothing(settings: Settings) -> None:
    async with _open(settings) as (store, database):
        listening = store.hub.subscribe(DEFAULT_TENANT, ["thr_1"])
        database.next_commit = "rolled back"
        with pytest.raises(StorageDown):
            await _append(store, RequestQueued(agent="a"), "run_1")
        assert listening.take() == []
        answer = await _append_again(store, RequestQueued(agent="a"), "run_1")
        assert isinstance(answer, Appended) and answer.events[0].seq == 2
        (await audit(store, [SeenEvent.of(answer.events[0])])).assert_sound()


@pytest.mark.requirement("G2", "G17")
async def test_a_caller_is_not_kept_waiting_and_what_is_stored_is_published_all_the_same(settings: Settings) -> None:
    async with _open(settings) as (store, database):
        listening = store.hub.subscribe(DEFAULT_TENANT, ["thr_1"])
        database.next_commit, database.reads_fail = "stored", True
        assert PATIENCE_SECONDS <= 1.0
        async with asyncio.timeout(30):  # nothing else would ever answer
            with pytest.raises(StorageDown):
                await _append(store, RequestQueued(agent="a"), "run_1")
        assert listening.take() == []
        database.reads_fail = False
        async with asyncio.timeout(30):
            await listening.wait()
        (shown,) = listening.take()
        assert (shown.seq, shown.run_id) == (2, "run_1")
        (await audit(store, [], [SeenEvent.of(shown)])).assert_sound()


@pytest.mark.requirement("G15")
async def test_a_log_that_does_not_hear_of_its_commit_can_still_be_closed(settings: Settings) -> None:
    async with _open(settings) as (store, database):
        database.next_commit, database.reads_fail = "stored", True
        with pytest.raises(StorageDown):
            await _append(store, RequestQueued(agent="a"), "run_1")
        async with asyncio.timeout(CLOSES_WITHIN):
            await store.log.close()
        database.reads_fail = False
        (await audit(store, [])).assert_sound()


@pytest.mark.requirement("G13")
async def test_a_log_that_is_down_does_not_grow_with_the_calls_it_refuses(settings: Settings) -> None:
    async with _open(settings) as (store, database):
        database.next_commit, database.reads_fail = "stored", True
        depths = []
        for number in range(20):
            with pytest.raises(StorageDown) as refused:
                await _append(store, RequestQueued(agent="a"), f"run_{number}")
            depths.append(len(refused.traceback))
        assert depths[-1] == depths[1]
        database.reads_fail = False


@pytest.mark.requirement("G10", "G17")
async def test_a_lease_whose_renewal_is_not_heard_of_is_a_clean_error(settings: Settings) -> None:
    async with open_wrapped(settings, RefusingDatabase) as store:
        assert isinstance(store.database, RefusingDatabase)
        store.database.refuse = CommitUnknown()
        with pytest.raises(StorageDown):
            await store.leases.renew([(DEFAULT_TENANT, "run_1", 1)], 15.0)

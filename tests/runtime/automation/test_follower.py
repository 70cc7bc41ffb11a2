"""Consumers of the log: every event at least once, in the order of its thread, whatever dies in between."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from app.core.settings import Settings
from app.events.catalog import thread
from app.events.envelope import Event
from app.events.ports import ThreadIsNew
from app.events.recorder import Scope
from app.runtime.automation import follower as module
from app.runtime.automation.follower import LogFollower
from app.store.outbox import OutboxTable
from app.wiring.store import Store, open_store
from tests.waiting import until

TYPE = thread.ThreadUpdated.type


class Heard:
    """Keeps what it hears, and fails as often as it is told to."""

    name = "test"
    types = frozenset({TYPE})

    def __init__(self, fail: int = 0) -> None:
        self.events: list[tuple[str, int]] = []
        self.fail = fail
        self.hang = False

    async def handle(self, events: Sequence[Event]) -> None:
        if self.hang:
            await asyncio.Event().wait()
        if self.fail:
            self.fail -= 1
            raise RuntimeError("not today")
        self.events += [(event.thread_id, event.seq) for event in events]


@asynccontextmanager
async def server(settings: Settings) -> AsyncIterator[tuple[Store, LogFollower]]:
    async with open_store(settings) as store:
        outbox = OutboxTable(store.database)
        store.log.outbox = outbox
        follower = LogFollower(outbox, store.reader)
        await follower.start()
        try:
            yield store, follower
        finally:
            await follower.close()


async def write(store: Store, name: str, count: int) -> None:
    scope = Scope("default", name)
    await store.recorder.record(scope, thread.ThreadCreated(), conditions=[ThreadIsNew()])
    for number in range(count):
        await store.recorder.record(scope, thread.ThreadUpdated(title=str(number)))


@pytest.mark.requirement("PX-11")
async def test_a_consumer_hears_every_event_after_failures_and_restarts(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_PAUSE_SECONDS", 0.01)
    failing = Heard(fail=3)
    async with server(settings) as (store, follower):
        await follower.add(failing)
        await asyncio.gather(write(store, "one", 150), write(store, "two", 20))
        await until(lambda: len(failing.events) >= 170)
        assert [seq for name, seq in failing.events if name == "one"] == list(range(2, 152))
        assert [seq for name, seq in failing.events if name == "two"] == list(range(2, 22))
        failing.hang = True
        await write(store, "three", 5)
    later = Heard()
    async with server(settings) as (store, follower):
        await write(store, "four", 5)  # before anybody listens here: the consumer exists nevertheless
        await follower.add(later)
        await until(lambda: len(later.events) == 10)
        await follower.remove("test")
        await write(store, "five", 5)
        assert await OutboxTable(store.database).unread("test", 10) == []
    assert {name for name, _ in later.events} == {"three", "four"}


@pytest.mark.requirement("PX-11")
async def test_one_server_at_a_time_has_a_consumer_and_another_takes_over(settings: Settings) -> None:
    async with server(settings) as (store, follower):
        first, second = Heard(), Heard()
        other = LogFollower(OutboxTable(store.database), store.reader)
        await follower.add(first)
        await other.start()
        await other.add(second)
        await write(store, "shared", 40)
        await until(lambda: len(first.events) + len(second.events) >= 40)
        assert sorted(first.events + second.events) == [("shared", seq) for seq in range(2, 42)], "nobody hears twice"
        first.hang = True
        had = len(second.events)
        await follower.detach("test")
        await write(store, "handed over", 5)
        await until(lambda: len(second.events) >= had + 5)
        await other.close()


async def test_nothing_is_stored_for_types_that_nobody_wants(settings: Settings) -> None:
    async with server(settings) as (store, follower):
        await write(store, "quiet", 3)
        await follower.add(heard := Heard())
        await write(store, "loud", 3)
        await until(lambda: len(heard.events) == 3)
        assert {name for name, _ in heard.events} == {"loud"}

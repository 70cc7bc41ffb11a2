"""Offers the events that consumers want to them, batch by batch, until each is acknowledged.

The contract is `app.events.followed.Consumer`. Leaves to the store: what is unread. Leaves to consumers: what they do.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from itertools import groupby
from typing import Final

import structlog

from app.core.ids import new_id
from app.events.envelope import Event
from app.events.followed import Consumer, ConsumerOutbox, UnreadEvent
from app.events.ports import StoreError
from app.views.ports import Reader

LEASE_SECONDS: Final = 30.0
HANDLE_SECONDS: Final = 20.0
"""Less than the lease, so that no two servers handle a batch at the same time."""
LOOK_SECONDS: Final = 2.0
"""Between two looks for what other servers stored, and for consumers that were added there."""
LOOK_ALONE_SECONDS: Final = 30.0
"""The same where no other server can have stored anything: whatever is stored here is announced at once."""
BATCH: Final = 100
MAX_PAUSE_SECONDS: Final = 60.0

log = structlog.get_logger("holdfast.follower")


class LogFollower:
    """Add consumers before or after `start`; `close` ends their work, and what is unread stays."""

    def __init__(self, outbox: ConsumerOutbox, reader: Reader, *, alone: bool = False) -> None:
        """`alone` if no other server uses the database."""
        self._outbox, self._reader = outbox, reader
        self._look_seconds = LOOK_ALONE_SECONDS if alone else LOOK_SECONDS
        self._owner = new_id("key").replace("key_", "follower_")
        self._consumers: dict[str, Consumer] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._news: dict[str, asyncio.Event] = {}
        self._refreshing: asyncio.Task[None] | None = None
        outbox.on_written = self._wake

    async def start(self) -> None:
        await self._outbox.refresh()
        self._refreshing = asyncio.create_task(self._refresh_forever(), name="holdfast-consumers")

    async def add(self, consumer: Consumer) -> None:
        """From now on it hears of events. Adding one of the same name again replaces it."""
        await self.detach(consumer.name)
        await self._outbox.add(consumer.name, consumer.types)
        self.attach(consumer)

    def attach(self, consumer: Consumer) -> None:
        """Offer it what is stored for it, by whichever server; until somebody wants it (`want`) nothing is."""
        name = consumer.name
        self._consumers[name], self._news[name] = consumer, asyncio.Event()
        self._tasks[name] = asyncio.create_task(self._offer_forever(consumer), name=f"holdfast-consumer-{name}")

    async def want(self, name: str, types: frozenset[str]) -> None:
        """From now on these events are stored for the consumer. Costs nothing where that is so already."""
        await self._outbox.add(name, types)

    async def take_lease(self, name: str, seconds: float) -> bool:
        """Whether this server has the consumer now, for so long; for what it does outside of `handle`."""
        return await self._outbox.take_lease(name, self._owner, seconds)

    async def detach(self, name: str) -> None:
        """This server offers it nothing any more; what it wants goes on being stored."""
        task = self._tasks.pop(name, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            with contextlib.suppress(StoreError):
                await self._outbox.give_back(name, self._owner)

    async def remove(self, name: str) -> None:
        """It exists no longer, on any server; what it has not acknowledged is dropped."""
        await self.detach(name)
        await self._outbox.remove(name)

    async def close(self) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)
        for name in list(self._tasks):
            await self.detach(name)

    def _wake(self) -> None:
        for news in self._news.values():
            news.set()

    async def _refresh_forever(self) -> None:
        while True:
            await asyncio.sleep(self._look_seconds / 2)
            with contextlib.suppress(StoreError):
                await self._outbox.refresh()

    # -- one consumer --------------------------------------------------------------------------------

    async def _offer_forever(self, consumer: Consumer) -> None:
        pause, news = 0.0, self._news[consumer.name]
        while True:
            if pause:
                await asyncio.sleep(pause)
            news.clear()
            try:
                more = await self._offer(consumer)
                pause = 0.0
            except Exception as error:  # a consumer's or the store's: neither ends the following
                pause = min(MAX_PAUSE_SECONDS, pause * 2 or 1.0)
                code = error.code if isinstance(error, StoreError) else type(error).__name__
                log.warning("follower.failed", consumer=consumer.name, error=code, again_seconds=pause)
                continue
            if not more:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._look_seconds):
                        await news.wait()

    async def _offer(self, consumer: Consumer) -> bool:
        """One batch; whether there may be more at once."""
        unread = await self._outbox.unread(consumer.name, BATCH)
        if not unread or not await self._outbox.take_lease(consumer.name, self._owner, LEASE_SECONDS):
            return False
        # Again, under the lease: whoever had it may have acknowledged some of them.
        unread = await self._outbox.unread(consumer.name, BATCH)
        events = await self._events(unread)
        if events:
            async with asyncio.timeout(HANDLE_SECONDS):
                await consumer.handle(events)
        await self._outbox.acknowledge(consumer.name, [one.place for one in unread])
        return len(unread) == BATCH

    async def _events(self, unread: Sequence[UnreadEvent]) -> list[Event]:
        """In the order of their places, read thread by thread."""
        found: dict[tuple[str, str, int], Event] = {}
        in_order = sorted(unread, key=lambda one: (one.tenant, one.thread_id, one.seq))
        for (tenant, thread_id), ones in groupby(in_order, key=lambda one: (one.tenant, one.thread_id)):
            for event in await self._reader.events_at(tenant, thread_id, [one.seq for one in ones]):
                found[tenant, thread_id, event.seq] = event
        places = ((one.tenant, one.thread_id, one.seq) for one in unread)
        return [found[place] for place in places if place in found]

"""Brings events of other servers to this server's listeners: each once, in its thread's order, also between own ones.

Stands between the log and the hub. News only says where to look: the events are read from the store, once for all
listeners of a thread. Own events of a thread that is being read wait for their turn behind it. Leaves to others:
hearing news (`replicas`), and a listener that lacks what came before (its follower reads it).
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, Protocol, TypeAlias

from app.bus.messages import ANNOUNCES, ThreadNews
from app.core.recent import RecentDict
from app.events.envelope import Event
from app.events.hub import ANNOUNCED, Hub
from app.events.ports import StoreError

MAX_THREADS: Final = 50_000
"""Threads whose last `seq` is remembered, of those that are followed and of the others; of one that is forgotten,
listeners find a gap themselves."""
PAGE: Final = 500
READS: Final = 4
"""Threads that are read at once: half of the connections for reading."""
RETRY_SECONDS: Final = 0.5

_ANNOUNCED: Final = sorted(ANNOUNCED)

Place: TypeAlias = tuple[str, str]
"""A tenant and a thread."""


class ThreadReader(Protocol):
    async def events(self, tenant: str, thread_id: str, after: int, limit: int) -> list[Event]: ...

    async def events_of(
        self, tenant: str, thread_id: str, types: Sequence[str], after: int, up_to: int, limit: int
    ) -> list[Event]: ...


class Relay:
    def __init__(self, hub: Hub, reader: ThreadReader) -> None:
        self._hub, self._reader = hub, reader
        self._last = RecentDict[Place, int](MAX_THREADS)
        """What was published last of a thread that others write to as well."""
        self._past = RecentDict[Place, int](MAX_THREADS)
        """Up to where the other threads were said here: no news for whoever began to listen after that."""
        self._unread = RecentDict[Place, int](MAX_THREADS)
        """Up to where a thread counts as said without having been read: own events of it may be on their way here."""
        self._targets: dict[Place, int] = {}
        """Threads that are being read, and how far."""
        self._slots = asyncio.Semaphore(READS)
        self._tasks: set[asyncio.Task[None]] = set()
        self.shared = False
        """Whether there may be other servers."""
        self.note: Callable[[Sequence[Event]], None] | None = None
        """Called with the events of each commit, while another server could want to hear of them."""
        self.relayed = 0

    def publish(self, events: Sequence[Event]) -> None:
        """What this server committed."""
        if self.note is not None:
            self.note(events)
        if not self.shared:
            self._hub.publish(events)
            return
        ready = [event for event in events if self._is_next(event)]
        if ready:
            self._hub.publish(ready)

    def _is_next(self, event: Event) -> bool:
        place = (event.tenant, event.thread_id)
        last = self._last.get(place)
        if last is None:
            # Whoever follows a thread finds gaps by itself; who hears all threads could not.
            known = self._last if self._hub.hears_all(event.tenant) else self._past
            known.put(place, event.seq)
            return True
        if event.seq <= last:
            # It was read from the store a moment ago; or only its number was, between its commit and now.
            return event.seq <= self._unread.get(place, 0)
        if place in self._targets or event.seq != last + 1:
            self._read_up_to(place, event.seq)
            return False
        self._last[place] = event.seq
        return True

    def heard(self, tenant: str, news: ThreadNews) -> None:
        place = (tenant, news.thread_id)
        if not self._hub.wants(tenant, news.thread_id):
            self._last.pop(place, None)
            self._past.put(place, news.last)
            if news.flags & ANNOUNCES and self._hub.has_listeners(tenant):
                self._start(self._announce(place, news))
            return
        last = self._last.get(place)
        if last is None:
            self._begin(place, news.first - 1)
        elif news.last <= last:
            return
        self._read_up_to(place, news.last)

    def _begin(self, place: Place, seq: int) -> None:
        """From now on it is known what was published of the thread; what it had until `seq` is not read."""
        self._last.put(place, seq)
        self._unread.put(place, seq)

    def found(self, tenant: str, thread_id: str, first: int, last: int) -> None:
        """By polling: the thread is at `last`. Of one that was not known, what is news begins at `first`."""
        past = self._past.get((tenant, thread_id), 0)
        if last <= past:
            self.prime(tenant, thread_id, past)
        else:
            self.heard(tenant, ThreadNews(thread_id, max(1, past + 1, min(first, last)), last))

    def known(self, tenant: str, thread_id: str) -> bool:
        return (tenant, thread_id) in self._last

    def prime(self, tenant: str, thread_id: str, last: int) -> None:
        """So far the thread is nothing new."""
        if (tenant, thread_id) not in self._last:
            self._begin((tenant, thread_id), last)

    def forget(self, tenant: str) -> None:
        """Nobody listens there any more: what is published meanwhile is not followed."""
        for place in [place for place in self._last if place[0] == tenant]:
            self._past.put(place, self._last.pop(place))

    # -- reading -------------------------------------------------------------------------------------

    def _read_up_to(self, place: Place, seq: int) -> None:
        waiting = self._targets.get(place)
        self._targets[place] = max(seq, waiting or 0)
        if waiting is None:
            self._start(self._catch_up(place))

    def _start(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _catch_up(self, place: Place) -> None:
        tenant, thread_id = place
        try:
            while self._hub.wants(tenant, thread_id) and (last := self._last.get(place)) is not None:
                if last >= self._targets[place]:
                    return
                try:
                    async with self._slots:
                        page = await self._reader.events(tenant, thread_id, last, PAGE)
                except StoreError:
                    await asyncio.sleep(RETRY_SECONDS)
                    continue
                if not page:
                    return  # it was deleted, or the news was not true
                # From here to the end of the loop nothing can be published by anybody else.
                self._last[place] = page[-1].seq
                self.relayed += len(page)
                self._hub.publish(page)
        finally:
            del self._targets[place]

    async def _announce(self, place: Place, news: ThreadNews) -> None:
        tenant, thread_id = place
        with contextlib.suppress(StoreError):
            async with self._slots:
                found = await self._reader.events_of(tenant, thread_id, _ANNOUNCED, news.first - 1, news.last, PAGE)
            self.relayed += len(found)
            self._hub.publish(found)

    async def close(self) -> None:
        tasks: Iterable[asyncio.Task[None]] = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

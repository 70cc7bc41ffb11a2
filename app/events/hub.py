"""Publishes committed events to whoever listens in this process.

Every subscription is bounded and nobody waits for a reader: one that falls behind is closed with its last
`seq`, and reads on from the store. Leaves to others: history (the store), frames (the protocols), other
processes (the bus).
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, Protocol

from app.events.catalog import EVENTS
from app.events.envelope import Event

EVERYWHERE: Final = frozenset(name for name, payload in EVENTS.items() if payload.everywhere)
"""Types that every listener of the tenant hears, whatever it listens to."""
ANNOUNCED: Final = EVERYWHERE | {name for name, payload in EVENTS.items() if payload.announced}
"""Types that every listener of the tenant is offered, although most belong to a thread."""

MAX_QUEUED_EVENTS: Final = 1000
_FEW: Final = 16
"""Listeners that are written to at once, a fraction of a millisecond together."""
_TURNS: Final = 4
"""Listeners that are written to before the loop does something else, a fraction of a millisecond. The fewer, the more
events come together until a listener has its turn."""
MAX_QUEUED_BYTES: Final = 1024 * 1024


class Subscription:
    """One listener. While `paused` it keeps no events of its threads, only which it missed."""

    def __init__(self, hub: "Hub", tenant: str, max_events: int, max_bytes: int) -> None:
        self._hub = hub
        self._queue: deque[Event] = deque()
        self._bytes = 0
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._woken = False
        self._sleeper: asyncio.Future[None] | None = None
        self.on_news: Callable[[], None] | None = None
        """Called whenever there may be something to do, once for what is published together. It must not raise."""
        self.has_turn = False
        """It will be called in its turn, with everything that is queued by then."""
        self.tenant = tenant
        self.threads: frozenset[str] | None = frozenset()
        self.quiet: frozenset[str] = frozenset()
        """Types that do not wake the listener by themselves; it gets them with the next one that does."""
        self.paused = False
        self.missed: dict[str, tuple[int, int]] = {}
        """First and newest `seq` per thread that was not queued because of a pause."""
        self.overflowed = False
        """It fell behind and hears nothing any more."""
        self.closed = False

    def listen_to(self, threads: Iterable[str] | None) -> None:
        """Set the threads that are heard; None hears every thread of the tenant."""
        self._hub.move(self, None if threads is None else frozenset(threads))

    def offer(self, event: Event) -> bool:
        """Queues the event, or notes that it was missed. Whether the listener should be woken for that."""
        if self.closed or self.overflowed:
            return False
        if self.paused and (self.threads is None or event.thread_id in self.threads):
            self._miss(event)
            return True
        queue, size = self._queue, len(event.payload_bytes)
        half_full = len(queue) * 2 >= self._max_events or (self._bytes + size) * 2 > self._max_bytes
        if half_full and queue and not self._has_room(size):
            return True
        queue.append(event)
        self._bytes += size
        return event.type not in self.quiet

    def _has_room(self, size: int) -> bool:
        """Nobody overflows because much is published at once or turns are slow, only because the reader is."""
        if self.on_news is not None:
            self.on_news()
        queue = self._queue
        if len(queue) >= self._max_events or (self._bytes + size > self._max_bytes and queue):
            self.overflowed = True
            queue.clear()
            self._hub.dropped += 1
        return not self.overflowed

    def pause(self) -> None:
        """For reading from the store. What is queued already counts as missed; news of other threads is kept."""
        if not self.paused:
            self._hub.backfills += 1
        self.paused = True
        for event in self.take():
            if self.offer(event):
                self.wake()

    def _miss(self, event: Event) -> None:
        first, _ = self.missed.get(event.thread_id, (event.seq, 0))
        self.missed[event.thread_id] = (first, event.seq)

    def take(self) -> list[Event]:
        """Everything that has arrived, without waiting."""
        events = list(self._queue)
        self._queue.clear()
        self._bytes = 0
        self._woken = False
        return events

    def next(self) -> Event | None:
        """The oldest that has arrived, without waiting."""
        if not self._queue:
            return None
        event = self._queue.popleft()
        self._bytes -= len(event.payload_bytes)
        return event

    def put_back(self, events: Sequence[Event]) -> None:
        """The last of what `take` gave, which could not be used yet."""
        self._queue.extendleft(reversed(events))
        self._bytes += sum(len(event.payload_bytes) for event in events)

    @property
    def has_news(self) -> bool:
        """Whether anything arrived that is worth waking for."""
        return self._woken

    async def wait(self) -> None:
        """Returns when something arrived, the subscription overflowed, or it was closed."""
        if self.overflowed or self.closed or (self._queue and (self._woken or not self.quiet)):
            return
        self._woken = False
        self._sleeper = asyncio.Future()  # of the running loop; to ask the loop for one costs twice as much
        try:
            await self._sleeper
        finally:
            self._sleeper = None

    def wake(self) -> None:
        self._woken = True
        if self.on_news is not None:
            self.on_news()
        elif self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)

    def close(self) -> None:
        self.closed = True
        self._hub.remove(self)
        self.wake()


class EventSource(Protocol):
    """Where events are subscribed to: one of the runtime's four surfaces."""

    def subscribe(self, tenant: str, threads: Iterable[str] | None) -> Subscription:
        """Hears these threads from now on; None hears every thread of the tenant."""
        ...


class Hub:
    """Few listeners of a thread are woken where events are published, once for all that were published together. Many
    take turns, a few at a time: the loop goes on serving others, and whoever waits for a turn gets everything that was
    published until then at once."""

    def __init__(self) -> None:
        self._turns: deque[Subscription] = deque()
        self._by_thread: dict[tuple[str, str], set[Subscription]] = {}
        self._unfiltered: dict[str, set[Subscription]] = {}
        self._by_tenant: dict[str, set[Subscription]] = {}
        self.dropped = 0
        """Subscriptions that were closed because they fell behind."""
        self.backfills = 0
        """Times that a subscription went to the store for what it had not heard."""
        self.on_tenant: Callable[[str], None] = lambda tenant: None
        """Called when somebody begins to listen to a tenant that nobody listened to."""
        self.on_listener: Callable[[str, frozenset[str] | None], None] | None = None
        """Called with the tenant and the threads (None: all) of everybody who begins to listen."""

    def __len__(self) -> int:
        return sum(map(len, self._by_tenant.values()))

    def subscribe(
        self,
        tenant: str,
        threads: Iterable[str] | None,
        *,
        max_events: int = MAX_QUEUED_EVENTS,
        max_bytes: int = MAX_QUEUED_BYTES,
    ) -> Subscription:
        subscription = Subscription(self, tenant, max_events, max_bytes)
        everybody = self._by_tenant.get(tenant)
        if everybody is None:
            everybody = self._by_tenant[tenant] = set()
            self.on_tenant(tenant)
        everybody.add(subscription)
        self.move(subscription, None if threads is None else frozenset(threads))
        return subscription

    # -- what is worth bringing here from other servers -----------------------------------------------

    def tenants(self) -> list[str]:
        return list(self._by_tenant)

    def has_listeners(self, tenant: str) -> bool:
        return tenant in self._by_tenant

    def hears_all(self, tenant: str) -> bool:
        """Whether somebody hears every thread of the tenant."""
        return tenant in self._unfiltered

    @property
    def hears_everything(self) -> bool:
        """Whether somebody hears every thread of a tenant."""
        return bool(self._unfiltered)

    def places(self) -> Collection[tuple[str, str]]:
        """The tenants and threads that are heard by name."""
        return self._by_thread.keys()

    def wants(self, tenant: str, thread_id: str) -> bool:
        return tenant in self._unfiltered or (tenant, thread_id) in self._by_thread

    def followed(self, tenant: str) -> list[str]:
        """The threads that are heard by name."""
        return [thread_id for of_tenant, thread_id in self._by_thread if of_tenant == tenant]

    # -- publishing -----------------------------------------------------------------------------------

    def publish(self, events: Sequence[Event]) -> None:
        """Called by the log after the commit, in commit order, on the event loop."""
        by_thread, unfiltered = self._by_thread, self._unfiltered
        woken: dict[Subscription, None] = {}  # a set that keeps the order
        for event in events:
            if event.type in ANNOUNCED:
                listeners = self._by_tenant.get(event.tenant)
            else:
                listeners = by_thread.get((event.tenant, event.thread_id)) if by_thread else None
                if unfiltered:
                    self._offer(event, unfiltered.get(event.tenant, ()), woken)
            if not listeners:
                continue
            if len(listeners) == 1:  # nearly always: whoever asked for the run
                (subscription,) = listeners
                if subscription.offer(event):
                    woken[subscription] = None
            else:
                self._offer(event, listeners, woken)
        for subscription in woken:
            subscription.wake()

    def _offer(self, event: Event, listeners: Collection[Subscription], woken: dict[Subscription, None]) -> None:
        if len(listeners) > _FEW:
            self._offer_in_turns(event, listeners)
            return
        for subscription in tuple(listeners):  # one that makes room may come to its end
            if subscription.offer(event):
                woken[subscription] = None

    def _offer_in_turns(self, event: Event, listeners: Collection[Subscription]) -> None:
        turns = self._turns
        waiting = len(turns)
        for subscription in tuple(listeners):
            if subscription.offer(event) and not subscription.has_turn:
                subscription.has_turn = True
                turns.append(subscription)
        if turns and not waiting:
            asyncio.get_running_loop().call_soon(self._take_turns)

    def _take_turns(self) -> None:
        turns = self._turns
        for _ in range(min(len(turns), _TURNS)):
            subscription = turns.popleft()
            subscription.has_turn = False
            subscription.wake()
        if turns:
            asyncio.get_running_loop().call_soon(self._take_turns)

    def move(self, subscription: Subscription, threads: frozenset[str] | None) -> None:
        if subscription.threads is None or subscription.threads:  # a new one hears nothing yet
            self._take_out(subscription)
        subscription.threads = threads
        if threads is None:
            self._unfiltered.setdefault(subscription.tenant, set()).add(subscription)
        else:
            for thread in threads:
                self._by_thread.setdefault((subscription.tenant, thread), set()).add(subscription)
        if self.on_listener is not None:
            self.on_listener(subscription.tenant, threads)

    def remove(self, subscription: Subscription) -> None:
        self._take_out(subscription)
        subscription.threads = frozenset()
        everybody = self._by_tenant.get(subscription.tenant)
        if everybody is not None:
            everybody.discard(subscription)
            if not everybody:
                del self._by_tenant[subscription.tenant]

    def close_all(self) -> None:
        """For drain: every listener wakes and finds itself closed."""
        for subscription in [one for everybody in self._by_tenant.values() for one in everybody]:
            subscription.close()

    def _take_out(self, subscription: Subscription) -> None:
        if subscription.threads is None:
            group = self._unfiltered.get(subscription.tenant)
            if group is not None:
                group.discard(subscription)
                if not group:
                    del self._unfiltered[subscription.tenant]
            return
        for thread in subscription.threads:
            key = (subscription.tenant, thread)
            group = self._by_thread.get(key)
            if group is not None:
                group.discard(subscription)
                if not group:
                    del self._by_thread[key]

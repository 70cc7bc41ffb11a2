"""Subscribe, backfill, go live: one thread from a cursor on, without gap or duplicate.

The only place that joins history and news. Leaves to others: frames and what to do when a reader falls behind.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final

from app.events.envelope import Event
from app.events.hub import EventSource, Subscription

ReadPage = Callable[[str, str, int, int], Awaitable[list[Event]]]
"""(tenant, thread, after, limit) to the next events after that `seq`, in order."""

PAGE: Final = 500


class FellBehind(Exception):
    """The reader was too slow. It may resume after `last_seq`."""

    def __init__(self, last_seq: int) -> None:
        super().__init__(f"the reader fell behind after seq {last_seq}")
        self.last_seq = last_seq


async def follow(
    hub: EventSource, read: ReadPage, tenant: str, thread_id: str, after: int
) -> AsyncGenerator[list[Event]]:
    """Batches of events after `after`: stored ones first, then live ones, until closed from outside.

    Ends when the hub closes (drain); raises `FellBehind` when the bounded queue overflowed.
    """
    subscription = hub.subscribe(tenant, [thread_id])
    try:
        async for batch in join(subscription, read, tenant, thread_id, after):
            yield batch
    finally:
        subscription.close()


async def join(
    subscription: Subscription, read: ReadPage, tenant: str, thread_id: str, last: int, *, live: bool = False
) -> AsyncGenerator[list[Event]]:
    """`follow` for whoever holds the subscription, to close it when its own reader has gone.

    `live` says that it was there before the event after `last`, so that nothing needs to be read.
    """
    if not live:
        async for page in backfill(subscription, read, tenant, thread_id, last):
            last = page[-1].seq
            yield page
    while not subscription.closed:
        await subscription.wait()
        if subscription.overflowed:
            raise FellBehind(last)
        # Global news of other threads comes along; a follower of one thread has no use for it.
        fresh = [event for event in subscription.take() if event.thread_id == thread_id and event.seq > last]
        if fresh and fresh[0].seq != last + 1:
            # Another replica wrote in between: its news may come late, the store has it all.
            async for page in backfill(subscription, read, tenant, thread_id, last):
                last = page[-1].seq
                yield page
        elif fresh:
            last = fresh[-1].seq
            yield fresh


async def backfill(
    subscription: Subscription, read: ReadPage, tenant: str, thread_id: str, last: int
) -> AsyncGenerator[list[Event]]:
    """Pages from the store until it has no more; keeps no queue meanwhile, only what was missed.

    Live again when it ends or is closed; `subscription.missed` then has those of other threads.
    """
    try:
        while True:
            subscription.pause()
            subscription.missed.pop(thread_id, None)
            page = await read(tenant, thread_id, last, PAGE)
            while page:
                last = page[-1].seq
                yield page
                if len(page) < PAGE:
                    break
                page = await read(tenant, thread_id, last, PAGE)
            # From here to the test below nothing can be published: both run in one step of the loop.
            subscription.paused = False
            _, newest = subscription.missed.get(thread_id, (0, 0))
            if newest <= last:
                return
    finally:
        subscription.paused = False

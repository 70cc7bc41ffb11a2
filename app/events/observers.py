"""Observers of committed events, which never hold anybody up: each has a bounded queue, and what does not fit is lost.

Narrators and telemetry sinks are observers. The classes of load are apart: what a run records waits for its commit,
what a client reads has the subscriber's queue, and what is dropped under pressure is telemetry, here. Leaves to others:
what an observer does.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import structlog

from app.events.envelope import Event

QUEUE: Final = 2048
"""Events that wait for one observer."""
BATCH: Final = 256
SECONDS: Final = 10.0
"""For one batch; an observer that takes longer loses it."""

log = structlog.get_logger("holdfast.observers")
Consume = Callable[[Sequence[Event]], Awaitable[None]]


class Observer:
    """One consumer of committed events with its queue. It is asked on the loop, one batch after the other."""

    def __init__(self, name: str, consume: Consume, size: int = QUEUE) -> None:
        self.name, self._consume = name, consume
        self._waiting: asyncio.Queue[Event] = asyncio.Queue(size)
        self._task: asyncio.Task[None] | None = None
        self.dropped = self.failed = 0
        """Events that did not fit, and batches that were lost."""

    def offer(self, events: Sequence[Event]) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._work(), name=f"observer {self.name}")
        for event in events:
            if self._waiting.full():
                self.dropped += 1
            else:
                self._waiting.put_nowait(event)

    @property
    def waiting(self) -> int:
        return self._waiting.qsize()

    async def _work(self) -> None:
        while True:
            batch = [await self._waiting.get()]
            while len(batch) < BATCH and not self._waiting.empty():
                batch.append(self._waiting.get_nowait())
            try:
                async with asyncio.timeout(SECONDS):
                    await self._consume(batch)
            except Exception as error:
                # It is code of others; whatever it does, the events are stored and the server goes on.
                self.failed += 1
                if self.failed == 1:
                    log.warning("observer.failed", observer=self.name, reason=f"{type(error).__name__}: {error}"[:300])
            finally:
                for _ in batch:
                    self._waiting.task_done()

    async def close(self, seconds: float = 2.0) -> None:
        """What waits has a moment to be delivered."""
        if self._task is None:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._waiting.join()
        except TimeoutError:
            self.dropped += self._waiting.qsize()
        self._task.cancel()
        await asyncio.wait({self._task})


async def called(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function of others gives: an async one on the loop, a plain one in a thread."""
    if inspect.iscoroutinefunction(function):
        return await function(*arguments)
    made = await asyncio.to_thread(function, *arguments)
    return await made if inspect.isawaitable(made) else made

"""Notices a commit that takes too long, with one timer for all of them: most end within a thousandth of its time.

Leaves to the log: what becomes of those who wait for it.
"""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

B = TypeVar("B")


class CommitWatch(Generic[B]):
    def __init__(self, patience: float, give_up: Callable[[B], None]) -> None:
        """`give_up` is called once with a batch that was begun so many seconds ago and has not ended."""
        self._patience, self._give_up = patience, give_up
        self._batch: B | None = None
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, batch: B) -> None:
        loop = asyncio.get_running_loop()
        self._batch, self._due = batch, loop.time() + self._patience
        if self._timer is None:
            self._timer = loop.call_at(self._due, self._look)

    def end(self) -> None:
        self._batch = None

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer, batch = None, self._batch
        if batch is None:
            return
        loop = asyncio.get_running_loop()
        if loop.time() < self._due:
            self._timer = loop.call_at(self._due, self._look)
            return
        self._batch = None
        self._give_up(batch)

"""How long the store waits for a database that does not answer, without blaming it for what the event loop does.

`asyncio.timeout` counts the time in which the loop itself stands still: a framework that is imported holds it for
seconds, and when it goes on, the answer that has long been there is thrown away, because the timer is looked at first.
"""

import asyncio
from types import TracebackType
from typing import Final, Self

from app.core.ending import Ending

LATE_SECONDS: Final = 0.25
"""A timer that fires later than this was held up by the event loop."""


class Patience(Ending):
    """`with Patience(seconds):` raises `TimeoutError` after that time. If its timer is late, all of it begins again.

    A driver that is cancelled while its connection breaks may report only that; whoever cancelled would wait for ever.
    """

    __slots__ = ("_due", "_handle", "_loop", "_seconds")

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()

    def __enter__(self) -> Self:
        self._wait()
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._handle.cancel()
        task = self._task
        super().__exit__(kind, error, trace)
        failed = error is not None and kind is not asyncio.CancelledError
        if failed and task is not None and task.cancelling() > self._cancelling:
            raise asyncio.CancelledError from error

    def _wait(self) -> None:
        self._due = self._loop.time() + self._seconds
        self._handle = self._loop.call_at(self._due, self._look)

    def _look(self) -> None:
        if self._loop.time() - self._due > LATE_SECONDS:
            self._wait()
        else:
            self.end()

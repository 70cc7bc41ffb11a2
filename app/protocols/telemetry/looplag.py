"""How late the event loop is: once a second it should wake, and is asked how much later it did."""

import asyncio
from typing import Final

from app.core.metrics import Metrics

EVERY_SECONDS: Final = 1.0
_BUCKETS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


class LoopLag:
    def __init__(self, metrics: Metrics) -> None:
        self._lag = metrics.plain_histogram("loop_lag_seconds", "Lag of the event loop.", _BUCKETS)
        self._next: asyncio.TimerHandle | None = None
        self._due = 0.0

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._due = loop.time() + EVERY_SECONDS
        self._next = loop.call_at(self._due, self._woke)

    def _woke(self) -> None:
        self._lag.observe(max(0.0, asyncio.get_running_loop().time() - self._due))
        self.start()

    def stop(self) -> None:
        if self._next is not None:
            self._next.cancel()

"""Wakes runs when their time comes: delayed ones, and those that wait for their next attempt.

Only saves time: a run without a timer here is found by the sweep within two seconds after its time. So the number of
timers is bounded, and none of them survives the process.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from app.core.clock import Clock
from app.runtime.schedule.queue import RunRef

MAX_TIMERS: Final = 10_000
MAX_SECONDS: Final = 3600.0
"""Runs that are further away are left to the sweep."""
_AFTER_SECONDS: Final = 0.002
"""A timer that fires a moment early would find that the time has not come."""


class DueTimers:
    def __init__(self, clock: Clock, on_due: Callable[[RunRef], None]) -> None:
        self._clock, self._on_due = clock, on_due
        self._timers: dict[RunRef, asyncio.TimerHandle] = {}

    def set(self, ref: RunRef, at_ms: int) -> None:
        seconds = max(0.0, (at_ms - self._clock.now_ms()) / 1000)
        if len(self._timers) >= MAX_TIMERS or seconds > MAX_SECONDS:
            return
        if (earlier := self._timers.pop(ref, None)) is not None:
            earlier.cancel()
        self._timers[ref] = asyncio.get_running_loop().call_later(seconds + _AFTER_SECONDS, self._fire, ref)

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _fire(self, ref: RunRef) -> None:
        self._timers.pop(ref, None)
        self._on_due(ref)

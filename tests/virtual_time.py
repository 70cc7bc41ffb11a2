"""An event loop whose time passes only when nobody has anything else to do: minutes of waiting take milliseconds.

For code that waits by `asyncio.sleep` and loop timers and needs no thread and no socket. The order of events is the
same in every run.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _SkippingSelector(selectors.DefaultSelector):
    """Instead of waiting for the next timer, it moves the loop's time there."""

    def __init__(self) -> None:
        super().__init__()
        self.skipped = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("everybody waits and nothing will ever happen")
        if not ready and timeout:
            self.skipped += timeout
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._skipping = _SkippingSelector()
        super().__init__(self._skipping)

    def time(self) -> float:
        return self._skipping.skipped


class VirtualClock:
    """The clock of whoever runs on such a loop."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        self._loop = loop

    def monotonic(self) -> float:
        return self._loop.time()

    def now_ms(self) -> int:
        return 1_767_225_600_000 + round(self._loop.time() * 1000)


def run_in_virtual_time(loop: VirtualTimeLoop, work: Coroutine[Any, Any, T]) -> T:
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()

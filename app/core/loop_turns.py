"""Fair slices of the event loop for work that may wait, such as the start of a run.

A loop does all that is ready before it looks at its sockets again. When many runs start at once, the tokens of those
that already stream would wait for all of them; here only a few start in one turn of the loop, and the others in the
following turns, in the order in which they came.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final

SLICE_SECONDS: Final = 0.002
"""Of one turn: whoever comes later waits for the next one."""
STARTS_PER_TURN: Final = 4
"""Of those who wait; a start takes about half a millisecond."""


class LoopTurns:
    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._began: float | None = None
        """When the first one came in this turn of the loop."""

    def free(self) -> bool:
        """Whether to go ahead in this turn; if not, `wait`."""
        if self._waiting:
            return False
        if self._began is None:
            self._begin()
            return True
        return self._monotonic() - self._began < SLICE_SECONDS

    async def wait(self) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        await turn

    def _begin(self) -> None:
        self._began = self._monotonic()
        asyncio.get_running_loop().call_soon(self._turned)

    def _turned(self) -> None:
        self._began = None
        started = 0
        while self._waiting and started < STARTS_PER_TURN:
            turn = self._waiting.popleft()
            if not turn.done():  # who was cancelled does not take a place
                turn.set_result(None)
                started += 1
        if started:
            self._begin()

"""Fair slices of the event loop for work that may wait, such as the start of a run.

A loop does all that is ready before it looks at its sockets again. When many runs start at once, the tokens of those
that already stream would wait for all of them; here only a few start in one turn of the loop, and the others in the
following turns, in the order in which they came.
"""

import asyncio
from collections import deque
from typing import Final

STARTS_PER_TURN: Final = 6
"""A start takes about half a millisecond."""


class LoopTurns:
    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._started = 0
        """In this turn of the loop."""

    def free(self) -> bool:
        """Whether to go ahead in this turn; if not, `wait`."""
        if self._waiting or self._started >= STARTS_PER_TURN:
            return False
        if not self._started:
            asyncio.get_running_loop().call_soon(self._turned)
        self._started += 1
        return True

    async def wait(self) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        await turn

    def _turned(self) -> None:
        self._started = 0
        while self._waiting and self._started < STARTS_PER_TURN:
            turn = self._waiting.popleft()
            if not turn.done():  # who was cancelled does not take a place
                turn.set_result(None)
                self._started += 1
        if self._started:
            asyncio.get_running_loop().call_soon(self._turned)

"""Waits for a condition that nothing announces, bounded. Where there is an event to await, tests await that."""

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  # there is no event for it
            await asyncio.sleep(0.005)

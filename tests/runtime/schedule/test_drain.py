"""Stopping: the executor's own loops end whatever they are doing when asked to."""

import asyncio

import pytest

from app.core.settings import Settings
from app.wiring.runtime import open_holdfast


@pytest.mark.requirement("G15")
@pytest.mark.parametrize("steps", range(4))
async def test_a_drain_that_meets_news_of_work_still_ends(settings: Settings, steps: int) -> None:
    async with open_holdfast(settings) as holdfast:
        executor = holdfast.executor
        await asyncio.wait_for(executor.idle(), 30)
        executor.sweep_now()
        # How far the news has come when the cancel arrives differs by steps of the loop.
        for _ in range(steps):
            await asyncio.sleep(0)
        async with asyncio.timeout(30):
            await executor.drain(0)

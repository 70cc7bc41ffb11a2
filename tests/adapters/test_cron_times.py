"""Crons of the unmodified `langgraph-sdk` that fire of themselves when they are due, on both databases."""

import asyncio
import time
from pathlib import Path
from typing import Any, Final

import pytest
from langgraph_sdk import get_client

from app.core.clock import ms_of
from app.core.settings import Settings
from tests.adapters.space import write
from tests.server import in_process

pytestmark = pytest.mark.requirement("SH-22", "PX-5", "PX-11")

ALMOST_NINE: Final = ms_of("2026-11-17T08:59:58+00:00")
FIRES_WITHIN: Final = 60.0


class ShiftedClock:
    """Goes as fast as any other, from a moment that the test chooses."""

    def __init__(self, now_ms: int) -> None:
        self._begin, self._since = now_ms, time.monotonic()

    def now_ms(self) -> int:
        return self._begin + round((time.monotonic() - self._since) * 1000)

    def monotonic(self) -> float:
        return time.monotonic()


async def test_a_cron_fires_by_itself_when_it_is_due_and_not_before(settings: Settings, tmp_path: Path) -> None:
    settings = settings.model_copy(update={"workspace": write(tmp_path, {"plain": ("native", "")})})
    async with (
        in_process(settings, clock=ShiftedClock(ALMOST_NINE)) as server,
        get_client(url=f"{server.url}/langgraph", api_key="any") as client,
    ):
        threads = [(await client.threads.create())["thread_id"] for _ in range(2)]
        # The start takes as long as the machine likes: the due times are each of the next minutes.
        crons: list[Any] = [
            await client.crons.create_for_thread(
                thread, "plain", schedule="* * * * *", enabled=enabled,
                input={"messages": [{"role": "user", "content": "tides"}]},
            )
            for thread, enabled in zip(threads, (True, False), strict=True)
        ]  # fmt: skip
        due = crons[0]["next_run_date"]
        assert due is not None and crons[1]["next_run_date"] is None
        async with asyncio.timeout(FIRES_WITHIN + 60):
            while not (runs := await client.runs.list(threads[0])):  # noqa: ASYNC110  # there is no event for it
                await asyncio.sleep(0.1)
        values: Any = await client.runs.join(threads[0], runs[-1]["run_id"])
        assert [message["content"] for message in values["messages"]][:2] == ["tides", "about tides"]
        assert ms_of(str(runs[-1]["created_at"])) >= ms_of(due)
        (shown,) = await client.crons.search(thread_id=threads[0])
        assert ms_of(str(shown["next_run_date"])) > ms_of(due)
        for cron in crons:
            await client.crons.delete(cron["cron_id"])
        assert await client.runs.list(threads[1]) == []

"""The line of a project over two servers: one job at a time at either, in its order, called by a message."""

import asyncio
from typing import Final

import httpx2
import pytest

from app.backends.contract import Context, Result
from app.core.settings import Settings
from tests.bus.conftest import team
from tests.bus.pace import Paced
from tests.clients import reached

SECONDS: Final = 30.0


async def put(client: httpx2.AsyncClient, words: int, **more: object) -> str:
    answer = await client.post("/api/runs", json={"agent": "echo", "input": str(words), **more})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


async def entered(pace: Paced) -> str:
    async with asyncio.timeout(SECONDS):
        return await pace.entered.get()


@pytest.mark.requirement("CM-3", "PX-4")
async def test_of_the_jobs_that_two_servers_take_for_a_project_one_runs_at_a_time_in_order(
    on_bus: Settings, pace: Paced
) -> None:
    async with (
        team(on_bus, 2, pace) as servers,
        httpx2.AsyncClient(base_url=servers[0].url, timeout=SECONDS) as one,
        httpx2.AsyncClient(base_url=servers[1].url, timeout=SECONDS) as two,
    ):
        clients = (one, two)
        jobs = [await put(clients[number % 2], 1, projectId="shared", serial=True) for number in range(6)]
        later = await put(two, 1, projectId="shared", serial=True, priority="background")
        sooner = await put(one, 1, projectId="shared", serial=True)
        for job in (*jobs, sooner, later):
            assert await entered(pace) == job
            # A run of no line passes by at each server: nobody else of the line came in before it.
            passing = [await put(client, 0) for client in clients]
            assert {await entered(pace), await entered(pace)} == set(passing)
            pace.step()
            assert (await reached(one, job))["status"] == "completed"


class Counted(Paced):
    """Knows how many of its runs were at work at once."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = self.most = 0

    async def run(self, ctx: Context) -> Result:
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            return await super().run(ctx)
        finally:
            self.inside -= 1


@pytest.mark.requirement("CM-3", "PX-4")
async def test_jobs_that_two_servers_try_to_begin_at_the_same_moment_never_overlap(on_bus: Settings) -> None:
    counted = Counted()
    counted.finish()
    async with (
        team(on_bus, 2, counted) as servers,
        httpx2.AsyncClient(base_url=servers[0].url, timeout=SECONDS) as one,
        httpx2.AsyncClient(base_url=servers[1].url, timeout=SECONDS) as two,
    ):
        many = [put(client, 1, projectId="busy", serial=True) for client in (one, two) for _ in range(12)]
        for job in await asyncio.gather(*many):
            assert (await reached(one, job))["status"] == "completed"
        assert (counted.most, counted.entered.qsize()) == (1, 24)

"""Thousands of runs that wait for a person, in the real server process: they take no worker and little memory."""

import asyncio
import resource
from pathlib import Path
from typing import Final

import httpx2
import pytest

from app.core.settings import Settings
from tests.faults.conftest import Report
from tests.faults.doomed import Server, server
from tests.faults.witness import Witness

WORKERS: Final = 4
AT_ONCE: Final = 8
MAX_GROWTH_MB: Final = 50.0


@pytest.mark.requirement("G9", "G13", "HK-25")
@pytest.mark.parametrize(
    "count", [60, pytest.param(2000, marks=[pytest.mark.faults, pytest.mark.timeout(600)])], ids="{}-runs".format
)
async def test_runs_that_wait_for_approval_take_no_worker_and_little_memory(
    settings: Settings, tmp_path: Path, count: int, report: Report
) -> None:
    witness = Witness(tmp_path)
    few = {"HOLDFAST_MAX_CONCURRENT_RUNS": str(WORKERS)}
    async with (
        server(settings, witness.workspace, environment=few) as alive,
        httpx2.AsyncClient(base_url=alive.url, timeout=30, verify=False) as http,
    ):
        # What a server needs anyway, whoever waits: compiled tools, open connections, caches of its first runs.
        await _submit(http, "ask", 50)
        before = _rss_mb(alive)
        await _submit(http, "ask", count)
        after = _rss_mb(alive)
        await _until_idle(http)
        # Every worker is free: as many runs as there are end at once, and the answer to one that waits does, too.
        ended = await http.post("/api/runs?wait=20", json={"agent": "worker", "input": "hello"})
        assert ended.json()["status"] == "completed"
        report(f"{count} runs wait: {before:.1f} MB before, {after:.1f} MB after, {after - before:.1f} MB for them")
        assert after - before < MAX_GROWTH_MB


async def _submit(http: httpx2.AsyncClient, text: str, count: int) -> None:
    """`count` runs, each of which waits for its approval when this returns."""
    places = asyncio.Semaphore(AT_ONCE)

    async def one() -> None:
        async with places:
            answer = await http.post("/api/runs?wait=20", json={"agent": "worker", "input": text})
            assert answer.status_code == 202 and answer.json()["status"] == "waiting", answer.text

    await asyncio.gather(*(one() for _ in range(count)))


async def _until_idle(http: httpx2.AsyncClient) -> None:
    """A worker is free a moment after its run was seen to wait; nothing but the metrics shows it."""
    idle = {"holdfast_runs_running 0.0", "holdfast_runs_wanted 0.0"}
    async with asyncio.timeout(30):
        while not idle <= set((await http.get("/metrics")).text.splitlines()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def _rss_mb(of: Server) -> float:
    pages = int(Path(f"/proc/{of.pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6

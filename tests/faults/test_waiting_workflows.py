"""Workflows that wait for timers and people take no worker and little memory; `make faults` has a thousand of them."""

import asyncio
from pathlib import Path

import httpx2
import pytest

from app.core.settings import Settings
from tests.clients import reached
from tests.scenarios.flows import make_workspace
from tests.server import ServerProcess

LIMIT_MB = 50


def resident_mb(pid: int) -> float:
    fields = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in fields.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


@pytest.mark.parametrize("count", [20, pytest.param(1000, marks=pytest.mark.faults)])
async def test_waiting_timers_and_approvals_take_no_worker_and_little_memory(
    settings: Settings, tmp_path: Path, count: int
) -> None:
    workspace = make_workspace(tmp_path / "workspace")
    start = (settings.data_dir, settings.database_url, workspace, {"HOLDFAST_MAX_CONCURRENT_RUNS": "4"})
    server = await asyncio.to_thread(ServerProcess.start, *start)
    try:
        async with httpx2.AsyncClient(base_url=server.url, timeout=60) as client:

            async def wait_in(number: int) -> str:
                body = {"workflow": "waits" if number % 2 else "alone", "input": f"x{number}"}
                run = (await client.post("/api/runs", json=body)).json()
                return str((await reached(client, run["id"], "waiting"))["id"])

            await wait_in(0)
            before = resident_mb(server.pid)
            runs: list[str] = []
            for first in range(0, count, 20):
                runs += await asyncio.gather(*(wait_in(number) for number in range(first, min(count, first + 20))))
            grown = resident_mb(server.pid) - before
            print(f"{count} waiting runs: {grown:.1f} MB more")
            assert grown < LIMIT_MB
            # With four workers, all of them free, a run is executed at once.
            ended = await client.post("/api/runs", params={"wait": 20}, json={"workflow": "diamond", "input": "x"})
            assert ended.json()["status"] == "completed"
    finally:
        await asyncio.to_thread(server.stop)

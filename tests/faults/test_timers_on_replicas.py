"""Timers of workflows on two servers over one Postgres: each fires once, also when one of the servers is killed.

The witness is the ledger: a file that the step behind the timer writes to, which no database knows.
"""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import pytest

from tests.clients import reached
from tests.databases import create_database
from tests.postgres import PostgresServer
from tests.scenarios.flows import make_workspace
from tests.server import ServerProcess

RUNS = 6


async def waiting(client: httpx2.AsyncClient, workflow: str, name: str) -> list[dict[str, Any]]:
    """Runs that wait for their timers, each with a text of its own."""
    bodies = [{"workflow": workflow, "input": f"{name} {number}"} for number in range(RUNS)]
    made = await asyncio.gather(*(client.post("/api/runs", json=body) for body in bodies))
    return [await reached(client, one.json()["id"], "waiting", "completed") for one in made]


async def fired(client: httpx2.AsyncClient, run: dict[str, Any]) -> list[str]:
    """The timers that fired, and the steps that followed, as the log has them."""
    page = (await client.get(f"/api/threads/{run['threadId']}/events", params={"limit": 1000})).json()["items"]
    found = [one["type"] for one in page if one["type"] == "runtime.interrupt.expired"]
    steps = (one["payload"] for one in page if one["type"] == "runtime.step.completed")
    return found + [step["key"] for step in steps if step["step"] == "node"]


async def pass_the_hour(url: str) -> None:
    """What waits for a timer has waited long enough: the time of the test must not decide who is alive then."""
    database = await asyncpg.connect(url)
    await database.execute("UPDATE interrupts SET expires_at = '2020-01-01T00:00:00.000Z' WHERE status = 'open'")
    await database.close()


@pytest.mark.requirement("PX-2", "PX-4")
async def test_timer_fires_once_on_two_servers_of_which_one_is_killed(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    await create_database(postgres_server, "timers")
    ledger, url = tmp_path / "ledger.txt", postgres_server.url("timers")
    ledger.touch()
    workspace = make_workspace(tmp_path / "workspace")
    start = [(tmp_path / name, url, workspace, {"FLOW_LEDGER": str(ledger)}) for name in ("one", "two")]
    one, two = await asyncio.gather(*(asyncio.to_thread(ServerProcess.start, *each) for each in start))
    try:
        async with httpx2.AsyncClient(base_url=one.url, timeout=30) as client:
            both = await waiting(client, "soon", "both alive")
            ends = [await reached(client, run["id"]) for run in both]
            doomed = await waiting(client, "later", "one killed")
        one.kill()
        async with httpx2.AsyncClient(base_url=two.url, timeout=30) as client:
            left = [(await client.get(f"/api/runs/{run['id']}")).json() for run in doomed]
            waited = [run for run in left if run["status"] == "waiting"]
            assert len(waited) == RUNS, "a timer of an hour fired"
            await pass_the_hour(url)
            ends += [await reached(client, run["id"]) for run in waited]
            assert [run["status"] for run in ends] == ["completed"] * len(ends)
            for run in ends:
                assert await fired(client, run) == ["runtime.interrupt.expired", "hold.1", "note.1"]
    finally:
        if one.is_running:
            await asyncio.to_thread(one.stop)
        await asyncio.to_thread(two.stop)
    written = Counter(ledger.read_text().splitlines())
    assert {written[run["input"]] for run in ends} == {1} and max(written.values()) == 1

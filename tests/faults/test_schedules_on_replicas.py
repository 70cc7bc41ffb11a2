"""Schedules on three servers over one Postgres: each due time fires once, though servers are killed meanwhile."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from app.core.clock import SystemClock, iso, ms_of
from tests.faults.conftest import Report
from tests.postgres import PostgresServer, empty_settings
from tests.server import ServerProcess

SEED: Final = 5
SERVERS: Final = 3
STEP_MS: Final = 1000
ACTIVE: Final = {"queued", "running", "waiting"}
SECONDS: Final = 120.0
"""For whatever is waited for: a run whose server was killed is taken up when its lease is over."""
WORKSPACE: Final = f"""\
apiVersion: holdfast/v1
kind: Runtime
metadata: {{name: times}}
spec: {{defaultAgent: echo}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {{name: echo, description: Says it again.}}
spec: {{backend: echo}}
---
apiVersion: holdfast/v1
kind: Schedule
metadata: {{name: ticks}}
spec: {{everySeconds: {STEP_MS // 1000}, missed: all, overlap: queue, run: {{agent: echo, input: tick}}}}
"""


async def _ask(servers: list[ServerProcess], method: str, path: str, **more: Any) -> Any:
    """Of any server that runs."""
    url = random.choice([server.url for server in servers if server.is_running])
    async with httpx2.AsyncClient(base_url=url, timeout=60, trust_env=False) as client:
        answer = await client.request(method, path, **more)
        assert answer.status_code < 300, answer.text
        return answer.json()


async def _fired(servers: list[ServerProcess], name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    params: dict[str, Any] = {"type": f"schedule:{name}", "limit": 500}
    while True:
        page = await _ask(servers, "GET", "/api/jobs", params=params)
        found += page["items"]
        if page["nextCursor"] is None:
            return found
        params["after"] = page["nextCursor"]


async def _fired_until(
    servers: list[ServerProcess], name: str, holds: Callable[[list[dict[str, Any]]], bool]
) -> list[dict[str, Any]]:
    async with asyncio.timeout(SECONDS):
        while not holds(found := await _fired(servers, name)):  # noqa: ASYNC110  # there is no event for it
            await asyncio.sleep(0.1)
    return found


def _due(job: dict[str, Any]) -> int:
    return ms_of(job["metadata"]["dueAt"])


@pytest.mark.requirement("PX-11", "HK-31")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kills", [1, pytest.param(10, marks=pytest.mark.faults)])
async def test_three_servers_of_which_some_are_killed_fire_each_due_time_once(
    postgres_server: PostgresServer, tmp_path: Path, kills: int, report: Report
) -> None:
    dice = random.Random(SEED)
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "all.yaml").write_text(WORKSPACE)
    settings = await empty_settings(postgres_server, f"schedules_{kills}", tmp_path / "data")
    starts = (
        asyncio.to_thread(ServerProcess.start, tmp_path / f"server-{number}", settings.database_url, workspace)
        for number in range(SERVERS)
    )
    servers = list(await asyncio.gather(*starts))
    try:
        await _fired_until(servers, "ticks", lambda found: len(found) >= 2)
        for round_ in range(kills):
            at = iso(SystemClock().now_ms() + 2 * STEP_MS)
            once = {"name": f"once-{round_}", "spec": {"at": at, "run": {"agent": "echo", "input": "once"}}}
            await _ask(servers, "POST", "/api/schedules", json=once)
            seen = len(await _fired(servers, "ticks"))
            place = dice.randrange(SERVERS)
            await asyncio.to_thread(servers[place].kill)
            await _fired_until(servers, "ticks", lambda found, seen=seen: len(found) >= seen + 3)  # type: ignore[misc]
            servers[place] = await asyncio.to_thread(servers[place].again)
            await _fired_until(servers, f"once-{round_}", lambda found: len(found) == 1)
        await _ask(servers, "POST", "/api/schedules/ticks/pause")
        ticks = await _fired_until(servers, "ticks", lambda found: ACTIVE.isdisjoint(one["status"] for one in found))
        times = Counter(_due(job) for job in ticks)
        assert set(times.values()) == {1}, "no due time twice"
        assert set(times) == set(range(min(times), max(times) + 1, STEP_MS)), "and none left out"
        assert {job["status"] for job in ticks} == {"completed"}
        for round_ in range(kills):
            [only] = await _fired_until(
                servers, f"once-{round_}", lambda found: ACTIVE.isdisjoint(one["status"] for one in found)
            )
            assert only["status"] == "completed"
        report(f"{SERVERS} servers, {kills} kills: {len(times)} due times and {kills} single ones, each fired once")
    finally:
        for server in servers:
            if server.is_running:
                await asyncio.to_thread(server.stop)

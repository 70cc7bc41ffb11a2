"""Jobs whose servers are killed again and again: each ends once, keys hold, a cancel wins once, priorities hold, and of
a project's serial jobs one runs at a time."""

import asyncio
import contextlib
import os
import random
from bisect import bisect_left
from collections import Counter
from collections.abc import AsyncIterator
from itertools import accumulate
from pathlib import Path
from time import monotonic
from typing import Any, Final, NamedTuple

import httpx2
import pytest

from app.core.clock import ms_of
from app.core.settings import Settings
from tests.faults.conftest import Report
from tests.postgres import PostgresServer, empty_settings
from tests.server import ServerProcess

SEED: Final = 22
JOBS: Final = int(os.environ.get("HOLDFAST_TEST_JOBS", "10000"))
"""Of the tests behind the marker `faults`. One key in `TWICE` is submitted a second time, at the same time."""
TWICE: Final = 5
LINED: Final = 4
"""Of so many jobs one is serial, in one of `LINES` projects."""
LINES: Final = 3
KILLS: Final = max(5, JOBS // 500)
WORKERS: Final = 4
FEW: Final = {"HOLDFAST_MAX_CONCURRENT_RUNS": str(WORKERS)}
"""So few that jobs wait for each other."""
OLD: Final = 15.0
"""Seconds after which a background job may go before an interactive one, after three of these."""
FOUND: Final = 5.0
"""Seconds within which every server knows of a job, also one that was killed and started again."""
BUSY_PAUSE: Final = 1.0
"""Seconds until a submission is repeated that found the queue full: refusing it costs what running it would."""
SECONDS: Final = 120.0
"""For one answer, whichever server gives it, and for one job to end once all were asked for."""
ENDS: Final = {f"runtime.{kind}.{end}" for kind in ("request", "job") for end in ("completed", "failed", "cancelled")}


class Fleet:
    """Servers on one database, each with one client: a client for each request costs more than the request."""

    def __init__(self, servers: list[ServerProcess]) -> None:
        self.servers = servers
        self._clients = [self._client(server) for server in servers]
        self._up = [asyncio.Event() for _ in servers]
        for up in self._up:
            up.set()

    @classmethod
    @contextlib.asynccontextmanager
    async def started(cls, settings: Settings, tmp_path: Path, count: int) -> AsyncIterator["Fleet"]:
        places = [settings.data_dir, *(tmp_path / f"more-{number}" for number in range(1, count))]
        running: list[ServerProcess] = []
        for place in places:
            made = await asyncio.to_thread(ServerProcess.start, place, settings.database_url, None, FEW)
            running.append(made)
        fleet = cls(running)
        try:
            yield fleet
        finally:
            for client in fleet._clients:
                await client.aclose()
            for server in running:
                if server.is_running:
                    await asyncio.to_thread(server.stop)

    @staticmethod
    def _client(server: ServerProcess) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(base_url=server.url, timeout=60, verify=False, trust_env=False)

    async def ask(self, method: str, path: str, **more: Any) -> Any:
        """Of any server that answers; what is asked may be asked twice."""
        async with asyncio.timeout(SECONDS):
            while True:
                place = random.randrange(len(self.servers))
                await self._up[place].wait()
                with contextlib.suppress(httpx2.HTTPError):
                    answer = await self._clients[place].request(method, path, **more)
                    if answer.status_code < 429:
                        return answer.json()
                    if answer.status_code == 429:
                        await asyncio.sleep(BUSY_PAUSE)
                await asyncio.sleep(0.05)

    async def kill(self, place: int) -> None:
        self._up[place].clear()
        await asyncio.to_thread(self.servers[place].kill)
        await self._clients[place].aclose()
        self.servers[place] = await asyncio.to_thread(self.servers[place].again)
        self._clients[place] = self._client(self.servers[place])
        self._up[place].set()


async def _submit(fleet: Fleet, number: int) -> str:
    job = {
        "agent": "echo",
        "input": f"job {number}",
        "priority": "background" if number % 3 else "interactive",
        "attempts": 3,
        "dedupeKey": f"key-{number}",
        "dedupe": "drop_duplicate",
    }
    if number % LINED == 1:
        job |= {"projectId": f"line-{number % LINES}", "serial": True}
    return str((await fleet.ask("POST", "/api/runs", json=job))["id"])


async def _watch_lines(fleet: Fleet) -> int:
    """Looks on until it is cancelled: of a project's serial jobs one is running, also while its server is dead."""
    looked = 0
    try:
        while True:
            running = (await fleet.ask("GET", "/api/jobs", params={"status": "running", "limit": 500}))["items"]
            lines = Counter(job["projectId"] for job in running if job["serial"])
            assert all(count == 1 for count in lines.values()), lines
            looked += bool(lines)
            await asyncio.sleep(0.1)
    except asyncio.CancelledError:
        return looked


async def _watched(fleet: Fleet, count: int, kills: int) -> tuple[set[str], set[str], dict[str, dict[str, Any]], float]:
    began, watching = monotonic(), asyncio.ensure_future(_watch_lines(fleet))
    try:
        ids, cancelled = await _submitted(fleet, count, kills)
        submitted = monotonic() - began
        jobs = await _all_ended(fleet, count)
    finally:
        watching.cancel()
    looked = await watching
    assert looked or count < JOBS, "nobody saw a serial job at work"
    return ids, cancelled, jobs, submitted


async def _work(fleet: Fleet, count: int, kills: int) -> str:
    """So many jobs and kills; what was seen, for people."""
    began = monotonic()
    ids, cancelled, jobs, submitted = await _watched(fleet, count, kills)
    ended = monotonic() - began
    lined = {job_id for job_id, job in jobs.items() if job["serial"]}
    assert len(lined) == len(range(1, count, LINED)), "serial jobs are among them"
    listed = {job_id: str(job["status"]) for job_id, job in jobs.items()}
    assert set(listed) == set(ids), "no job that nobody asked for, and none is lost"
    assert len(listed) == count, "a key is one job"
    places = asyncio.Semaphore(8)

    async def check(job_id: str) -> None:
        async with places:
            events = (await fleet.ask("GET", f"/api/runs/{job_id}/events", params={"limit": 500}))["items"]
        ends = Counter(event["type"] for event in events if event["type"] in ENDS)
        assert sum(ends.values()) == 2, (job_id, ends)
        assert events[-1]["type"] == f"runtime.request.{listed[job_id]}"
        assert listed[job_id] == ("cancelled" if job_id in cancelled else "completed"), "an accepted cancel wins"

    await asyncio.gather(*map(check, listed))
    # One that waits for its project's line keeps nobody from going first.
    order = _order([job for job_id, job in jobs.items() if job_id not in lined])
    # A kill may turn the order around for the jobs that its server held and for those that it is given when it starts
    # again, and for nobody else.
    lives = kills + len(fleet.servers)
    assert order.early <= kills * 2 * WORKERS, order
    assert order.background <= order.interactive / 3 + lives * (WORKERS + 1), order
    return (
        f"{count} jobs, {kills} kills, {len(fleet.servers)} servers: submitted after {submitted:.0f} s, ended after"
        f" {ended:.0f} s, read after {monotonic() - began:.0f} s; {dict(Counter(listed.values()))};"
        f" {len(cancelled)} cancels accepted; {len(lined)} in line; {order}"
    )


async def _submitted(fleet: Fleet, count: int, kills: int) -> tuple[set[str], set[str]]:
    """The ids of all jobs, and of those that accepted a cancel."""
    dice = random.Random(SEED)
    cancelled: set[str] = set()
    ids: set[str] = set()
    places, reached = asyncio.Semaphore(8), asyncio.Condition()

    async def one(number: int) -> None:
        async with places:
            # Two clients that want the same, at the same time.
            made, *same = await asyncio.gather(*(_submit(fleet, number) for _ in range(1 if number % TWICE else 2)))
            if number % 10 == 0:
                answers = await asyncio.gather(*(fleet.ask("POST", f"/api/jobs/{made}/cancel") for _ in range(2)))
                if any(answer["status"] == "cancelled" or answer["cancelRequestedAt"] for answer in answers):
                    cancelled.add(made)
            assert set(same) <= {made}, "a key is one job"
            async with reached:
                ids.add(made)
                reached.notify_all()

    async def kill() -> None:
        for round_ in range(kills):
            async with reached:
                wanted = count * (round_ + 1) // (kills + 1)
                while len(ids) < wanted:
                    await reached.wait()
            await fleet.kill(dice.randrange(len(fleet.servers)))

    await asyncio.gather(kill(), *(one(number) for number in range(count)))
    return ids, cancelled


class Order(NamedTuple):
    """Starts while an interactive job waited that every server knew of."""

    interactive: int
    background: int
    early: int
    """Of the background jobs: those that had not waited long enough to go before it."""


def _order(jobs: list[dict[str, Any]]) -> Order:
    times = [
        (job["priority"] == "interactive", ms_of(job["createdAt"]) / 1000, ms_of(job["startedAt"]) / 1000)
        for job in jobs
        if job["startedAt"] is not None
    ]
    waiting = sorted((made + FOUND, start) for interactive, made, start in times if interactive)
    known, latest = [one for one, _ in waiting], list(accumulate((start for _, start in waiting), max))

    def turned(start: float) -> bool:
        """Whether one that was known before then had not started."""
        place = bisect_left(known, start)
        return place > 0 and latest[place - 1] > start

    starts = [(interactive, made, start) for interactive, made, start in times if turned(start)]
    background = [(made, start) for interactive, made, start in starts if not interactive]
    early = sum(start - made < OLD for made, start in background)
    return Order(len(starts) - len(background), len(background), early)


async def _all_ended(fleet: Fleet, count: int) -> dict[str, dict[str, Any]]:
    """Every job by its id, when none is active any more. A queue of so many takes its time."""
    async with asyncio.timeout(SECONDS + count / 10):
        while True:
            active = [
                (await fleet.ask("GET", "/api/jobs", params={"status": status, "limit": 1}))["items"]
                for status in ("queued", "running", "waiting")
            ]
            if not any(active):
                break
            await asyncio.sleep(0.5)
    found: dict[str, dict[str, Any]] = {}
    params: dict[str, Any] = {"limit": 500}
    while True:
        page = await fleet.ask("GET", "/api/jobs", params=params)
        found |= {job["id"]: job for job in page["items"]}
        if page["nextCursor"] is None:
            return found
        params["after"] = page["nextCursor"]


@pytest.mark.requirement("CM-3", "HK-31")
async def test_jobs_end_once_though_their_server_is_killed(settings: Settings, tmp_path: Path, report: Report) -> None:
    async with Fleet.started(settings, tmp_path, 1) as fleet:
        report(await _work(fleet, count=16, kills=1))


@pytest.mark.faults
@pytest.mark.timeout(3600)
@pytest.mark.requirement("CM-3", "HK-31")
async def test_ten_thousand_jobs_end_once_though_their_server_is_killed(
    settings: Settings, tmp_path: Path, report: Report
) -> None:
    async with Fleet.started(settings, tmp_path, 1) as fleet:
        report(await _work(fleet, count=JOBS, kills=KILLS))


@pytest.mark.faults
@pytest.mark.timeout(3600)
@pytest.mark.requirement("CM-3", "HK-31")
async def test_ten_thousand_jobs_end_once_on_three_servers_that_are_killed(
    postgres_server: PostgresServer, tmp_path: Path, report: Report
) -> None:
    settings = await empty_settings(postgres_server, "jobs_of_three", tmp_path / "data")
    async with Fleet.started(settings, tmp_path, 3) as fleet:
        report(await _work(fleet, count=JOBS, kills=KILLS))

"""A database that neither answers nor goes away: frozen, or kept locked by somebody else.

Every request is answered in time, `/readyz` too, and work goes on by itself afterwards.
"""

import asyncio
import contextlib
import fcntl
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import httpx2
import pytest

from app.core.settings import Settings
from tests.faults.conftest import Report
from tests.faults.processes import serving
from tests.postgres import PostgresServer, empty_settings, running_postgres

ANSWERS_WITHIN = 3.0
"""Seconds: two that are promised, and one for a busy machine."""
READY_WITHIN = 2.0
RESUMES_WITHIN = 30.0
TRIES = 5
"""Of a request that took longer: the machine may have stalled."""
AT_ONCE = 30
"""More than the pool has connections."""
_READ_LOCKS = 123, 5
"""Place and number of the bytes of the shared index by which SQLite's readers say what they read."""


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    """Not the session's one: this one is frozen."""
    with running_postgres(fsync=False) as server:
        yield server


@pytest.fixture
async def own_settings(own_server: PostgresServer, tmp_path: Path, request: pytest.FixtureRequest) -> Settings:
    return await empty_settings(own_server, f"frozen_{abs(hash(request.node.name))}", tmp_path)


async def _timed(http: httpx2.AsyncClient, method: str, path: str, body: object = None) -> tuple[int, str, float]:
    started = time.monotonic()
    answer = await http.request(method, path, json=body)
    return answer.status_code, answer.text, time.monotonic() - started


async def _in_time(http: httpx2.AsyncClient, method: str, path: str, limit: float) -> float:
    """Refused within that time; what it took."""
    body = {"agent": "echo", "input": "in vain"} if method == "POST" else None
    for _ in range(TRIES):
        status, text, seconds = await _timed(http, method, path, body)
        assert status == 503 and "STORAGE_DOWN" in text, (path, status, text)
        if seconds < limit:
            return seconds
    raise AssertionError(f"{method} {path} took {seconds:.2f} seconds, and longer than {limit} {TRIES} times")


async def _run(http: httpx2.AsyncClient) -> dict[str, str]:
    async with asyncio.timeout(RESUMES_WITHIN):
        while (answer := await http.post("/api/runs?wait=20", json={"agent": "echo", "input": "x"})).status_code != 200:
            assert answer.status_code == 503, answer.text  # a busy machine: it says so, and is asked again
    found: dict[str, str] = answer.json()
    return found


async def _works_again(http: httpx2.AsyncClient) -> None:
    async with asyncio.timeout(RESUMES_WITHIN):
        while (await http.get("/readyz")).status_code != 200:  # noqa: ASYNC110  # there is no event for it
            await asyncio.sleep(0.05)
        while (await http.post("/api/runs?wait=8", json={"agent": "echo", "input": "y"})).status_code != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def _served(settings: Settings) -> AsyncIterator[tuple[httpx2.AsyncClient, dict[str, str]]]:
    async with serving(settings, patient=False) as (_, url), httpx2.AsyncClient(base_url=url, timeout=60) as http:
        yield http, await _run(http)


async def _refuse_in_time(http: httpx2.AsyncClient, run: dict[str, str], report: Report) -> None:
    """Reads, a write and `/readyz`, first one by one, then many together."""
    reads = [f"/api/runs/{run['id']}", f"/api/threads/{run['threadId']}/events", "/api/runs", "/api/threads"]
    ready = await _in_time(http, "GET", "/readyz", READY_WITHIN)
    took = [await _in_time(http, "GET", read, ANSWERS_WITHIN) for read in reads]
    took.append(await _in_time(http, "POST", "/api/runs", ANSWERS_WITHIN))
    took.append(await _all_in_time(http, [reads[n % 4] for n in range(AT_ONCE)]))
    report(f"the slowest answer after {max(took):.2f} s, /readyz after {ready:.2f} s")


async def _all_in_time(http: httpx2.AsyncClient, paths: list[str]) -> float:
    """Refused together within that time; what the slowest took."""
    for _ in range(TRIES):
        together = await asyncio.gather(*(_timed(http, "GET", path) for path in paths))
        assert {status for status, _, _ in together} == {503}
        slowest = max(seconds for _, _, seconds in together)
        if slowest < ANSWERS_WITHIN:
            return slowest
    raise AssertionError(f"the slowest of {len(paths)} answers took {slowest:.2f} seconds")


@pytest.mark.requirement("G17")
async def test_a_frozen_postgres_is_answered_503_in_time_and_work_goes_on_when_it_thaws(
    own_server: PostgresServer, own_settings: Settings, report: Report
) -> None:
    async with _served(own_settings) as (http, run):
        own_server.freeze()
        try:
            await _refuse_in_time(http, run, report)
        finally:
            own_server.thaw()
        await _works_again(http)


@pytest.mark.requirement("G17")
async def test_a_locked_table_is_answered_503_in_time_and_is_not_called_ready(
    own_settings: Settings, report: Report
) -> None:
    assert own_settings.database_url is not None
    async with _served(own_settings) as (http, run):
        other = await asyncpg.connect(own_settings.database_url)
        try:
            async with other.transaction():
                await other.execute("LOCK TABLE events, runs, threads IN ACCESS EXCLUSIVE MODE")
                await _refuse_in_time(http, run, report)
        finally:
            await other.close()
        await _works_again(http)


@pytest.mark.requirement("G17")
async def test_an_embedded_database_that_another_process_writes_to_refuses_writes_and_serves_reads(
    tmp_path: Path,
) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    async with _served(settings) as (http, run):
        other = sqlite3.connect(settings.sqlite_path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        try:
            await _in_time(http, "GET", "/readyz", READY_WITHIN)
            await _in_time(http, "POST", "/api/runs", ANSWERS_WITHIN)
            assert (await _timed(http, "GET", f"/api/runs/{run['id']}"))[0] == 200
        finally:
            other.execute("ROLLBACK")
            other.close()
        await _works_again(http)


@pytest.mark.requirement("G17")
async def test_reads_of_an_embedded_database_that_another_process_keeps_locked_are_answered_in_time(
    tmp_path: Path,
) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    async with _served(settings) as (http, run):
        shared = os.open(settings.sqlite_path.with_name("holdfast.db-shm"), os.O_RDWR)
        try:
            place, length = _READ_LOCKS
            fcntl.lockf(shared, fcntl.LOCK_EX, length, place)
            await _all_in_time(http, [f"/api/runs/{run['id']}"] * 12)
        finally:
            os.close(shared)
        await _works_again(http)

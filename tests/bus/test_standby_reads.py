"""Reports from a real standby: within their bound, never behind the caller's own changes, and never missing."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import httpx2
import pytest

from app.core.settings import Settings
from app.store.standby import StandbyDatabase
from tests.bus.conftest import team
from tests.bus.pace import Paced
from tests.clients import submit
from tests.databases import create_database
from tests.faults.replicas.standby import Standby
from tests.postgres import PostgresServer
from tests.server import InProcessServer, secret_file
from tests.waiting import until


@pytest.fixture(scope="module")
def primary_and_standby() -> Iterator[tuple[PostgresServer, Standby]]:
    with tempfile.TemporaryDirectory(prefix="holdfast-standby-") as name:
        folders = [Path(name) / one for one in ("primary", "standby")]
        for folder in folders:
            folder.mkdir()
        primary = PostgresServer(folders[0], fsync=False)
        primary.start()
        asyncio.run(create_database(primary, "reports"))
        standby = Standby(folders[1], primary)
        standby.start()
        try:
            yield primary, standby
        finally:
            for server in (standby, primary):
                server.thaw()
                server.stop("QUIT")


@pytest.fixture
def reports(primary_and_standby: tuple[PostgresServer, Standby], tmp_path: Path) -> Settings:
    primary, standby = primary_and_standby
    return Settings(
        data_dir=tmp_path,
        database_url=primary.url("reports"),
        database_read_url=standby.url("reports"),
        read_staleness_seconds=60,
        secret_file=secret_file(tmp_path),
    )


@pytest.fixture
async def paused(
    primary_and_standby: tuple[PostgresServer, Standby],
) -> "AsyncIterator[asyncpg.Connection[asyncpg.Record]]":
    """A connection to the standby, which goes on when the test ends, if it was paused."""
    connection = await asyncpg.connect(primary_and_standby[1].url("reports"))
    yield connection
    await connection.execute("SELECT pg_wal_replay_resume()")
    await connection.close()


def _standby_of(server: InProcessServer) -> StandbyDatabase:
    assert server.holdfast.store.standby is not None
    return server.holdfast.store.standby


async def _listed(client: httpx2.AsyncClient, **headers: str) -> tuple[set[str], bool]:
    """The ids of the runs, and whether the standby said so."""
    answer = await client.get("/api/runs", params={"limit": 1000}, headers=headers)
    assert answer.status_code == 200, answer.text
    return {run["id"] for run in answer.json()["items"]}, "holdfast-staleness" in answer.headers


async def test_a_caller_reads_what_it_wrote_and_others_read_within_the_bound(
    reports: Settings, paused: "asyncpg.Connection[asyncpg.Record]", pace: Paced
) -> None:
    pace.finish()
    async with team(reports, 2, pace) as (first, second):
        async with httpx2.AsyncClient(base_url=first.url) as mine, httpx2.AsyncClient(base_url=second.url) as other:
            old = await submit(mine, "echo", "1", 10)
            for server in (first, second):
                await until(lambda server=server: _standby_of(server).staleness_seconds < 60)  # type: ignore[misc]
            await until_listed(mine, old["id"])
            await paused.execute("SELECT pg_wal_replay_pause()")
            written = await mine.post("/api/runs", params={"wait": 10}, json={"agent": "echo", "input": "1"})
            new, position = written.json()["id"], written.headers["holdfast-position"]
            # At the server where it wrote: the primary answers, because the standby does not have it yet.
            runs, stale = await _listed(mine)
            assert new in runs and not stale
            # At another one it says what it has seen.
            runs, stale = await _listed(other, **{"holdfast-position": position})
            assert new in runs and not stale
            # Who does not is answered by the standby, which is behind, and says so.
            runs, stale = await _listed(other)
            assert new not in runs and old["id"] in runs and stale
            # What a report is about is never missing only because it is new.
            page = await other.get(f"/api/runs/{new}/events")
            assert page.status_code == 200 and page.json()["items"], page.text
            assert (await other.get(f"/api/runs/{new}")).json()["status"] == "completed"
            assert (await other.get("/api/runs/run_unknown/events")).status_code == 404
            # A position that cannot be read is no reason to be behind.
            runs, stale = await _listed(other, **{"holdfast-position": "now"})
            assert new in runs and not stale
            await paused.execute("SELECT pg_wal_replay_resume()")
            await until_listed(other, new)
            metrics = (await other.get("/metrics")).text
            assert "holdfast_standby_reads_total" in metrics and "holdfast_standby_staleness_seconds" in metrics


async def until_listed(client: httpx2.AsyncClient, run_id: str) -> None:
    """By the standby."""
    async with asyncio.timeout(30):
        while True:
            runs, stale = await _listed(client)
            if stale and run_id in runs:
                return
            await asyncio.sleep(0.02)  # a standby does not say when it has something


async def test_a_standby_that_is_too_far_behind_or_away_is_not_asked(
    reports: Settings,
    primary_and_standby: tuple[PostgresServer, Standby],
    paused: "asyncpg.Connection[asyncpg.Record]",
    pace: Paced,
) -> None:
    pace.finish()
    settings = reports.model_copy(update={"read_staleness_seconds": 1})
    async with team(settings, 1, pace) as (server,), httpx2.AsyncClient(base_url=server.url, timeout=20) as client:
        standby = _standby_of(server)
        first = await submit(client, "echo", "1", 10)
        await until_listed(client, first["id"])
        await paused.execute("SELECT pg_wal_replay_pause()")
        second = await submit(client, "echo", "1", 10)
        await until(lambda: standby.staleness_seconds > 1)
        runs, stale = await _listed(client)
        assert second["id"] in runs and not stale
        await paused.execute("SELECT pg_wal_replay_resume()")
        await until_listed(client, second["id"])
        # It stops answering in the middle of everything: the primary does.
        primary_and_standby[1].freeze()
        try:
            runs, _ = await _listed(client)
            assert second["id"] in runs
            await until(lambda: standby.staleness_seconds > 1)
        finally:
            primary_and_standby[1].thaw()
        await until_listed(client, second["id"])


async def test_what_is_no_standby_is_not_read_from(reports: Settings, pace: Paced) -> None:
    pace.finish()
    settings = reports.model_copy(update={"database_read_url": reports.database_url})
    async with team(settings, 1, pace) as (server,), httpx2.AsyncClient(base_url=server.url) as client:
        await submit(client, "echo", "1", 10)
        await _standby_of(server).measure()
        assert (await _listed(client))[1] is False

"""Servers whose connections come from PgBouncer in transaction mode: everything works, on few connections."""

import asyncio
from collections.abc import Iterator

import asyncpg
import httpx2
import pytest

from app.core.settings import Settings
from app.store.migrate import migrate
from app.store.pooler import DirectUrlElsewhere, PoolerNotAnnounced, check_pooler
from tests import sse
from tests.bus.conftest import team
from tests.bus.pace import Paced
from tests.clients import reached, submit
from tests.pgbouncer import pgbouncer_binary, running_pgbouncer
from tests.postgres import PostgresServer

pytestmark = pytest.mark.skipif(pgbouncer_binary() is None, reason="needs pgbouncer (apt-get install pgbouncer)")

POOL = 4
"""Connections to Postgres for two servers, which would have 18 of their own."""


@pytest.fixture(scope="module")
def pooler_port(postgres_server: PostgresServer) -> Iterator[int]:
    with running_pgbouncer(postgres_server, "transaction", POOL) as port:
        yield port


def _through(url: str, port: int) -> str:
    return f"postgresql://postgres@127.0.0.1:{port}/{url.rpartition('/')[2]}"


@pytest.fixture
def pooled(shared: Settings, pooler_port: int) -> Settings:
    assert shared.database_url is not None
    return shared.model_copy(
        update={
            "database_url": _through(shared.database_url, pooler_port),
            "database_direct_url": shared.database_url,
            "bus": "postgres",
        }
    )


async def _connections(url: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        found = await connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return int(found)
    finally:
        await connection.close()


@pytest.mark.requirement("PX-4")
async def test_two_servers_behind_a_pooler_in_transaction_mode_serve_each_other_s_runs(
    pooled: Settings, pace: Paced
) -> None:
    assert pooled.database_direct_url is not None
    async with team(pooled, 2, pace) as (first, second):
        async with (
            httpx2.AsyncClient(base_url=first.url, timeout=30) as mine,
            httpx2.AsyncClient(base_url=second.url, timeout=30) as other,
        ):
            pace.finish()
            runs = await asyncio.gather(*(submit(mine if n % 2 else other, "echo", "5") for n in range(30)))
            streams = await asyncio.gather(
                *(sse.read(other, f"/api/runs/{run['id']}/stream") for run in runs[:10]),
            )
            for run, frames in zip(runs, streams, strict=False):
                stored = await first.holdfast.store.reader.run_events("default", run["id"], 0, 1000)
                seen = [(frame.data["seq"], frame.data["id"]) for frame in frames if frame.id is not None]
                assert seen == [(event.seq, event.id) for event in stored]
            for run in runs:
                assert (await reached(mine, run["id"]))["status"] == "completed"
            listed = await asyncio.gather(*(other.get("/api/runs", params={"limit": 50}) for _ in range(20)))
            assert all(len(answer.json()["items"]) == 30 for answer in listed)
            # The two servers' connections to listen are their own; all others are shared.
            assert await _connections(pooled.database_direct_url) <= POOL + 2


async def test_a_cancel_crosses_servers_behind_a_pooler(pooled: Settings, pace: Paced) -> None:
    async with team(pooled, 2, pace) as (first, second):
        async with httpx2.AsyncClient(base_url=first.url) as mine, httpx2.AsyncClient(base_url=second.url) as other:
            run = await submit(mine, "echo", "5")
            await pace.entered.get()
            await other.post(f"/api/runs/{run['id']}/cancel")
            assert (await reached(other, run["id"]))["status"] == "cancelled"


async def test_a_pooler_in_transaction_mode_that_the_settings_do_not_name_is_refused_at_the_start(
    pooled: Settings, postgres_server: PostgresServer
) -> None:
    await migrate(pooled)
    with pytest.raises(PoolerNotAnnounced, match="transaction mode"):
        await check_pooler(pooled.model_copy(update={"database_direct_url": None}))
    with pytest.raises(DirectUrlElsewhere):
        await check_pooler(pooled.model_copy(update={"database_direct_url": postgres_server.url("postgres")}))
    await check_pooler(pooled)


async def test_a_pooler_in_session_mode_is_as_a_direct_connection(
    shared: Settings, postgres_server: PostgresServer
) -> None:
    assert shared.database_url is not None
    with running_pgbouncer(postgres_server, "session", POOL) as port:
        await check_pooler(shared.model_copy(update={"database_url": _through(shared.database_url, port)}))
    await check_pooler(shared)

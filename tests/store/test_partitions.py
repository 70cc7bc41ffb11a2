"""The log in partitions on Postgres: from the start, and by a command for a database that grew without them."""

import itertools
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from app.core.principal import DEFAULT_TENANT
from app.core.settings import Settings
from app.events.catalog.thread import ThreadCreated
from app.events.recorder import Scope
from app.store import partitions
from app.store.partitions import PARTITIONS, TABLES, CannotPartition, partition
from app.wiring.store import open_store
from tests.databases import create_database
from tests.postgres import PostgresServer
from tests.store_equals_replay import assert_tables_equal_replay

_names = itertools.count(1)
_PARTS = "SELECT count(*) FROM pg_inherits WHERE inhparent = to_regclass($1)"


@pytest.fixture
async def url(postgres_server: PostgresServer) -> str:
    name = f"partitions_{next(_names)}"
    await create_database(postgres_server, name)
    return postgres_server.url(name)


@pytest.fixture
async def connection(url: str) -> "AsyncIterator[asyncpg.Connection[Any]]":
    opened = await asyncpg.connect(url)
    yield opened
    await opened.close()


async def _grown(connection: "asyncpg.Connection[Any]", url: str) -> list[Any]:
    """A database as it was before there were partitions, with some threads; its events."""
    for table in TABLES:
        await connection.execute(
            f"CREATE TABLE plain (LIKE {table} INCLUDING DEFAULTS); DROP TABLE {table}; "
            f"ALTER TABLE plain RENAME TO {table}; "
            f"ALTER TABLE {table} ADD CONSTRAINT {table}_by_seq PRIMARY KEY (thread_key, seq); "
            f"ALTER TABLE {table} ADD FOREIGN KEY (thread_key) REFERENCES threads (key)"
        )
    async with open_store(Settings(database_url=url)) as store:
        for number in range(40):
            await store.recorder.record(Scope(DEFAULT_TENANT, f"thr_{number}"), ThreadCreated(title=str(number)))
    return await connection.fetch("SELECT * FROM events ORDER BY thread_key, seq")


async def test_a_new_database_has_partitions_and_each_thread_is_in_one(
    url: str, connection: "asyncpg.Connection[Any]"
) -> None:
    assert [await connection.fetchval(_PARTS, table) for table in TABLES] == [PARTITIONS, PARTITIONS]
    async with open_store(Settings(database_url=url)) as store:
        for number in range(40):
            scope = Scope(DEFAULT_TENANT, f"thr_{number}")
            for _ in range(3):
                await store.recorder.record(scope, ThreadCreated(title="x"))
        await assert_tables_equal_replay(store)
    spread = await connection.fetch("SELECT thread_key, count(DISTINCT tableoid) FROM events GROUP BY 1")
    assert {row[1] for row in spread} == {1}
    used = await connection.fetchval("SELECT count(DISTINCT tableoid) FROM events")
    assert used > PARTITIONS // 2
    assert await partition(url) is None


async def test_a_grown_log_moves_into_partitions_as_it_is(url: str, connection: "asyncpg.Connection[Any]") -> None:
    before = await _grown(connection, url)
    assert await partition(url) == len(before)
    assert await connection.fetch("SELECT * FROM events ORDER BY thread_key, seq") == before
    assert await connection.fetchval(_PARTS, "events") == PARTITIONS
    async with open_store(Settings(database_url=url)) as store:
        await store.recorder.record(Scope(DEFAULT_TENANT, "thr_1"), ThreadCreated(title="after"))
        await assert_tables_equal_replay(store)
    assert not [row for row in await connection.fetch("SELECT relname FROM pg_class") if "_whole" in row[0]]


async def test_an_interrupted_conversion_changes_nothing(
    url: str, connection: "asyncpg.Connection[Any]", monkeypatch: pytest.MonkeyPatch
) -> None:
    before, whole = await _grown(connection, url), partitions.conversion
    ended = "SELECT pg_terminate_backend(pg_backend_pid())"
    monkeypatch.setattr(partitions, "conversion", lambda table: [*whole(table)[:-1], ended])
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError)):
        await partition(url)
    monkeypatch.undo()
    assert await connection.fetch("SELECT * FROM events ORDER BY thread_key, seq") == before
    assert await connection.fetchval(_PARTS, "events") == 0
    assert await partition(url) == len(before)


async def test_a_database_in_use_is_not_converted(
    url: str, connection: "asyncpg.Connection[Any]", monkeypatch: pytest.MonkeyPatch
) -> None:
    await _grown(connection, url)
    monkeypatch.setattr(partitions, "_LOCK_SECONDS", 1)
    async with connection.transaction():
        await connection.execute("SELECT 1 FROM threads LIMIT 1")
        with pytest.raises(CannotPartition, match="stop all servers"):
            await partition(url)

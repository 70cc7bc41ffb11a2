"""Connections from a pooler in transaction mode: nothing is left behind in a session that somebody else gets next."""

import asyncpg
import pytest

from app.events.ports import StorageDown
from app.store.engine import Sql, Tx
from app.store.postgres import PostgresDatabase
from tests.databases import create_database
from tests.postgres import PostgresServer

_SETTINGS = Sql(
    "SELECT current_setting('lock_timeout'), current_setting('idle_in_transaction_session_timeout'), "
    "current_setting('enable_seqscan'), current_setting('enable_sort')"
)
_LEFT = Sql("SELECT count(*) FROM pg_prepared_statements")

IDLE = "10s"
"""The limit of an idle transaction: what `tests.conftest` gives every statement of a test."""


async def _settings(tx: Tx) -> list[str]:
    return list((await tx.rows(_SETTINGS))[0])


async def test_every_transaction_has_its_settings_and_leaves_none(postgres_server: PostgresServer) -> None:
    await create_database(postgres_server, "lent")
    database = PostgresDatabase(postgres_server.url("lent"), lent=True)
    try:
        assert await database.write(_settings) == ["400ms", IDLE, "off", "on"]
        assert await database.read(_settings) == ["400ms", IDLE, "off", "off"]
        assert await database.look(_settings) == ["400ms", IDLE, "off", "off"]
        # As the next client of the pooler would find the same sessions.
        assert database._writer is not None and database._pool is not None
        async with database._pool.acquire() as reader:
            for session in (database._writer, reader):
                assert list(await session.fetchrow(_SETTINGS.postgres) or []) == ["0", "0", "on", "on"]
                assert await session.fetchval(_LEFT.postgres) == 0
    finally:
        await database.close()


async def test_a_statement_that_fails_by_itself_leaves_no_open_transaction(postgres_server: PostgresServer) -> None:
    await create_database(postgres_server, "lent_failing")
    database = PostgresDatabase(postgres_server.url("lent_failing"), lent=True)
    try:
        for _ in range(3):
            with pytest.raises(StorageDown):
                await database.look(lambda tx: tx.rows(Sql("SELECT 1 / 0")))
        assert await database.look(_settings) == ["400ms", IDLE, "off", "off"]
        admin = await asyncpg.connect(postgres_server.url("lent_failing"))
        open_ones = await admin.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = 'lent_failing' AND state LIKE 'idle in%'"
        )
        await admin.close()
        assert open_ones == 0
    finally:
        await database.close()

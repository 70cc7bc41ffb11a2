"""Empty Postgres databases for tests. A used one is emptied and given out again: that takes a tenth of copying one.

Leaves to others: the server (`tests.postgres`), and databases that a test changes the tables of, which are thrown away.
"""

import itertools

import asyncpg

from app.core.settings import Settings
from app.store.migrate import migrate
from tests.postgres import PostgresServer

TEMPLATE = "template_holdfast"
MAX_KEPT_BYTES = 32 * 1024 * 1024
"""Of a database's tables: deleting more rows than that takes longer than a fresh copy."""

_TABLES = """
    SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
    AND NOT relispartition ORDER BY relname
"""
_SHAPE = """
    SELECT md5(string_agg(format('%s %s %s %s', relname, relkind, attname, atttypid), ',' ORDER BY relname, attnum))
    FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
    WHERE relnamespace = 'public'::regnamespace AND NOT attisdropped
"""
_SIZE = "SELECT sum(pg_table_size(oid)) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'"
_OTHERS = """
    SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
_SEQUENCES = """
    SELECT count(setval(oid::regclass, 1, false)) FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'S'
"""


async def create_database(server: PostgresServer, name: str) -> None:
    """Copies a template that is migrated once per session: much faster than migrating each time."""
    admin = await asyncpg.connect(server.url("postgres"))
    try:
        if not await admin.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", TEMPLATE):
            await admin.execute(f"CREATE DATABASE {TEMPLATE}")
            await migrate(Settings(database_url=server.url(TEMPLATE)))
        await admin.execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
    finally:
        await admin.close()


class Databases:
    """Those of one server: `take` gives an empty one, `give_back` empties it for the next."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._free: list[str] = []
        self._names = itertools.count(1)
        self._shape: str | None = None
        self._first_rows: dict[str, list[tuple[object, ...]]] = {}
        """What a migrated database contains before anybody used it."""

    async def take(self) -> str:
        if self._free:
            return self._free.pop()
        name = f"test_{next(self._names)}"
        await create_database(self._server, name)
        if self._shape is None:
            await self._look_at(name)
        return name

    async def give_back(self, name: str) -> None:
        used = await asyncpg.connect(self._server.url(name))
        try:
            await used.execute(_OTHERS)
            if await used.fetchval(_SHAPE) == self._shape and await used.fetchval(_SIZE) <= MAX_KEPT_BYTES:
                await self._empty(used)
                self._free.append(name)
                return
        finally:
            await used.close()
        admin = await asyncpg.connect(self._server.url("postgres"))
        try:
            await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
        finally:
            await admin.close()

    async def _look_at(self, name: str) -> None:
        fresh = await asyncpg.connect(self._server.url(name))
        try:
            self._shape = await fresh.fetchval(_SHAPE)
            for (table,) in await fresh.fetch(_TABLES):
                self._first_rows[table] = [tuple(row) for row in await fresh.fetch(f"SELECT * FROM {table}")]
        finally:
            await fresh.close()

    async def _empty(self, used: "asyncpg.Connection[asyncpg.Record]") -> None:
        async with used.transaction():
            await used.execute("SET LOCAL session_replication_role = replica")  # no order of foreign keys
            await used.execute("; ".join(f"DELETE FROM {table}" for table in self._first_rows))
            for table, rows in self._first_rows.items():
                if rows:
                    await used.copy_records_to_table(table, records=rows)
            await used.execute(_SEQUENCES)

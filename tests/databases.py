"""Empty Postgres databases for tests. A used one is emptied and given out again: that takes a tenth of copying one.

Each database has a connection that stays open between tests, on a loop of its own: a new one would have to read about
every table again, which takes five times as long as emptying them. Leaves to others: the server (`tests.postgres`), and
databases that a test changes the tables of, which are thrown away.
"""

import asyncio
import itertools
import threading
from collections.abc import Coroutine
from typing import Final, TypeAlias, TypeVar

import asyncpg

from app.core.settings import Settings
from app.store.migrate import migrate
from tests.postgres import PostgresServer

T = TypeVar("T")
Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

_END_SECONDS: Final = 30.0
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
    """Those of one server: `take` gives an empty one, `give_back` empties it for the next. `close` at the end."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._free: list[str] = []
        self._names = itertools.count(1)
        self._shape: str | None = None
        self._first_rows: dict[str, list[tuple[object, ...]]] = {}
        """What a migrated database contains before anybody used it."""
        self._connections: dict[str, Connection] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="databases of tests", daemon=True)
        self._thread.start()

    async def take(self) -> str:
        return await self._apart(self._take())

    async def give_back(self, name: str) -> None:
        await self._apart(self._give_back(name))

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._close_all(), self._loop).result(_END_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_END_SECONDS)
        self._loop.close()

    async def _apart(self, work: Coroutine[None, None, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def _take(self) -> str:
        if self._free:
            return self._free.pop()
        name = f"test_{next(self._names)}"
        await create_database(self._server, name)
        if self._shape is None:
            await self._look_at(name)
        return name

    async def _give_back(self, name: str) -> None:
        used = await self._connected(name)
        await used.execute(_OTHERS)
        if await used.fetchval(_SHAPE) == self._shape and await used.fetchval(_SIZE) <= MAX_KEPT_BYTES:
            await self._empty(used)
            self._free.append(name)
            return
        await self._connections.pop(name).close()
        admin = await asyncpg.connect(self._server.url("postgres"))
        try:
            await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
        finally:
            await admin.close()

    async def _connected(self, name: str) -> Connection:
        """One that a test ended, with all others of its database, is replaced."""
        kept = self._connections.get(name)
        if kept is not None:
            try:
                await kept.execute("SELECT 1")
                return kept
            except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
                kept.terminate()
        made = self._connections[name] = await asyncpg.connect(self._server.url(name))
        return made

    async def _close_all(self) -> None:
        for connection in self._connections.values():
            await connection.close()

    async def _look_at(self, name: str) -> None:
        fresh = await self._connected(name)
        self._shape = await fresh.fetchval(_SHAPE)
        for (table,) in await fresh.fetch(_TABLES):
            self._first_rows[table] = [tuple(row) for row in await fresh.fetch(f"SELECT * FROM {table}")]

    async def _empty(self, used: Connection) -> None:
        async with used.transaction():
            await used.execute("SET LOCAL session_replication_role = replica")  # no order of foreign keys
            await used.execute("; ".join(f"DELETE FROM {table}" for table in self._first_rows))
            for table, rows in self._first_rows.items():
                if rows:
                    await used.copy_records_to_table(table, records=rows)
            await used.execute(_SEQUENCES)

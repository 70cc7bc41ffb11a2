"""Brings a database to this version's schema: under a lock, in one transaction, never backwards.

The database says which is the oldest version that may use it (`schema_support`), named by the newest revision that it
knows. So a version goes on beside a newer one, which has migrated the database, until a migration says otherwise.

A database at the newest revision is recognised by one query, and a new file is made by the script that the migrations
come to (`migrations/sqlite.sql`, generated), so that neither start loads Alembic.
"""

import asyncio
from pathlib import Path
from typing import Any, Final, NamedTuple

import structlog

from app.core.errors import HoldfastError
from app.core.resources import shipped
from app.core.settings import Settings
from app.events.ports import StorageDown, StorageFull
from app.store.engine import Sql
from app.store.first_contact import not_connected
from app.store.migration_turn import take_turn
from app.store.sqlite_errors import translated

NEWEST: Final = "0024"
OLDEST: Final = "0013"
"""The oldest version that may use a database of the newest revision."""
_CONNECT_SECONDS: Final = 5.0

log = structlog.get_logger("holdfast.storage")


class SchemaNewer(HoldfastError):
    def __init__(self, state: "SchemaState") -> None:
        needed = "" if state.oldest is None else f" and is for versions that know revision {state.oldest} or newer"
        super().__init__(
            "SCHEMA_NEWER",
            f"the database is at revision {state.revision}{needed}; this version knows revisions up to {NEWEST}",
        )


class SchemaState(NamedTuple):
    """What a database says of itself; None for what it does not have yet."""

    revision: str | None
    oldest: str | None

    @property
    def is_newer(self) -> bool:
        return self.revision is not None and self.revision not in known_revisions()

    @property
    def is_supported(self) -> bool:
        """Whether this version may use it, migrated or not."""
        return not self.is_newer or (self.oldest is not None and self.oldest <= NEWEST)


async def migrate(settings: Settings) -> None:
    if settings.is_postgres:
        assert settings.direct_url is not None
        await _migrate_postgres(settings.direct_url)
    else:
        await asyncio.to_thread(_migrate_sqlite, settings.sqlite_path, settings.sqlite_vacuum == "incremental")


def known_revisions() -> set[str]:
    return {path.name.split("_")[0] for path in (shipped("migrations") / "versions").glob("[0-9]*.py")}


def _needs_upgrade(state: SchemaState) -> bool:
    if state.revision == NEWEST:
        return False
    if not state.is_supported:
        raise SchemaNewer(state)
    if state.is_newer:
        log.info("schema.newer", revision=state.revision, known=NEWEST, oldest=state.oldest)
    return not state.is_newer


def _upgrade(connection: Any) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(shipped("migrations")).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _migrate_sqlite(path: Path, can_shrink: bool) -> None:
    import sqlite3

    try:
        if not _needs_upgrade(_probed_state(path)) or _create_sqlite(path, can_shrink):
            return
        if not _needs_upgrade(_probed_state(path)):
            return  # another process was quicker
    except sqlite3.Error as error:
        raise translated(error, path.parent) from error
    upgrade_sqlite(path)


def _create_sqlite(path: Path, can_shrink: bool) -> bool:
    """False for a file in which there are tables."""
    import sqlite3

    connection = sqlite3.connect(path, timeout=_CONNECT_SECONDS, isolation_level=None)
    try:
        if can_shrink:
            # Counts before the first table is made; afterwards it does nothing.
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("BEGIN EXCLUSIVE")
        new = connection.execute("SELECT 1 FROM sqlite_master").fetchone() is None
        if new:
            _run_script(connection)
        connection.execute("COMMIT")
        return new
    finally:
        connection.close()  # what was not committed is not there


def _run_script(connection: Any) -> None:
    for statement in (shipped("migrations") / "sqlite.sql").read_text().split(";\n"):
        connection.execute(statement)
    connection.execute("INSERT INTO schema_support (oldest) VALUES (?)", (OLDEST,))
    connection.execute("INSERT INTO alembic_version (version_num) VALUES (?)", (NEWEST,))


def upgrade_sqlite(path: Path) -> None:
    """By each migration that it has not had yet, in one transaction."""
    import sqlite3

    import sqlalchemy as sa

    engine = sa.create_engine(f"sqlite:///{path}", poolclass=sa.NullPool)

    # The driver would begin transactions by its own rules and leave DDL outside of them; we begin ours.
    @sa.event.listens_for(engine, "connect")
    def _no_driver_transactions(connection: Any, _record: Any) -> None:
        connection.isolation_level = None

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN EXCLUSIVE")

    try:
        with engine.begin() as connection:
            _upgrade(connection)
    except sa.exc.DBAPIError as error:
        if isinstance(error.orig, sqlite3.Error) and hasattr(error.orig, "sqlite_errorcode"):
            raise translated(error.orig, path.parent) from error
        raise
    engine.dispose()


def _probed_state(path: Path) -> SchemaState:
    """On a disk without room only a connection that has the database for itself can read it."""
    import sqlite3

    for exclusive in (False, True):
        probe = sqlite3.connect(path, timeout=_CONNECT_SECONDS)
        try:
            if exclusive:
                probe.execute("PRAGMA locking_mode = EXCLUSIVE")
            return _sqlite_state(probe)
        except sqlite3.Error as error:
            if exclusive or not isinstance(translated(error, path.parent), StorageFull):
                raise
        finally:
            probe.close()
    raise AssertionError("the second attempt returns or raises")


def _sqlite_state(connection: Any) -> SchemaState:
    revision, oldest = (
        _sqlite_value(connection, f"SELECT {column} FROM {table}")
        for column, table in (("version_num", "alembic_version"), ("oldest", "schema_support"))
    )
    return SchemaState(revision, oldest)


def _sqlite_value(connection: Any, query: str) -> str | None:
    import sqlite3

    try:
        row = connection.execute(query).fetchone()
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_ERROR:  # which stands for "no such table"
            raise
        return None
    return row[0] if row else None


async def _migrate_postgres(url: str) -> None:
    import asyncpg

    try:
        connection = await asyncpg.connect(url, timeout=_CONNECT_SECONDS)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError) as error:
        raise not_connected(error) from error
    try:
        if not _needs_upgrade(await _postgres_state(connection)):
            return
        await take_turn(connection)
        # Another replica may have migrated while this one waited for the lock.
        if not _needs_upgrade(await _postgres_state(connection)):
            return
        import sqlalchemy as sa
        from sqlalchemy.ext.asyncio import create_async_engine

        engine = create_async_engine(sa.make_url(url).set(drivername="postgresql+asyncpg"), poolclass=sa.NullPool)
        async with engine.begin() as migrating:
            await migrating.run_sync(_upgrade)
        await engine.dispose()
    except StorageDown:
        connection.terminate()  # a goodbye would wait for an answer
        raise
    finally:
        await connection.close()


async def _postgres_state(connection: Any) -> SchemaState:
    import asyncpg

    async def value(table: str, column: str) -> str | None:
        if await connection.fetchval("SELECT to_regclass($1)", table, timeout=_CONNECT_SECONDS) is None:
            return None
        found: str | None = await connection.fetchval(f"SELECT {column} FROM {table}", timeout=_CONNECT_SECONDS)
        return found

    try:
        return SchemaState(await value("alembic_version", "version_num"), await value("schema_support", "oldest"))
    except (OSError, asyncpg.PostgresConnectionError, asyncpg.InterfaceError, TimeoutError) as error:
        raise StorageDown(f"the database answered {type(error).__name__}") from error


async def standing(settings: Settings) -> tuple[SchemaState, int]:
    """Schema and clock (milliseconds) of a database, changing nothing."""
    if settings.is_postgres:
        assert settings.direct_url is not None
        return await _postgres_standing(settings.direct_url)
    return await asyncio.to_thread(_sqlite_standing, settings.sqlite_path)


def _sqlite_standing(path: Path) -> tuple[SchemaState, int]:
    import sqlite3

    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            (now,) = connection.execute(f"SELECT {Sql('{now}').sqlite}").fetchone()
            return _sqlite_state(connection), now
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise StorageDown(f"cannot open the database: {error}") from error


async def _postgres_standing(url: str) -> tuple[SchemaState, int]:
    import asyncpg

    try:
        connection = await asyncpg.connect(url, timeout=_CONNECT_SECONDS)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError) as error:
        raise not_connected(error) from error
    try:
        return await _postgres_state(connection), await connection.fetchval(f"SELECT {Sql('{now}').postgres}")
    finally:
        await connection.close()

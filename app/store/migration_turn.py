"""Whose turn it is to migrate a Postgres database: servers that start together do it one after the other.

Waiting has a bound: a server that was suspended while it migrated would hold all others up for ever. Leaves to others:
the migration (`migrate`), and starting again (whoever supervises the server).
"""

from typing import Any, Final

import structlog

from app.core.errors import HoldfastError
from app.events.ports import StorageDown

_ADVISORY_LOCK: Final = 0x486F6C64
WAIT_SECONDS: Final = 120.0
_ANSWER_SECONDS: Final = 5.0

_HOLDER: Final = """
    SELECT pid, coalesce(host(client_addr), 'this machine') AS place,
           extract(epoch FROM clock_timestamp() - backend_start)::int AS seconds
    FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE locktype = 'advisory' AND granted AND classid = 0 AND objid::bigint = $1 AND objsubid = 1
    AND pg_locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""

log = structlog.get_logger("holdfast.storage")


class MigrationLocked(HoldfastError):
    """Another process migrates the database, and does not come to an end."""

    def __init__(self, holder: str) -> None:
        message = f"another process has been migrating the database for {WAIT_SECONDS:g} seconds{holder}"
        super().__init__("MIGRATION_LOCKED", message, retryable=True)


async def take_turn(connection: Any) -> None:
    """Returns when nobody else migrates; the turn lasts as long as the connection. Raises `MigrationLocked`."""
    import asyncpg

    try:
        if await connection.fetchval("SELECT pg_try_advisory_lock($1)", _ADVISORY_LOCK, timeout=_ANSWER_SECONDS):
            return
        log.info("schema.waits", reason="another server migrates the database", seconds=WAIT_SECONDS)
        await connection.execute(f"SET lock_timeout = {WAIT_SECONDS * 1000:.0f}", timeout=_ANSWER_SECONDS)
        try:
            patience = WAIT_SECONDS + _ANSWER_SECONDS
            await connection.execute("SELECT pg_advisory_lock($1)", _ADVISORY_LOCK, timeout=patience)
        except asyncpg.LockNotAvailableError:  # within `lock_timeout`
            raise MigrationLocked(await _holder(connection)) from None
    except (OSError, TimeoutError, asyncpg.InterfaceError, asyncpg.PostgresError) as error:
        raise StorageDown(f"the database answered {type(error).__name__}") from error


async def _holder(connection: Any) -> str:
    """Who has the turn, for the one who reads the error; nothing if it has just ended."""
    row = await connection.fetchrow(_HOLDER, _ADVISORY_LOCK, timeout=_ANSWER_SECONDS)
    if row is None:
        return ""
    return f": the one that Postgres calls {row['pid']}, from {row['place']}, connected for {row['seconds']} seconds"

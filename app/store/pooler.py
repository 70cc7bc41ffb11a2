"""Finds out at the start whether the database's URL leads through a pooler in transaction mode, which a server has to
know: on such a connection settings, prepared statements, LISTEN and locks of a session are lost or left to others.
"""

from typing import Any, Final

from app.core.errors import HoldfastError
from app.core.settings import Settings
from app.store.first_contact import not_connected

_CONNECT_SECONDS: Final = 5.0
_WHO: Final = "SELECT pg_backend_pid()"
_WHERE: Final = (
    "SELECT pg_postmaster_start_time()::text || ' ' || oid::text FROM pg_database WHERE datname = current_database()"
)


class PoolerNotAnnounced(HoldfastError):
    def __init__(self) -> None:
        super().__init__(
            "DATABASE_POOLED",
            "HOLDFAST_DATABASE_URL leads through a pooler in transaction mode: two open connections shared one session "
            "of Postgres",
        )


class DirectUrlElsewhere(HoldfastError):
    def __init__(self) -> None:
        super().__init__(
            "DATABASE_POOLED", "HOLDFAST_DATABASE_DIRECT_URL leads to another database than HOLDFAST_DATABASE_URL"
        )


async def check_pooler(settings: Settings) -> None:
    """Raises if the settings do not say how the database is reached."""
    import asyncpg

    assert settings.database_url is not None
    try:
        if settings.database_direct_url is None:
            await _refuse_shared_session(settings.database_url)
        elif await _asked(settings.database_url) != await _asked(settings.database_direct_url):
            raise DirectUrlElsewhere
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError) as error:
        raise not_connected(error) from error


async def _connect(url: str) -> Any:
    import asyncpg

    # Without a cache, so that a pooler is not confused by the names of statements while it is looked for.
    return await asyncpg.connect(
        url, timeout=_CONNECT_SECONDS, command_timeout=_CONNECT_SECONDS, statement_cache_size=0
    )


async def _asked(url: str) -> str:
    connection = await _connect(url)
    try:
        async with connection.transaction():
            return str(await connection.fetchval(_WHERE))
    finally:
        await connection.close()


async def _refuse_shared_session(url: str) -> None:
    """A session of one's own is nobody else's, and stays the same. A pooler in transaction mode lends the one that was
    used last to whoever asks next, so that one connection sees the session of the other."""
    one = await _connect(url)
    try:
        other = await _connect(url)
        try:
            seen = [await _session_of(connection) for connection in (one, other, one)]
        finally:
            await other.close()
    finally:
        await one.close()
    if seen[0] == seen[1] or seen[0] != seen[2]:
        raise PoolerNotAnnounced


async def _session_of(connection: Any) -> int:
    async with connection.transaction():
        return int(await connection.fetchval(_WHO))

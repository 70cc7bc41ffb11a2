"""Grants for MCP servers as they are stored at one moment, read without opening the database for a server.

Leaves to `mcp_grants`: everything that changes them.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from app.core.settings import Settings
from app.events.ports import StorageDown

_ALL: Final = "SELECT tenant, server, sealed FROM mcp_grants"
_CONNECT_SECONDS: Final = 5.0


class GrantSnapshot:
    """A table of grants that cannot be changed."""

    def __init__(self, rows: Mapping[tuple[str, str], bytes]) -> None:
        self._rows = rows

    async def find(self, tenant: str, server: str) -> bytes | None:
        return self._rows.get((tenant, server))

    async def put(self, tenant: str, server: str, sealed: bytes) -> None:
        """Nothing is stored."""

    async def replace(self, tenant: str, server: str, sealed: bytes) -> None:
        """Nothing is stored."""

    async def claim(self, tenant: str, server: str, now: int, until: int) -> bool:
        return False

    async def release(self, tenant: str, server: str) -> None:
        """Nothing was claimed."""

    async def of_tenant(self, tenant: str) -> list[str]:
        return sorted(server for owner, server in self._rows if owner == tenant)

    async def tenants_of(self, server: str) -> list[str]:
        return sorted(tenant for tenant, name in self._rows if name == server)


async def read_grants(settings: Settings) -> GrantSnapshot:
    """Raises StorageDown when the database cannot be read, or has no such table yet."""
    rows = await (
        _of_postgres(settings) if settings.is_postgres else asyncio.to_thread(_of_sqlite, settings.sqlite_path)
    )
    return GrantSnapshot({(tenant, server): bytes(sealed) for tenant, server, sealed in rows})


def _of_sqlite(path: Path) -> list[tuple[str, str, bytes]]:
    import sqlite3

    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            return connection.execute(_ALL).fetchall()
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise StorageDown(f"cannot read the database: {error}") from error


async def _of_postgres(settings: Settings) -> list[tuple[str, str, bytes]]:
    import asyncpg

    assert settings.direct_url is not None
    try:
        connection = await asyncpg.connect(settings.direct_url, timeout=_CONNECT_SECONDS)
        try:
            return [tuple(row) for row in await connection.fetch(_ALL)]
        finally:
            await connection.close()
    except (OSError, asyncpg.PostgresError, TimeoutError) as error:
        raise StorageDown(f"cannot read the database: {type(error).__name__}") from error

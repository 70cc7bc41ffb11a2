"""Grants for MCP servers, sealed. Leaves to `tools.grants`: what is in them; to the log: storing one with its event."""

from typing import Final

from app.events.ports import McpGrantStored
from app.store.engine import Database, Sql, Tx

_FIND: Final = Sql("SELECT sealed FROM mcp_grants WHERE tenant = $1 AND server = $2")
_PUT: Final = Sql(
    "INSERT INTO mcp_grants (tenant, server, sealed, renewing_until) VALUES ($1, $2, $3, 0) "
    "ON CONFLICT (tenant, server) DO UPDATE SET sealed = excluded.sealed, renewing_until = 0"
)
_REPLACE: Final = Sql("UPDATE mcp_grants SET sealed = $3, renewing_until = 0 WHERE tenant = $1 AND server = $2")
_DELETE: Final = Sql("DELETE FROM mcp_grants WHERE tenant = $1 AND server = $2")
_CLAIM: Final = Sql(
    "UPDATE mcp_grants SET renewing_until = $4 WHERE tenant = $1 AND server = $2 AND renewing_until <= $3 RETURNING 1"
)
_RELEASE: Final = Sql("UPDATE mcp_grants SET renewing_until = 0 WHERE tenant = $1 AND server = $2")
_OF_TENANT: Final = Sql("SELECT server FROM mcp_grants WHERE tenant = $1 ORDER BY server")
_TENANTS: Final = Sql("SELECT tenant FROM mcp_grants WHERE server = $1 ORDER BY tenant LIMIT 100")


async def store_grant(tx: Tx, tenant: str, it: McpGrantStored) -> None:
    if it.sealed is None:
        await tx.rows(_DELETE, tenant, it.server)
    else:
        await tx.rows(_PUT, tenant, it.server, it.sealed)


class McpGrantTable:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, tenant: str, server: str) -> bytes | None:
        rows = await self._database.look(lambda tx: tx.rows(_FIND, tenant, server))
        return bytes(rows[0][0]) if rows else None

    async def put(self, tenant: str, server: str, sealed: bytes) -> None:
        await self._database.write(lambda tx: tx.rows(_PUT, tenant, server, sealed))

    async def replace(self, tenant: str, server: str, sealed: bytes) -> None:
        await self._database.write(lambda tx: tx.rows(_REPLACE, tenant, server, sealed))

    async def claim(self, tenant: str, server: str, now: int, until: int) -> bool:
        return bool(await self._database.write(lambda tx: tx.rows(_CLAIM, tenant, server, now, until)))

    async def release(self, tenant: str, server: str) -> None:
        await self._database.write(lambda tx: tx.rows(_RELEASE, tenant, server))

    async def of_tenant(self, tenant: str) -> list[str]:
        return [row[0] for row in await self._database.look(lambda tx: tx.rows(_OF_TENANT, tenant))]

    async def tenants_of(self, server: str) -> list[str]:
        return [row[0] for row in await self._database.look(lambda tx: tx.rows(_TENANTS, server))]

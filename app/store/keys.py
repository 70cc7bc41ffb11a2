"""API keys: their hashes and what they allow. Outside the fold, because a hash does not belong into the log.

Rows are written by the log, in the transaction of the ledger's event about them; here are the statements and the reads.
"""

from typing import Final

from app.core import json
from app.core.keys import ApiKey
from app.store.engine import Database, Row, Sql

PUT_KEY: Final = Sql(
    "INSERT INTO api_keys (id, tenant, digest, state) VALUES ($1, $2, $3, $4) ON CONFLICT (id) DO NOTHING"
)
REVOKE_KEY: Final = Sql("UPDATE api_keys SET revoked_at = $3 WHERE tenant = $1 AND id = $2")
LIVING_KEYS: Final = Sql("SELECT id FROM api_keys WHERE tenant = $1 AND id = $2 AND revoked_at IS NULL")

_COLUMNS: Final = "id, tenant, digest, revoked_at, state"
_FIND: Final = Sql(f"SELECT {_COLUMNS} FROM api_keys WHERE id = $1")
_OF_TENANT: Final = Sql(f"SELECT {_COLUMNS} FROM api_keys WHERE tenant = $1 AND id > $2 ORDER BY id LIMIT $3")
_LIVING: Final = Sql(f"SELECT {_COLUMNS} FROM api_keys WHERE revoked_at IS NULL AND id > $1 ORDER BY id LIMIT $2")

_TENANTS: Final = Sql("SELECT DISTINCT tenant FROM api_keys WHERE tenant > $1 ORDER BY tenant LIMIT $2")


def key_row(key: ApiKey) -> Row:
    state = {
        "name": key.name,
        "roles": key.roles,
        "scopes": key.scopes,
        "created_at": key.created_at,
        "created_by": key.created_by,
        "expires_at": key.expires_at,
    }
    return (key.id, key.tenant, key.digest, json.dumps(state))


def _key(row: Row) -> ApiKey:
    id, tenant, digest, revoked_at, state = row
    record = json.loads(state)
    return ApiKey(
        id,
        tenant,
        record["name"],
        bytes(digest),
        tuple(record["roles"]),
        tuple(record["scopes"]),
        record["created_at"],
        record["created_by"],
        record["expires_at"],
        revoked_at,
    )


class StoredKeys:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def tenants(self, after: str, limit: int) -> list[str]:
        """Those that have keys, by name."""
        rows = await self._database.read(lambda tx: tx.rows(_TENANTS, after, limit))
        return [row[0] for row in rows]

    async def find(self, key_id: str) -> ApiKey | None:
        """Without a tenant: this is where the tenant of a caller comes from."""
        rows = await self._database.read(lambda tx: tx.rows(_FIND, key_id))
        return _key(rows[0]) if rows else None

    async def living(self, after: str, limit: int) -> list[ApiKey]:
        """Of all tenants, without revoked ones; expired ones are among them."""
        rows = await self._database.read(lambda tx: tx.rows(_LIVING, after, limit))
        return [_key(row) for row in rows]

    async def of_tenant(self, tenant: str, after: str, limit: int) -> list[ApiKey]:
        rows = await self._database.read(lambda tx: tx.rows(_OF_TENANT, tenant, after, limit))
        return [_key(row) for row in rows]

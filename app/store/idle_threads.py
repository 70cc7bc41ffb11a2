"""Finds threads that had no event for long, of all tenants, in the order of their keys."""

from typing import Final

from app.store.engine import Database, Sql

_IDLE: Final = Sql(
    "SELECT key, tenant, id FROM threads WHERE key > $2 AND updated_at <= $1 AND deleted_at IS NULL "
    "AND substr(id, 1, 4) <> 'sys_' ORDER BY key LIMIT $3"
)


class IdleThreadReader:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def idle_threads(self, before_ms: int, after_key: int, limit: int) -> list[tuple[int, str, str]]:
        rows = await self._database.read(lambda tx: tx.rows(_IDLE, before_ms, after_key, limit))
        return [(key, tenant, thread_id) for key, tenant, thread_id in rows]

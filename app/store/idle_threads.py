"""Finds threads that had no event for long, of all tenants, the oldest first."""

from typing import Final

from app.store.engine import Database, Sql

_IDLE: Final = Sql(
    # An index on `updated_at` would be written with every append. A thread is never younger than its last event, so an
    # index on its age leaves out the many recent ones, and is written once a thread.
    "SELECT created_at, key, tenant, id FROM threads WHERE created_at <= $1 AND (created_at, key) > ($2, $3) "
    "AND updated_at <= $1 AND deleted_at IS NULL AND substr(id, 1, 4) <> 'sys_' ORDER BY created_at, key LIMIT $4"
)


class IdleThreadReader:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def idle_threads(
        self, before_ms: int, after: tuple[int, int], limit: int
    ) -> list[tuple[tuple[int, int], str, str]]:
        rows = await self._database.look(lambda tx: tx.rows(_IDLE, before_ms, *after, limit))
        return [((created_at, key), tenant, thread_id) for created_at, key, tenant, thread_id in rows]

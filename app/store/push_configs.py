"""Where A2A clients want notifications of their runs, sealed. Leaves to the log: storing one with its event."""

from typing import Final

from app.events.ports import PushStored
from app.store.engine import Database, Sql, Tx

_PUT: Final = Sql(
    "INSERT INTO push_configs (tenant, run_id, id, created_at, sealed) VALUES ($1, $2, $3, $4, $5) "
    "ON CONFLICT (tenant, run_id, id) DO UPDATE SET sealed = excluded.sealed"
)
_DELETE: Final = Sql("DELETE FROM push_configs WHERE tenant = $1 AND run_id = $2 AND id = $3")
_OF_RUN: Final = Sql("SELECT id, sealed FROM push_configs WHERE tenant = $1 AND run_id = $2 ORDER BY created_at, id")
_OLD: Final = Sql(
    "DELETE FROM push_configs WHERE created_at < $1 AND NOT EXISTS (SELECT 1 FROM runs r WHERE "
    "r.tenant = push_configs.tenant AND r.id = push_configs.run_id "
    "AND r.status NOT IN ('completed', 'failed', 'cancelled')) RETURNING 1"
)


async def store_push(tx: Tx, tenant: str, it: PushStored) -> None:
    if it.sealed is None:
        await tx.rows(_DELETE, tenant, it.run_id, it.config_id)
    else:
        await tx.rows(_PUT, tenant, it.run_id, it.config_id, it.at, it.sealed)


class PushConfigTable:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_run(self, tenant: str, run_id: str) -> list[tuple[str, bytes]]:
        """Ids and what is sealed, oldest first."""
        rows = await self._database.look(lambda tx: tx.rows(_OF_RUN, tenant, run_id))
        return [(row[0], bytes(row[1])) for row in rows]

    async def purge(self, created_before: int) -> int:
        """Drop the old ones of runs that have ended or are gone."""
        return len(await self._database.write(lambda tx: tx.rows(_OLD, created_before)))

"""Finds the threads with events that no sweep of old deltas has looked at, and keeps how far each was swept.

Leaves to others: which deltas may go (`runtime.schedule.delta_expiry`), and removing their rows (`event_rows`).
"""

from collections.abc import Sequence
from typing import Final

from app.store.engine import Database, Sql
from app.views.ports import SweepThread

_THREADS: Final = Sql(
    # By age, every one of them: which have something left is read from their rows, so that a page stays bounded.
    "SELECT created_at, key, tenant, id, last_seq, swept_seq, deleted_at FROM threads "
    "WHERE created_at <= $1 AND (created_at, key) > ($2, $3) ORDER BY created_at, key LIMIT $4"
)
_SWEPT: Final = Sql("UPDATE threads SET swept_seq = $2 WHERE key = $1")


class SweepTable:
    """How far each thread was swept: up to this `seq` there is nothing left to drop."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def threads(
        self, before_ms: int, after: tuple[int, int], limit: int
    ) -> tuple[list[SweepThread], tuple[int, int] | None]:
        """Threads that have something to look at, among the next so many by age; and where to go on, if anywhere."""
        rows = await self._database.look(lambda tx: tx.rows(_THREADS, before_ms, *after, limit))
        found = [
            SweepThread(key, tenant, id, swept_seq, last_seq)
            for _, key, tenant, id, last_seq, swept_seq, deleted_at in rows
            if deleted_at is None and swept_seq < last_seq and not id.startswith("sys_")
        ]
        return found, (rows[-1][0], rows[-1][1]) if len(rows) == limit else None

    async def swept(self, threads: Sequence[tuple[int, int]]) -> None:
        """Keep how far these were swept, by key."""
        await self._database.write(lambda tx: tx.many(_SWEPT, threads))

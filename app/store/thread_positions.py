"""Where threads are in the log: for servers that poll, because nobody says that there is news."""

from collections.abc import Sequence
from typing import Final

from app.store.engine import Database, Sql

_LAST: Final = Sql("SELECT id, last_seq FROM threads WHERE tenant = $1 AND id {in:$2}")
# By the newest runs: an index of the times of threads would have to be written with every append.
_RECENT: Final = Sql(
    "SELECT t.id, n.first_seq, t.last_seq FROM (SELECT r.thread_key AS key, max(r.first_seq) AS first_seq FROM "
    "(SELECT thread_key, first_seq FROM runs WHERE tenant = $1 ORDER BY created_at DESC, id DESC LIMIT $2) AS r "
    "GROUP BY r.thread_key) AS n JOIN threads t ON t.key = n.key"
)
_NOW: Final = Sql("SELECT {now}")


class ThreadPositionReader:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def last_seqs(self, tenant: str, threads: Sequence[str]) -> list[tuple[str, int]]:
        rows = await self._database.look(lambda tx: tx.rows(_LAST, tenant, list(threads)))
        return [(row[0], row[1]) for row in rows]

    async def recent_threads(self, tenant: str, limit: int) -> list[tuple[str, int, int]]:
        """(thread, first `seq` of its newest run, last `seq`) of the threads with the newest runs."""
        rows = await self._database.look(lambda tx: tx.rows(_RECENT, tenant, limit))
        return [(row[0], row[1], row[2]) for row in rows]

    async def now_ms(self) -> int:
        """The database's clock, which all its servers share."""
        rows = await self._database.look(lambda tx: tx.rows(_NOW))
        return int(rows[0][0])

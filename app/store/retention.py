"""Purges whole deleted threads and files when their time has come.

Of a thread a tombstone keeps id, tenant, last `seq` and head hash.

Deleting is an event (`runtime.thread.deleted`); this is what happens later. Purges run beside the log in
transactions of one thread each, so that writing never waits long.
"""

from typing import Final

from app.core.clock import Clock
from app.store.engine import Database, Row, Sql, Tx
from app.store.files import FileStore

_DUE: Final = Sql("SELECT key FROM threads WHERE deleted_at IS NOT NULL AND deleted_at <= $1 ORDER BY key LIMIT 100")
_TOMBSTONE: Final = Sql(
    "INSERT INTO tombstones (tenant, thread_id, last_seq, head_hash, purged_at) "
    "SELECT tenant, id, last_seq, head_hash, $2 FROM threads WHERE key = $1 ON CONFLICT DO NOTHING"
)
_ORPHANS: Final = Sql(
    "DELETE FROM blobs WHERE EXISTS (SELECT 1 FROM blob_refs r WHERE r.tenant = blobs.tenant AND r.sha256 = "
    "blobs.sha256 AND r.thread_key = $1) AND NOT EXISTS (SELECT 1 FROM blob_refs r WHERE r.tenant = blobs.tenant "
    "AND r.sha256 = blobs.sha256 AND r.thread_key <> $1)"
)
_LEASES: Final = Sql(
    "DELETE FROM leases WHERE EXISTS (SELECT 1 FROM runs r WHERE r.tenant = leases.tenant AND r.id = leases.run_id "
    "AND r.thread_key = $1)"
)
_PARTS: Final = tuple(
    Sql(f"DELETE FROM {table} WHERE thread_key = $1")
    for table in ("blob_refs", "artifacts", "transcript_entries", "interrupts", "runs", "events")
)
_THREAD: Final = Sql("DELETE FROM threads WHERE key = $1")
_OLD_KEYS: Final = Sql("DELETE FROM idempotency_keys WHERE expires_at <= $1")


class Retention:
    def __init__(self, database: Database, clock: Clock, deleted_days: int) -> None:
        self._database = database
        self._clock = clock
        self._keep_ms = deleted_days * 86_400_000
        self._files = FileStore(database, clock)

    async def purge(self) -> int:
        """Purge every thread whose time has come; returns how many."""
        now = self._clock.now_ms()
        await self._database.write(lambda tx: tx.rows(_OLD_KEYS, now))
        await self._files.purge(self._keep_ms)
        purged = 0
        while due := await self._database.read(lambda tx: tx.rows(_DUE, now - self._keep_ms)):
            for (key,) in due:
                await self._purge_thread(key, now)
                purged += 1
        return purged

    async def _purge_thread(self, key: int, now: int) -> None:
        async def work(tx: Tx) -> list[Row]:
            await tx.rows(_TOMBSTONE, key, now)
            await tx.rows(_ORPHANS, key)
            await tx.rows(_LEASES, key)
            for sql in _PARTS:
                await tx.rows(sql, key)
            return await tx.rows(_THREAD, key)

        await self._database.write(work)

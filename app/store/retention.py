"""Purges whole deleted threads and files when their time has come.

Of a thread a tombstone keeps id, tenant, last `seq` and head hash.

Deleting is an event (`runtime.thread.deleted`); this is what happens later. A purge runs in transactions of a bounded
size between those of the log, so that writing never waits long, and it stops between two of them when it is asked to:
a thread that is purged in part has its tombstone already, and the next purge goes on with it.
"""

import asyncio
from typing import Final

from app.core.clock import Clock
from app.store.engine import Database, Sql, Tx
from app.store.files import FileStore

ROWS_AT_ONCE: Final = 1000
"""Rows of a table that one transaction removes: a few milliseconds of the only writer."""
THREADS_AT_ONCE: Final = 20
"""Small threads that go in one transaction, as long as their rows together are not too many."""
BLOBS_AT_ONCE: Final = 20
"""Each may be megabytes."""

# In the order of the index of deleted threads: by key, Postgres would pass every thread that is not deleted.
_DUE: Final = Sql(
    "SELECT key FROM threads WHERE deleted_at IS NOT NULL AND deleted_at <= $1 ORDER BY deleted_at LIMIT 100"
)
_TOMBSTONE: Final = Sql(
    "INSERT INTO tombstones (tenant, thread_id, last_seq, head_hash, purged_at, deleted_at) "
    "SELECT tenant, id, last_seq, head_hash, $2, deleted_at FROM threads WHERE key = $1 ON CONFLICT DO NOTHING"
)
_ORPHANS: Final = Sql(
    "DELETE FROM blobs WHERE (tenant, sha256) IN (SELECT r.tenant, r.sha256 FROM blob_refs r WHERE r.thread_key = $1 "
    "AND NOT EXISTS (SELECT 1 FROM blob_refs o WHERE o.tenant = r.tenant AND o.sha256 = r.sha256 "
    "AND o.thread_key <> $1) AND EXISTS (SELECT 1 FROM blobs b WHERE b.tenant = r.tenant AND b.sha256 = r.sha256) "
    "LIMIT $2) RETURNING 1"
)
_BLOB_REFS: Final = Sql(
    "DELETE FROM blob_refs WHERE thread_key = $1 AND sha256 IN "
    "(SELECT r.sha256 FROM blob_refs r WHERE r.thread_key = $1 ORDER BY r.sha256 LIMIT $2) RETURNING 1"
)
_LAST: Final = Sql(
    "SELECT MAX(v.seq) FROM (SELECT MAX(e.seq) AS seq FROM events e WHERE e.thread_key = $1 UNION ALL "
    "SELECT MAX(d.seq) FROM deltas d WHERE d.thread_key = $1) AS v"
)
_EVENTS: Final = Sql("DELETE FROM events WHERE thread_key = $1 AND seq > $2")
_DELTAS: Final = Sql("DELETE FROM deltas WHERE thread_key = $1 AND seq > $2")
_LEASES: Final = Sql(
    "DELETE FROM leases WHERE (tenant, run_id) IN "
    "(SELECT r.tenant, r.id FROM runs r WHERE r.thread_key = $1 ORDER BY r.first_seq LIMIT $2)"
)
_PUSHES: Final = Sql(
    "DELETE FROM push_configs WHERE (tenant, run_id) IN "
    "(SELECT r.tenant, r.id FROM runs r WHERE r.thread_key = $1 ORDER BY r.first_seq LIMIT $2)"
)
_LABELS: Final = Sql(
    "DELETE FROM run_labels WHERE thread_key = $1 AND run_id IN "
    "(SELECT l.run_id FROM run_labels l WHERE l.thread_key = $1 LIMIT $2) RETURNING 1"
)
_JOB_KEYS: Final = Sql(
    "DELETE FROM idempotency_keys WHERE (tenant, route, key) IN (SELECT j.tenant, 'jobs', j.key FROM jobs j "
    "WHERE j.thread_key = $1 AND j.key IS NOT NULL ORDER BY j.run_id LIMIT $2) "
    "AND run_id IN (SELECT j.run_id FROM jobs j WHERE j.thread_key = $1)"
)
_JOBS: Final = Sql(
    "DELETE FROM jobs WHERE (tenant, run_id) IN "
    "(SELECT j.tenant, j.run_id FROM jobs j WHERE j.thread_key = $1 ORDER BY j.run_id LIMIT $2) RETURNING 1"
)
_RUNS: Final = Sql(
    "DELETE FROM runs WHERE (tenant, id) IN "
    "(SELECT r.tenant, r.id FROM runs r WHERE r.thread_key = $1 ORDER BY r.first_seq LIMIT $2) RETURNING 1"
)
_PARTS: Final = tuple(
    Sql(
        f"DELETE FROM {table} WHERE thread_key = $1 AND {key} IN "
        f"(SELECT p.{key} FROM {table} p WHERE p.thread_key = $1 LIMIT $2) RETURNING 1"
    )
    for table, key in (
        ("artifacts", "id"),
        ("transcript_entries", "message_id"),
        ("interrupts", "id"),
        ("judgements", "id"),
    )
)
_STEPS: Final = (
    *((sql, ROWS_AT_ONCE) for sql in _PARTS),
    (_ORPHANS, BLOBS_AT_ONCE),  # before the references that say which they are
    (_BLOB_REFS, ROWS_AT_ONCE),
    (_LABELS, ROWS_AT_ONCE),
    (_JOB_KEYS, ROWS_AT_ONCE),  # before the jobs that say which they are
    (_JOBS, ROWS_AT_ONCE),
    (_LEASES, ROWS_AT_ONCE),  # before the runs that say which they are
    (_PUSHES, ROWS_AT_ONCE),
    (_RUNS, ROWS_AT_ONCE),
)
"""What a thread has besides its log, in the order in which it goes, and how much of it one transaction removes."""
_THREAD: Final = Sql("DELETE FROM threads WHERE key = $1")
_OLD_KEYS: Final = Sql(
    "DELETE FROM idempotency_keys WHERE (tenant, route, key) IN (SELECT k.tenant, k.route, k.key "
    "FROM idempotency_keys k WHERE k.expires_at <= $1 ORDER BY k.expires_at LIMIT $2) RETURNING 1"
)


class RetentionPurge:
    def __init__(self, database: Database, clock: Clock, deleted_days: int) -> None:
        self._database = database
        self._clock = clock
        self._keep_ms = deleted_days * 86_400_000
        self._files = FileStore(database, clock)

    async def purge(self, stopping: asyncio.Event | None = None, deleted_days: int | None = None) -> int:
        """Purge every thread whose time has come; returns how many. Ends early when `stopping` is set. `deleted_days`
        counts instead of the setting."""
        keep_ms = self._keep_ms if deleted_days is None else deleted_days * 86_400_000
        stop = stopping or asyncio.Event()
        now = self._clock.now_ms()
        await self._purge_keys(now, stop)
        await self._files.purge(keep_ms, stop)
        purged = 0
        while not stop.is_set() and (due := await self._database.read(lambda tx: tx.rows(_DUE, now - keep_ms))):
            purged += await self._purge_threads([key for (key,) in due], now, stop)
        return purged

    async def _purge_threads(self, keys: list[int], now: int, stop: asyncio.Event) -> int:
        """How many are gone. Several small threads go in one transaction, a long one in as many as it needs."""
        purged = 0
        while purged < len(keys) and not stop.is_set():
            portion = keys[purged : purged + THREADS_AT_ONCE]
            purged += await self._database.write(lambda tx, portion=portion: _purge_some(tx, portion, now))  # type: ignore[misc]
        return purged

    async def _purge_keys(self, now: int, stop: asyncio.Event) -> None:
        while not stop.is_set():
            removed = await self._database.write(lambda tx: tx.rows(_OLD_KEYS, now, ROWS_AT_ONCE))
            if len(removed) < ROWS_AT_ONCE:
                return


async def _purge_some(tx: Tx, keys: list[int], now: int) -> int:
    """How many of the threads, in their order, are gone."""
    rows = 0
    for number, key in enumerate(keys):
        last: int = (await tx.rows(_LAST, key))[0][0] or 0
        if number and rows + last > ROWS_AT_ONCE:
            return number
        rows += last
        await tx.rows(_TOMBSTONE, key, now)
        if not await _purge_thread(tx, key, last):
            return number
    return len(keys)


async def _purge_thread(tx: Tx, key: int, last: int) -> bool:
    """Whether all of it is gone. From the end: what is left is the beginning of a chain and can be verified."""
    for sql in (_DELTAS, _EVENTS):
        await tx.rows(sql, key, last - ROWS_AT_ONCE)
    if last > ROWS_AT_ONCE:
        return False
    for sql, most in _STEPS:
        if len(await tx.rows(sql, key, most)) >= most:
            return False
    await tx.rows(_THREAD, key)
    return True

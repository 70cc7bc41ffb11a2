"""Reads the log and the tables for the views. Every query carries the tenant; payloads are not parsed here."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from cachetools import LRUCache

from app.events.catalog.execution import CommandInjected
from app.events.envelope import Event
from app.store import job_lists, run_lists, run_series
from app.store.codec import decode
from app.store.engine import Database, LargeColumn, Row, Sql, Tx
from app.store.event_rows import DELTA, TIGHT, WIDE, RowPage, events_from, read_page
from app.store.project_lines import ANOTHER_RUNS, EARLIER_ON_THREAD
from app.store.run_lists import AT_WORK, RUN_COLUMNS, run_of
from app.views.artifact import Artifact
from app.views.interrupt import Interrupt
from app.views.ports import JobFilter, RunFilter, RunPlace, RunSeries, Tombstone
from app.views.run import Run
from app.views.thread import Thread
from app.views.transcript import Entry

MAX_KEYS: Final = 10_000
"""Keys of threads that are remembered."""
_NOTHING: Final = RowPage((), {})
_KEY: Final = Sql("SELECT key FROM threads WHERE tenant = $1 AND id = $2")
_EVENTS: Final = Sql(
    f"{{arm}}SELECT {WIDE} FROM events e WHERE e.thread_key = $1 AND e.seq > $2{{end}} UNION ALL "
    f"{{arm}}SELECT {TIGHT} FROM deltas d WHERE d.thread_key = $1 AND d.seq > $2{{end}} ORDER BY 1 LIMIT $3"
)
_OF_TYPES: Final = (
    f"SELECT {WIDE} FROM events e WHERE e.thread_key = $1 AND e.seq > $2 AND e.seq <= $3 AND e.type {{in:$4}}"
)
_EVENTS_OF: Final = Sql(f"{_OF_TYPES} ORDER BY e.seq LIMIT $5")
_EVENTS_AT: Final = Sql(f"SELECT {WIDE} FROM events e WHERE e.thread_key = $1 AND e.seq {{in:$2}} ORDER BY e.seq")
_EVENTS_AND_DELTAS_OF: Final = Sql(
    f"{{arm}}{_OF_TYPES}{{end}} UNION ALL {{arm}}SELECT {TIGHT} FROM deltas d WHERE d.thread_key = $1 AND d.seq > $2 "
    "AND d.seq <= $3{end} ORDER BY 1 LIMIT $5"
)
_RUN_SPAN: Final = Sql("SELECT thread_key, thread_id, first_seq, last_seq FROM runs WHERE tenant = $1 AND id = $2")
_RUN_EVENTS: Final = Sql(
    f"{{arm}}SELECT {WIDE} FROM events e WHERE e.thread_key = $1 AND e.seq > $2 AND e.seq <= $3 AND e.run_id = $4"
    f"{{end}} UNION ALL {{arm}}SELECT {TIGHT} FROM deltas d WHERE d.thread_key = $1 AND d.seq > $2 AND d.seq <= $3 AND "
    # Not a join: without statistics Postgres would compare each delta with every event of the thread.
    "(SELECT b.run_id FROM events b WHERE b.thread_key = d.thread_key AND b.seq = d.seq - d.back) = $4{end} "
    "ORDER BY 1 LIMIT $5"
)
_ONE_RUN: Final = Sql(
    f"SELECT {RUN_COLUMNS}, t.deleted_at FROM runs r JOIN threads t ON t.key = r.thread_key "
    "WHERE r.tenant = $1 AND r.id = $2"
)
_ACTIVE: Final = Sql(
    "SELECT r.tenant, r.id, r.thread_id, COALESCE(j.priority, 0) FROM runs r LEFT JOIN leases l "
    "ON l.tenant = r.tenant AND l.run_id = r.id LEFT JOIN jobs j ON j.tenant = r.tenant AND j.run_id = r.id "
    "JOIN threads t ON t.key = r.thread_key AND t.deleted_at IS NULL "
    f"WHERE {AT_WORK} "
    "AND (l.until IS NULL OR l.until <= {now}) AND (j.due_at IS NULL OR j.due_at <= {now}) "
    "AND r.parent_run_id IS NULL AND NOT EXISTS (SELECT 1 FROM runs p WHERE p.thread_key = r.thread_key "
    f"AND p.first_seq < r.first_seq AND {EARLIER_ON_THREAD}) "
    f"AND NOT (r.status = 'queued' AND {ANOTHER_RUNS}) "
    # In turn by tenant: who has many runs must not keep the others out of what is found at once. Not by the columns
    # themselves: Postgres would read every run there is, in the order of an index, to save the sort of these few.
    # Likewise by priority: who has much of one kind must find the other as well; the queue decides which goes first.
    "ORDER BY row_number() OVER (PARTITION BY r.tenant || '', COALESCE(j.priority, 0) ORDER BY r.created_at + 0), "
    "r.created_at + 0 LIMIT $1"
)
_COMMANDED: Final = Sql(
    "SELECT DISTINCT e.run_id FROM {pairs:$1,$2} JOIN threads t ON t.tenant = $3 AND t.id = v.second "
    "JOIN events e ON e.thread_key = t.key AND e.seq > v.first WHERE e.type = $4"
)
_OPEN_CHILDREN: Final = Sql(
    "SELECT r.id, r.parent_run_id FROM runs r JOIN threads t ON t.key = r.thread_key WHERE t.tenant = $1 AND t.id = $2 "
    "AND r.parent_run_id IS NOT NULL AND r.status IN ('queued', 'running', 'waiting') ORDER BY r.first_seq"
)
_THREAD: Final = Sql("SELECT last_seq, head_hash, updated_at, state FROM threads WHERE tenant = $1 AND id = $2")
_TOMBSTONE: Final = Sql("SELECT last_seq, head_hash, deleted_at FROM tombstones WHERE tenant = $1 AND thread_id = $2")
_THREADS: Final = Sql(
    "SELECT t.tenant, t.id, t.last_seq FROM threads t WHERE (t.tenant, t.id) > ($1, $2) "
    # A deleted thread with a tombstone is being purged: part of its log may be gone by now.
    "AND (t.deleted_at IS NULL OR NOT EXISTS (SELECT 1 FROM tombstones s WHERE s.tenant = t.tenant "
    "AND s.thread_id = t.id)) ORDER BY t.tenant, t.id LIMIT $3"
)
_THREADS_OF: Final = Sql(
    "SELECT id, last_seq, head_hash, updated_at, state FROM threads "
    "WHERE tenant = $1 AND id > $2 AND deleted_at IS NULL AND substr(id, 1, 4) <> 'sys_' ORDER BY id LIMIT $3"
)
_THREADS_BETWEEN: Final = Sql(
    "SELECT id, last_seq, head_hash, updated_at, state FROM threads "
    "WHERE tenant = $1 AND id > $2 AND id < $3 AND deleted_at IS NULL ORDER BY id LIMIT $4"
)
_MAX_KEY: Final = 2**63 - 1
_NEWEST_THREADS: Final = Sql(
    # A range, not `tenant = $1`: with that Postgres may follow the primary key through the threads of other tenants.
    "SELECT key, id, last_seq, head_hash, updated_at, state FROM threads WHERE tenant >= $1 "
    "AND (tenant, key) < ($1, $2) AND deleted_at IS NULL "
    "AND (CAST($3 AS INTEGER) = 1 OR substr(id, 1, 4) <> 'sys_') ORDER BY tenant DESC, key DESC LIMIT $4"
)
_INTERRUPTS: Final = Sql(
    "SELECT i.state FROM interrupts i JOIN threads t ON t.key = i.thread_key WHERE i.tenant = $1 "
    "AND (CAST($2 AS TEXT) IS NULL OR t.id = $2) AND (CAST($3 AS TEXT) IS NULL OR i.status = $3) "
    # Timers are answered by the clock alone, so no list of questions has them; their ids begin with tmr_.
    "AND t.deleted_at IS NULL AND i.id > $4 AND i.id < 'tmr' ORDER BY i.id LIMIT $5"
)
_INTERRUPTS_BEFORE: Final = Sql(
    "SELECT i.state FROM interrupts i JOIN threads t ON t.key = i.thread_key WHERE i.tenant = $1 AND i.id < $2 "
    "AND i.id < 'tmr' AND t.deleted_at IS NULL ORDER BY i.id DESC LIMIT $3"
)
_WANTED: Final = Sql(
    "SELECT i.state FROM interrupts i JOIN threads t ON t.key = i.thread_key WHERE t.tenant = $1 AND t.id = $2 "
    "AND i.id > 'dlv_' AND i.id < 'dlw' AND i.status = 'open' ORDER BY i.id"
)
_INTERRUPT: Final = Sql("SELECT state FROM interrupts WHERE tenant = $1 AND id = $2")
_INTERRUPTS_OF_CALLS: Final = Sql("SELECT state FROM interrupts WHERE tenant = $1 AND call_id {in:$2} ORDER BY id")
_OVERDUE: Final = Sql(
    "SELECT i.tenant, t.id, i.run_id, i.id FROM interrupts i JOIN threads t ON t.key = i.thread_key "
    "LEFT JOIN runs r ON r.tenant = i.tenant AND r.id = i.run_id "
    "WHERE i.status = 'open' AND (i.run_id IS NULL OR r.status = 'waiting') AND i.expires_at <= $1 "
    "ORDER BY i.expires_at LIMIT $2"
)
_OPEN_INTERRUPTS: Final = Sql(
    "SELECT i.state FROM interrupts i JOIN threads t ON t.key = i.thread_key "
    "LEFT JOIN runs r ON r.tenant = i.tenant AND r.id = i.run_id "
    "WHERE i.status = 'open' AND (i.run_id IS NULL OR r.status = 'waiting') AND t.deleted_at IS NULL LIMIT $1"
)
_ENTRIES: Final = Sql("SELECT state FROM transcript_entries WHERE thread_key = $1 ORDER BY position, message_id")
_ENTRY_PAGE: Final = Sql(
    "SELECT state FROM transcript_entries WHERE thread_key = $1 AND position > $2 "
    "ORDER BY position, message_id LIMIT $3"
)
_ROOTS: Final = Sql(
    "SELECT r.first_seq, r.last_seq FROM runs r WHERE r.thread_key = $1 AND r.first_seq < $2 "
    "AND r.parent_run_id IS NULL ORDER BY r.first_seq DESC LIMIT $3"
)
_ENTRY: Final = Sql("SELECT state FROM transcript_entries WHERE thread_key = $1 AND message_id = $2")
_ARTIFACTS: Final = Sql("SELECT state FROM artifacts WHERE thread_key = $1 ORDER BY seq")
_ARTIFACT: Final = Sql(
    "SELECT a.state FROM artifacts a JOIN threads t ON t.key = a.thread_key "
    "WHERE a.tenant = $1 AND a.id = $2 AND t.deleted_at IS NULL ORDER BY a.thread_key LIMIT 1"
)
_BLOB: Final = Sql(
    "SELECT b.mime, {content:b} FROM blobs b JOIN blob_refs f ON f.tenant = b.tenant AND f.sha256 = b.sha256 "
    "JOIN threads t ON t.key = f.thread_key WHERE b.tenant = $1 AND t.id = $2 AND b.sha256 = $3",
    content=LargeColumn("blobs", "data", 1),
)
_BLOB_SIZE: Final = Sql(
    "SELECT b.mime, b.size FROM blobs b JOIN blob_refs f ON f.tenant = b.tenant AND f.sha256 = b.sha256 "
    "JOIN threads t ON t.key = f.thread_key WHERE b.tenant = $1 AND t.id = $2 AND b.sha256 = $3"
)
_BLOB_PART: Final = Sql(
    "SELECT substr(b.data, $4, $5) FROM blobs b JOIN blob_refs f ON f.tenant = b.tenant AND f.sha256 = b.sha256 "
    "JOIN threads t ON t.key = f.thread_key WHERE b.tenant = $1 AND t.id = $2 AND b.sha256 = $3"
)


class StoreReader:
    def __init__(self, database: Database) -> None:
        self._database = database
        # A thread's key never changes, so it is asked for once.
        self._keys: LRUCache[tuple[str, str], int] = LRUCache(MAX_KEYS)

    async def events(self, tenant: str, thread_id: str, after: int, limit: int) -> list[Event]:
        async def work(tx: Tx) -> RowPage:
            key = await self._key(tx, tenant, thread_id)
            return _NOTHING if key is None else await read_page(tx, key, _EVENTS, after, limit)

        # Neither a thread's key nor a row ever changes, so the statements rarely need a common view of the database.
        page = await self._database.look(work)
        return events_from(tenant, thread_id, await self._database.read(work) if page.torn else page)

    async def events_of(
        self, tenant: str, thread_id: str, types: Sequence[str], after: int, up_to: int, limit: int
    ) -> list[Event]:
        sql = _EVENTS_AND_DELTAS_OF if DELTA in types else _EVENTS_OF

        async def work(tx: Tx) -> RowPage:
            key = await self._key(tx, tenant, thread_id)
            return _NOTHING if key is None else await read_page(tx, key, sql, after, up_to, list(types), limit)

        return events_from(tenant, thread_id, await self._database.read(work))

    async def events_at(self, tenant: str, thread_id: str, seqs: Sequence[int]) -> list[Event]:
        async def work(tx: Tx) -> RowPage:
            key = await self._key(tx, tenant, thread_id)
            return _NOTHING if key is None else await read_page(tx, key, _EVENTS_AT, list(seqs))

        return events_from(tenant, thread_id, await self._database.read(work))

    async def run_events(self, tenant: str, run_id: str, after: int, limit: int) -> list[Event]:
        async def work(tx: Tx) -> tuple[str, RowPage]:
            span = await tx.rows(_RUN_SPAN, tenant, run_id)
            if not span:
                return "", _NOTHING
            key, thread_id, first_seq, last_seq = span[0]
            start = max(after, first_seq - 1)
            return thread_id, await read_page(tx, key, _RUN_EVENTS, start, last_seq, run_id, limit)

        thread_id, page = await self._database.read(work)
        return events_from(tenant, thread_id, page)

    async def run(self, tenant: str, run_id: str) -> Run | None:
        rows = await self._database.look(lambda tx: tx.rows(_ONE_RUN, tenant, run_id))
        return run_of(rows[0]) if rows and rows[0][6] is None else None

    async def spent_since(self, tenant: str, since: int) -> tuple[int, float]:
        """The tokens and the cost of the tenant's runs that were created since then."""
        tokens, cost, before = 0, 0.0, None
        while page := await self.runs(tenant, before=before, limit=500):
            for run in page:
                if run.created_at < since:
                    return tokens, cost
                tokens += run.usage["inputTokens"] + run.usage["outputTokens"]
                cost += run.usage["costUsd"]
            before = page[-1].id
        return tokens, cost

    async def is_run_of_deleted_thread(self, tenant: str, run_id: str) -> bool:
        rows = await self._database.look(lambda tx: tx.rows(_ONE_RUN, tenant, run_id))
        return bool(rows) and rows[0][6] is not None

    async def runs(
        self,
        tenant: str,
        *,
        thread_id: str | None = None,
        status: str | None = None,
        before: str | None = None,
        limit: int = 100,
    ) -> list[Run]:
        filter_ = RunFilter(thread_id=thread_id, status=status)
        return await run_lists.runs_before(self._database, tenant, filter_, before, limit)

    async def open_children(self, tenant: str, thread_id: str, root_run_id: str) -> list[str]:
        """Runs of a run's subagents, at any depth, that have not ended."""
        rows = await self._database.look(lambda tx: tx.rows(_OPEN_CHILDREN, tenant, thread_id))
        family = {root_run_id}
        for run_id, parent in rows:
            family |= {run_id} if parent in family else set()  # a parent comes before its subagents
        return [row[0] for row in rows if row[0] in family]

    async def list_runs(
        self, tenant: str, filter_: RunFilter, after: RunPlace | None, limit: int
    ) -> tuple[list[Run], RunPlace | None]:
        return await run_lists.list_runs(self._database, tenant, filter_, after, limit)

    async def list_jobs(
        self, tenant: str, filter_: JobFilter, after: RunPlace | None, limit: int
    ) -> tuple[list[Run], RunPlace | None]:
        return await job_lists.list_jobs(self._database, tenant, filter_, after, limit)

    async def runs_without_an_owner(self, limit: int) -> list[tuple[str, str, str, bool]]:
        """(tenant, run, thread, whether it is background work) of runs that should be worked on, that nobody holds, and
        whose time has come."""
        rows = await self._database.look(lambda tx: tx.rows(_ACTIVE, limit))
        return [(row[0], row[1], row[2], row[3] == 1) for row in rows]

    async def runs_with_commands(self, tenant: str, threads: Sequence[tuple[int, str]]) -> list[str]:
        after, ids = [place[0] for place in threads], [place[1] for place in threads]
        command = CommandInjected.type
        rows = await self._database.look(lambda tx: tx.rows(_COMMANDED, after, ids, tenant, command))
        return [row[0] for row in rows if row[0] is not None]

    async def thread(self, tenant: str, thread_id: str) -> Thread | Tombstone | None:
        async def work(tx: Tx) -> Thread | Tombstone | None:
            found = await tx.rows(_THREAD, tenant, thread_id)
            if found:
                return _thread(thread_id, *found[0])
            for last_seq, head_hash, deleted_at in await tx.rows(_TOMBSTONE, tenant, thread_id):
                return Tombstone(thread_id, last_seq, bytes(head_hash).hex(), deleted_at)
            return None

        return await self._database.read(work)

    async def threads(self, after: tuple[str, str] = ("", ""), limit: int = 1000) -> list[tuple[str, str, int]]:
        """Every thread of every tenant, for operators: (tenant, id, last seq)."""
        rows = await self._database.look(lambda tx: tx.rows(_THREADS, *after, limit))
        return [(row[0], row[1], row[2]) for row in rows]

    async def threads_of(self, tenant: str, after: str, limit: int) -> list[Thread]:
        rows = await self._database.look(lambda tx: tx.rows(_THREADS_OF, tenant, after, limit))
        return [_thread(*row) for row in rows]

    async def threads_between(self, tenant: str, after: str, until: str, limit: int) -> list[Thread]:
        rows = await self._database.look(lambda tx: tx.rows(_THREADS_BETWEEN, tenant, after, until, limit))
        return [_thread(*row) for row in rows]

    async def newest_threads(
        self, tenant: str, *, before: int | None, system: bool, limit: int
    ) -> list[tuple[int, Thread]]:
        # A thread's key is given when it is created, so it orders by age; the times of threads may be equal.
        below = _MAX_KEY if before is None else before
        rows = await self._database.look(lambda tx: tx.rows(_NEWEST_THREADS, tenant, below, int(system), limit))
        return [(row[0], _thread(*row[1:])) for row in rows]

    async def interrupts(
        self,
        tenant: str,
        *,
        thread_id: str | None = None,
        status: str | None = None,
        after: str = "",
        limit: int = 1000,
    ) -> list[Interrupt]:
        rows = await self._database.look(lambda tx: tx.rows(_INTERRUPTS, tenant, thread_id, status, after, limit))
        return [decode(Interrupt, row[0]) for row in rows]

    async def run_series(self, tenant: str, since: int, step: int) -> RunSeries:
        return await run_series.run_series(self._database, tenant, since, step)

    async def interrupts_before(self, tenant: str, interrupt_id: str, limit: int) -> list[Interrupt]:
        rows = await self._database.look(lambda tx: tx.rows(_INTERRUPTS_BEFORE, tenant, interrupt_id, limit))
        return [decode(Interrupt, row[0]) for row in rows]

    async def interrupt(self, tenant: str, interrupt_id: str) -> Interrupt | None:
        rows = await self._database.look(lambda tx: tx.rows(_INTERRUPT, tenant, interrupt_id))
        return decode(Interrupt, rows[0][0]) if rows else None

    async def wanted_artifacts(self, tenant: str, thread_id: str) -> list[Interrupt]:
        rows = await self._database.look(lambda tx: tx.rows(_WANTED, tenant, thread_id))
        return [decode(Interrupt, row[0]) for row in rows]

    async def interrupts_of_calls(self, tenant: str, call_ids: Sequence[str]) -> list[Interrupt]:
        rows = await self._database.look(lambda tx: tx.rows(_INTERRUPTS_OF_CALLS, tenant, list(call_ids)))
        found = (decode(Interrupt, row[0]) for row in rows)
        return [interrupt for interrupt in found if interrupt.kind == "external"]

    async def overdue_interrupts(self, now: str, limit: int) -> list[tuple[str, str, str | None, str]]:
        """(tenant, thread, run, interrupt) that are open beyond their time."""
        rows = await self._database.look(lambda tx: tx.rows(_OVERDUE, now, limit))
        return [(row[0], row[1], row[2], row[3]) for row in rows]

    async def open_interrupts(self, limit: int) -> dict[str, int]:
        """How many of each kind wait for an answer, of all tenants, as far as the limit reaches."""
        rows = await self._database.look(lambda tx: tx.rows(_OPEN_INTERRUPTS, limit))
        return dict(Counter(decode(Interrupt, row[0]).kind for row in rows))

    async def transcript(self, tenant: str, thread_id: str) -> list[Entry]:
        rows = await self._database.read(lambda tx: self._of_thread(tx, _ENTRIES, tenant, thread_id))
        return [decode(Entry, row[0]) for row in rows]

    async def transcript_page(self, tenant: str, thread_id: str, after: int, limit: int) -> list[Entry]:
        async def work(tx: Tx) -> Sequence[Row]:
            key = await self._key(tx, tenant, thread_id)
            return [] if key is None else await tx.rows(_ENTRY_PAGE, key, after, limit)

        return [decode(Entry, row[0]) for row in await self._database.look(work)]

    async def root_runs(self, tenant: str, thread_id: str, before: int, limit: int) -> list[tuple[int, int]]:
        async def work(tx: Tx) -> Sequence[Row]:
            key = await self._key(tx, tenant, thread_id)
            return [] if key is None else await tx.rows(_ROOTS, key, before, limit)

        return [(row[0], row[1]) for row in await self._database.look(work)]

    async def entry(self, tenant: str, thread_id: str, message_id: str) -> Entry | None:
        async def work(tx: Tx) -> Sequence[Row]:
            key = await self._key(tx, tenant, thread_id)
            return [] if key is None else await tx.rows(_ENTRY, key, message_id)

        rows = await self._database.read(work)
        return decode(Entry, rows[0][0]) if rows else None

    async def artifacts(self, tenant: str, thread_id: str) -> list[Artifact]:
        rows = await self._database.read(lambda tx: self._of_thread(tx, _ARTIFACTS, tenant, thread_id))
        return [decode(Artifact, row[0]) for row in rows]

    async def artifact(self, tenant: str, artifact_id: str) -> Artifact | None:
        rows = await self._database.look(lambda tx: tx.rows(_ARTIFACT, tenant, artifact_id))
        return decode(Artifact, rows[0][0]) if rows else None

    async def blob(self, tenant: str, thread_id: str, sha256: str) -> tuple[str, bytes] | None:
        """(mime, data) if one of the thread's events refers to it."""
        rows = await self._database.look(lambda tx: tx.rows(_BLOB, tenant, thread_id, sha256))
        return (rows[0][0], bytes(rows[0][1])) if rows else None

    async def blob_size(self, tenant: str, thread_id: str, sha256: str) -> tuple[str, int] | None:
        """(mime, size) if one of the thread's events refers to it."""
        rows = await self._database.look(lambda tx: tx.rows(_BLOB_SIZE, tenant, thread_id, sha256))
        return (rows[0][0], rows[0][1]) if rows else None

    async def blob_part(self, tenant: str, thread_id: str, sha256: str, start: int, end: int) -> bytes:
        """From a position until before another; the rest does not leave the database."""
        part = (start + 1, end - start)  # the database counts from one
        rows = await self._database.look(lambda tx: tx.rows(_BLOB_PART, tenant, thread_id, sha256, *part))
        return bytes(rows[0][0]) if rows else b""

    async def _of_thread(self, tx: Tx, sql: Sql, tenant: str, thread_id: str) -> Sequence[Row]:
        key = await self._key(tx, tenant, thread_id)
        return [] if key is None else await tx.rows(sql, key)

    async def _key(self, tx: Tx, tenant: str, thread_id: str) -> int | None:
        known = self._keys.get((tenant, thread_id))
        if known is None:
            for (found,) in await tx.rows(_KEY, tenant, thread_id):
                known = self._keys[tenant, thread_id] = found
        return known


def _thread(id: str, last_seq: int, head_hash: bytes, updated_at: int, state: bytes) -> Thread:
    return decode(Thread, state, id=id, last_seq=last_seq, head_hash=head_hash.hex(), updated_at=updated_at)

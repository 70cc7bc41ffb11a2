"""Says whether the tables hold exactly what folding the log gives: every record of every thread, column by column;
and whether every event is what its schema says, however it was built, and can be shown as a valid UI event.

For the end of any test that has written to a store. Reads a thread in one transaction, so it may be asked while
others write. Leaves the chain itself to `app.events.chain`.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, Protocol

from app.core.schemas import SchemaRegistry
from app.events.catalog import schema_id
from app.events.envelope import Event
from app.store.codec import decode
from app.store.engine import Database, Row, Sql, Tx
from app.store.event_rows import TIGHT, WIDE, events_from, read_page
from app.store.job_lists import job_row
from app.store.run_lists import label_rows
from app.views.artifact import Artifact
from app.views.interrupt import Interrupt
from app.views.memory_record import MemoryRecord
from app.views.records import Records, replay
from app.views.run import Run
from app.views.thread import Thread
from app.views.transcript import Entry
from tests.ui_events import assert_thread_is_valid

_SCHEMAS: Final = SchemaRegistry()
_PLACES: Final = Sql(
    "SELECT tenant, id FROM threads WHERE (tenant, id) > ($1, $2) ORDER BY tenant, id LIMIT 500",
)
_THREAD: Final = Sql(
    "SELECT key, last_seq, head_hash, updated_at, created_at, deleted_at, state FROM threads "
    "WHERE tenant = $1 AND id = $2"
)
_EVENTS: Final = Sql(
    f"SELECT {WIDE} FROM events e WHERE e.thread_key = $1 UNION ALL "
    f"SELECT {TIGHT} FROM deltas d WHERE d.thread_key = $1 ORDER BY 1"
)
_RUNS: Final = Sql(
    "SELECT tenant, id, thread_id, agent, status, parent_run_id, created_at, first_seq, last_seq, run_seq, state "
    "FROM runs WHERE thread_key = $1"
)
_LABELS: Final = Sql(
    "SELECT tenant, name, value, created_at, run_id, thread_key FROM run_labels WHERE thread_key = $1",
)
_JOBS: Final = Sql(
    "SELECT tenant, run_id, thread_key, status, type, priority, project_id, session_id, due_at, delayed, key, "
    "created_at, serial, started_at FROM jobs WHERE thread_key = $1"
)
_INTERRUPTS: Final = Sql(
    "SELECT tenant, id, run_id, status, expires_at, state FROM interrupts WHERE thread_key = $1",
)
_ENTRIES: Final = Sql("SELECT message_id, position, state FROM transcript_entries WHERE thread_key = $1")
_ARTIFACTS: Final = Sql("SELECT tenant, id, run_id, seq, state FROM artifacts WHERE thread_key = $1")
_MEMORIES: Final = Sql(
    "SELECT tenant, id, seq, namespace, kind, status, person, expires_at, state FROM memory_records "
    "WHERE thread_key = $1"
)


class HasDatabase(Protocol):
    """An open store, or whatever else has a database."""

    @property
    def database(self) -> Database: ...


async def assert_tables_equal_replay(store: HasDatabase, threads: Iterable[tuple[str, str]] | None = None) -> None:
    """Every thread, or only the given (tenant, id)."""
    for tenant, thread_id in await _places(store.database) if threads is None else threads:
        # Only what runs recorded can be shown: a thread that a test names may have been made up.
        folded, stored = await _both(store.database, tenant, thread_id, shown=threads is None)
        where = f"thread {thread_id} of {tenant}"
        assert stored.thread == folded.thread, where
        # Equality of dicts forgets the order, and the order of active runs is their queue.
        assert list(stored.thread.active) == list(folded.thread.active), where
        assert stored.runs == folded.runs, where
        assert stored.interrupts == folded.interrupts, where
        assert stored.entries == folded.entries, where
        assert stored.artifacts == folded.artifacts, where
        assert stored.memories == folded.memories, where


async def events_of(database: Database, tenant: str, thread_id: str) -> list[Event]:
    """The whole thread in one transaction; none if there is no such thread."""

    async def work(tx: Tx) -> list[Event]:
        found = await tx.rows(_THREAD, tenant, thread_id)
        return events_from(tenant, thread_id, await read_page(tx, found[0][0], _EVENTS)) if found else []

    return await database.read(work)


async def _places(database: Database) -> list[tuple[str, str]]:
    places: list[tuple[str, str]] = [("", "")]
    while page := await database.read(partial(_page, after=places[-1])):
        places += [(row[0], row[1]) for row in page]
    return places[1:]


async def _page(tx: Tx, after: tuple[str, str]) -> Sequence[Row]:
    return await tx.rows(_PLACES, *after)


async def _both(database: Database, tenant: str, thread_id: str, *, shown: bool) -> tuple[Records, Records]:
    async def work(tx: Tx) -> tuple[Records, Records]:
        (thread,) = await tx.rows(_THREAD, tenant, thread_id)
        key, last_seq, head_hash, updated_at, created_at, deleted_at, state = thread
        stored = Records(
            decode(Thread, state, id=thread_id, last_seq=last_seq, head_hash=bytes(head_hash).hex(),
                   updated_at=updated_at)
        )  # fmt: skip
        assert (created_at, deleted_at) == (stored.thread.created_at, stored.thread.deleted_at)
        _take_runs(stored, tenant, await tx.rows(_RUNS, key))
        assert {tuple(row) for row in await tx.rows(_LABELS, key)} == _expected_labels(stored, tenant, key)
        jobs = {tuple(job_row(tenant, key, run)) for run in stored.runs.values() if run.job is not None}
        assert {tuple(row) for row in await tx.rows(_JOBS, key)} == jobs
        for of_tenant, id, run_id, status, expires_at, state in await tx.rows(_INTERRUPTS, key):
            it = stored.interrupts[id] = decode(Interrupt, state)
            assert (of_tenant, run_id, status, expires_at) == (tenant, it.run_id, it.status, it.expires_at)
        for id, position, state in await tx.rows(_ENTRIES, key):
            entry = stored.entries[id] = decode(Entry, state)
            assert (id, position) == (entry.message_id, entry.position)
        for of_tenant, id, run_id, seq, state in await tx.rows(_ARTIFACTS, key):
            artifact = stored.artifacts[id] = decode(Artifact, state)
            assert (of_tenant, run_id, seq) == (tenant, artifact.run_id, artifact.seq)
        for row in await tx.rows(_MEMORIES, key):
            it_is = stored.memories[row[1]] = decode(MemoryRecord, row[8])
            columns = (it_is.seq, it_is.namespace, it_is.kind, it_is.status, it_is.user, it_is.expires_at)
            assert (tenant, *columns) == (row[0], *row[2:8])
        events = events_from(tenant, thread_id, await read_page(tx, key, _EVENTS))
        for event in events:
            if b'"$blob"' not in event.payload_bytes:  # where a value was, its reference stands
                assert not _SCHEMAS.validate(schema_id(event.type), event.payload), event
        if shown and events and events[0].seq == 1:
            assert_thread_is_valid(events)
        return replay(thread_id, events), stored

    return await database.read(work)


def _take_runs(stored: Records, tenant: str, rows: Sequence[Row]) -> None:
    for row in rows:
        of_tenant, id, thread_id, agent, status, parent, created_at, first_seq, last_seq, run_seq, state = row
        run = decode(Run, state, id=id, thread_id=thread_id, first_seq=first_seq, last_seq=last_seq, run_seq=run_seq)
        assert (of_tenant, thread_id) == (tenant, stored.thread.id)
        assert (agent, status, parent, created_at) == (run.agent, run.status, run.parent_run_id, run.created_at)
        stored.runs[id] = run


def _expected_labels(stored: Records, tenant: str, key: int) -> set[tuple[object, ...]]:
    return {tuple(row) for run in stored.runs.values() for row in label_rows(tenant, key, run)}

"""Writes what a batch decided into the tables, in the append transaction.

The log's fold happens in memory before it; nothing here knows what an event means. Leaves to `heads`: loading.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

from app.events import ports
from app.events.envelope import Event
from app.events.ports import Command
from app.store.codec import encode
from app.store.decide import ONLY_ASKS, ThreadHead
from app.store.engine import BLOB_DATA, Row, Sql, Tx
from app.store.event_rows import add_rows, drop_rows, fromhex
from app.store.job_lists import PUT_JOB, job_row
from app.store.keys import PUT_KEY, REVOKE_KEY, key_row
from app.store.mcp_grants import store_grant
from app.store.memory_index import PUT_CITATION, IndexChanges
from app.store.push_configs import store_push
from app.store.run_lists import label_rows
from app.store.schedules import store_schedule
from app.store.webhooks import store_webhook
from app.views.judgement import RunJudgement
from app.views.memory_record import MemoryRecord
from app.views.run import Run

_NEW_THREAD: Final = Sql(
    "INSERT INTO threads (tenant, id, last_seq, head_hash, updated_at, created_at, deleted_at, state) "
    "VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING tenant, id, key",
    bulk="INSERT INTO threads (tenant, id, last_seq, head_hash, updated_at, created_at, deleted_at, state) "
    "SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bytea[], $5::bigint[], $6::bigint[], "
    "$7::bigint[], $8::bytea[]) RETURNING tenant, id, key",
)
_CHANGE_THREAD: Final = Sql(
    "UPDATE threads SET last_seq = $2, head_hash = $3, updated_at = $4, deleted_at = $5, state = $6 WHERE key = $1",
    sqlite_bulk="UPDATE OR FAIL threads SET last_seq = v.column2, head_hash = v.column3, updated_at = v.column4, "
    "deleted_at = v.column5, state = v.column6 FROM (VALUES {rows}) AS v WHERE key = v.column1",
    bulk="UPDATE threads t SET last_seq = v.last_seq, head_hash = v.head_hash, updated_at = v.updated_at, "
    "deleted_at = v.deleted_at, state = v.state FROM unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::bigint[], "
    "$5::bigint[], $6::bytea[]) AS v(key, last_seq, head_hash, updated_at, deleted_at, state) WHERE t.key = v.key",
)
_RUN_COLUMNS: Final = (
    "tenant, id, thread_key, thread_id, agent, status, parent_run_id, created_at, first_seq, last_seq, run_seq, state"
)
_NEW_RUN: Final = Sql(
    f"INSERT INTO runs ({_RUN_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
    bulk=f"INSERT INTO runs ({_RUN_COLUMNS}) SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], "
    "$5::text[], $6::text[], $7::text[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bytea[])",
)
_CHANGE_RUN: Final = Sql(
    "UPDATE runs SET status = $3, last_seq = $4, run_seq = $5, state = $6 WHERE thread_key = $1 AND first_seq = $2",
    sqlite_bulk="UPDATE OR FAIL runs SET status = v.column3, last_seq = v.column4, run_seq = v.column5, "
    "state = v.column6 FROM (VALUES {rows}) AS v WHERE thread_key = v.column1 AND first_seq = v.column2",
    bulk="UPDATE runs r SET status = v.status, last_seq = v.last_seq, run_seq = v.run_seq, state = v.state FROM "
    "unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::bytea[]) AS "
    "v(thread_key, first_seq, status, last_seq, run_seq, state) "
    "WHERE r.thread_key = v.thread_key AND r.first_seq = v.first_seq",
)
_PUT_LABEL: Final = Sql(
    "INSERT INTO run_labels (tenant, name, value, created_at, run_id, thread_key) VALUES ($1, $2, $3, $4, $5, $6) "
    "ON CONFLICT (tenant, name, value, created_at, run_id) DO NOTHING"
)
_PUT_INTERRUPT: Final = Sql(
    "INSERT INTO interrupts (tenant, id, thread_key, run_id, status, expires_at, state, call_id) "
    "VALUES ($1, $2, $3, $4, $5, $6, $7, $8) "
    "ON CONFLICT (thread_key, id) DO UPDATE SET status = excluded.status, state = excluded.state"
)
_PUT_ENTRY: Final = Sql(
    "INSERT INTO transcript_entries (thread_key, message_id, position, state) VALUES ($1, $2, $3, $4) "
    "ON CONFLICT (thread_key, message_id) DO UPDATE SET state = excluded.state"
)
_PUT_ARTIFACT: Final = Sql(
    "INSERT INTO artifacts (tenant, id, thread_key, run_id, seq, state) VALUES ($1, $2, $3, $4, $5, $6) "
    "ON CONFLICT (thread_key, id) DO NOTHING"
)
_PUT_JUDGEMENT: Final = Sql(
    "INSERT INTO judgements (tenant, id, thread_key, run_id, source, name, mode, at, score, passed, state) "
    "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT (thread_key, id) DO NOTHING"
)
_EVALUATION_DUE: Final = Sql(
    "INSERT INTO due_evaluations (tenant, run_id, thread_id, until, tries) VALUES ($1, $2, $3, 0, 0) "
    "ON CONFLICT (tenant, run_id) DO NOTHING"
)
_EVALUATION_DONE: Final = Sql("DELETE FROM due_evaluations WHERE tenant = $1 AND run_id = $2")
# No word on a conflict: another replica that stored the key meanwhile must make this batch be decided again.
_PUT_KEY: Final = Sql(
    "INSERT INTO idempotency_keys (tenant, route, key, body_hash, run_id, expires_at) VALUES ($1, $2, $3, $4, $5, $6)",
    bulk="INSERT INTO idempotency_keys (tenant, route, key, body_hash, run_id, expires_at) SELECT * FROM "
    "unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[])",
)
_PUT_BLOB: Final = Sql(
    "INSERT INTO blobs (tenant, sha256, size, mime, data) VALUES ($1, $2, $3, $4, $5) "
    "ON CONFLICT (tenant, sha256) DO NOTHING",
    content=BLOB_DATA,
)
_PUT_BLOB_REF: Final = Sql(
    "INSERT INTO blob_refs (tenant, sha256, thread_key) VALUES ($1, $2, $3) "
    "ON CONFLICT (tenant, sha256, thread_key) DO NOTHING"
)
_PUT_MEMORY: Final = Sql(
    "INSERT INTO memory_records (tenant, id, thread_key, seq, namespace, kind, status, person, expires_at, state, "
    "touched_at, confidence) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) "
    "ON CONFLICT (thread_key, id) DO UPDATE SET status = excluded.status, expires_at = excluded.expires_at, "
    "state = excluded.state, touched_at = excluded.touched_at, confidence = excluded.confidence"
)
_CLAIM: Final = Sql(
    "INSERT INTO leases (tenant, run_id, owner, epoch, until, suspect, deaths, previous) "
    "VALUES ($1, $2, $3, $4, {now} + $5, $6, $7, $8) ON CONFLICT (tenant, run_id) DO UPDATE SET "
    "owner = excluded.owner, epoch = excluded.epoch, until = excluded.until, suspect = excluded.suspect, "
    "deaths = excluded.deaths, previous = excluded.previous"
)
_RELEASE: Final = Sql(
    "UPDATE leases SET until = 0 WHERE tenant = $1 AND run_id = $2",
    sqlite_bulk="UPDATE OR FAIL leases SET until = 0 FROM (VALUES {rows}) AS v "
    "WHERE tenant = v.column1 AND run_id = v.column2",
)

_GAVE_BACK: Final = frozenset({"queued", "waiting"})
"""Of a run that was claimed before: it waits for an answer, or, with one, for its next turn."""

_WITHOUT_ROWS: Final = ONLY_ASKS | {ports.ClaimRun}
"""Conditions of every run that store nothing outside the fold."""

Accepted: TypeAlias = tuple[ThreadHead, Command, Sequence[Event]]


async def write(tx: Tx, accepted: Sequence[Accepted], heads: Iterable[ThreadHead]) -> None:
    """The whole batch: threads first, because their keys are in everything else."""
    changed = [head for head in heads if head.moved]
    moved_threads = await _write_threads(tx, changed)
    events: list[Row] = []
    deltas: list[Row] = []
    begins: dict[int, int] = {}
    """By the thread's row: the first `seq` of the batch."""
    for head, _, placed in accepted:
        assert head.key is not None, "threads are written first"
        add_rows(head.key, placed, head.bases, events, deltas)
        if placed:
            begins.setdefault(head.key, placed[0].seq)
    moved_runs: list[Row] = []
    changed_runs: list[tuple[ThreadHead, Run, bool]] = []
    """With whether they begin with this batch."""
    labels: list[Row] = []
    siblings_moved = False
    for head in changed:
        runs = head.records.runs
        for run_id, beyond_counters in head.touched_runs.items():
            run = runs[run_id]
            if beyond_counters:
                assert head.key is not None, "threads are written first"
                new = run.first_seq >= begins[head.key]
                changed_runs.append((head, run, new))
                if new and run.labels:
                    labels += label_rows(head.tenant, head.key, run)  # a run has its labels from its first event on
            else:
                moved_runs.append((head.key, run.first_seq, run.last_seq, run.run_seq))
        siblings_moved = siblings_moved or bool(head.moves)
    await tx.append(events, deltas, moved_threads, moved_runs)
    if changed_runs:
        await _write_runs(tx, changed_runs)
    if labels:
        await tx.many(_PUT_LABEL, labels)
    if siblings_moved:
        await _write_moved(tx, changed)
    await _write_outside_the_fold(tx, accepted)


async def _write_threads(tx: Tx, heads: Sequence[ThreadHead]) -> list[Row]:
    """Writes new and changed threads; returns those of which only the counters moved."""
    moved: list[Row] = []
    changed: list[Row] = []
    created: list[Row] = []
    unkeyed: dict[tuple[str, str], ThreadHead] = {}
    for head in heads:
        it = head.records.thread
        counters = (it.last_seq, fromhex(it.head_hash), it.updated_at)
        if head.key is None:
            created.append((head.tenant, it.id, *counters, it.created_at, it.deleted_at, encode(it)))
            unkeyed[head.tenant, it.id] = head
        elif head.state_dirty:
            changed.append((head.key, *counters, it.deleted_at, encode(it)))
        else:
            moved.append((head.key, *counters))
    if created:
        for tenant, thread_id, key in await tx.returning(_NEW_THREAD, created):
            unkeyed[tenant, thread_id].key = key
    if changed:
        await tx.many(_CHANGE_THREAD, changed)
    return moved


async def _write_runs(tx: Tx, runs: Iterable[tuple[ThreadHead, Run, bool]]) -> None:
    created: list[Row] = []
    changed: list[Row] = []
    claims: list[Row] = []
    released: list[Row] = []
    jobs: list[Row] = []
    for head, run, new in runs:
        if run.job is not None:
            jobs.append(job_row(head.tenant, head.key, run))
        counters = (run.last_seq, run.run_seq, encode(run))
        if new:
            of_thread = (head.tenant, run.id, head.key, run.thread_id)
            kept = (run.agent, run.status, run.parent_run_id, run.created_at, run.first_seq)
            created.append((*of_thread, *kept, *counters))
        else:
            changed.append((head.key, run.first_seq, run.status, *counters))
        claim = head.claims.get(run.id)
        if claim is not None and run.status == "running":
            claims.append(
                (
                    head.tenant,
                    run.id,
                    claim.owner,
                    claim.epoch,
                    round(claim.seconds * 1000),
                    claim.suspect,
                    claim.deaths,
                    claim.previous,
                )
            )
        elif run.epoch and run.status in _GAVE_BACK:
            # It holds no worker: its lease goes with the event that says so. That of a run that has ended may stay,
            # because leases are asked for only of runs that have not: one row less in the last commit of every run.
            released.append((head.tenant, run.id))
    for sql, rows in (
        (_NEW_RUN, created),
        (_CHANGE_RUN, changed),
        (PUT_JOB, jobs),
        (_CLAIM, claims),
        (_RELEASE, released),
    ):
        if rows:
            await tx.many(sql, rows)


async def _write_moved(tx: Tx, heads: Sequence[ThreadHead]) -> None:
    interrupts: list[Row] = []
    entries: list[Row] = []
    artifacts: list[Row] = []
    judgements: list[Row] = []
    memories: list[Row] = []
    for head in heads:
        records = head.records
        for kind, key in head.moves:
            if kind == "entry":
                entry = records.entries[key]
                entries.append((head.key, key, entry.position, encode(entry)))
            elif kind == "interrupt":
                it = records.interrupts[key]
                interrupts.append(
                    (head.tenant, key, head.key, it.run_id, it.status, it.expires_at, encode(it), it.call_id)
                )
            elif kind == "judgement":
                judgements.append(judgement_row(head.tenant, head.key, records.judgements[key]))
            elif kind == "memory":
                memories.append(_memory_row(head, records.memories[key]))
            else:
                artifact = records.artifacts[key]
                artifacts.append((head.tenant, key, head.key, artifact.run_id, artifact.seq, encode(artifact)))
    written = (
        (_PUT_INTERRUPT, interrupts),
        (_PUT_ENTRY, entries),
        (_PUT_ARTIFACT, artifacts),
        (_PUT_JUDGEMENT, judgements),
        (_PUT_MEMORY, memories),
    )
    for sql, rows in written:
        if rows:
            await tx.many(sql, rows)


def judgement_row(tenant: str, thread_key: int | None, it: RunJudgement) -> Row:
    passed = None if it.passed is None else int(it.passed)
    of_run = (tenant, it.id, thread_key, it.run_id, it.source, it.name, it.mode, it.at)
    return (*of_run, it.score, passed, encode(it))


def _memory_row(head: ThreadHead, it: MemoryRecord) -> Row:
    row = (head.tenant, it.id, head.key, it.seq, it.namespace, it.kind, it.status, it.user, it.expires_at)
    return (*row, encode(it), it.touched_at, it.confidence)


async def _write_outside_the_fold(tx: Tx, accepted: Sequence[Accepted]) -> None:
    """What the conditions of the commands store, and the blobs of their events."""
    written: defaultdict[Sql, list[Any]] = defaultdict(list)
    index = IndexChanges(tx)
    for head, command, _ in accepted:
        tenant = command.tenant
        for it in command.conditions:
            if type(it) in _WITHOUT_ROWS:
                continue
            if isinstance(it, ports.DropDeltas):
                assert head.key is not None, "a thread with deltas has a row"
                await drop_rows(tx, head.key, it.ranges)
            elif isinstance(it, ports.KeyUnused):
                written[_PUT_KEY].append((tenant, it.route, it.key, it.body_hash, it.run_id, it.expires_at))
            elif isinstance(it, ports.ApiKeyStored):
                written[PUT_KEY].append(key_row(it.key))
            elif isinstance(it, ports.ApiKeyRevoked):
                written[REVOKE_KEY].append((tenant, it.key_id, it.at))
            elif isinstance(it, ports.EvaluationDue):
                written[_EVALUATION_DUE].append((tenant, it.run_id, command.thread_id))
            elif isinstance(it, ports.EvaluationDone):
                written[_EVALUATION_DONE].append((tenant, it.run_id))
            elif isinstance(it, ports.WebhookStored):
                await store_webhook(tx, tenant, it)
            elif isinstance(it, ports.PushStored):
                await store_push(tx, tenant, it)
            elif isinstance(it, ports.McpGrantStored):
                await store_grant(tx, tenant, it)
            elif isinstance(it, ports.ScheduleStored):
                await store_schedule(tx, tenant, it)
            elif isinstance(it, ports.BlobShared):
                written[_PUT_BLOB_REF].append((tenant, it.sha256, head.key))
            elif isinstance(it, ports.MemoryIndexed):
                index.add(head, it)
            elif isinstance(it, ports.MemoryUnindexed):
                await index.remove(head, it)
        for draft in command.drafts:
            for blob in draft.blobs:
                written[_PUT_BLOB].append((tenant, blob.sha256, len(blob.data), blob.mime, blob.data))
                written[_PUT_BLOB_REF].append((tenant, blob.sha256, head.key))
                for record_id in blob.records:
                    written[PUT_CITATION].append((tenant, record_id, blob.sha256))
    await index.write()
    if _PUT_KEY in written:
        # In one order everywhere, so that replicas with the same keys wait for each other instead of locking up.
        written[_PUT_KEY].sort()
    for sql in (
        _PUT_KEY,
        PUT_KEY,
        REVOKE_KEY,
        _EVALUATION_DUE,
        _EVALUATION_DONE,
        _PUT_BLOB,
        _PUT_BLOB_REF,
        PUT_CITATION,
    ):
        if sql in written:
            await tx.many(sql, written[sql])

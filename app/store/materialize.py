"""Loads the records that a batch needs and writes what it decided, in the append transaction.

The log's fold happens in memory between the two; nothing here knows what an event means.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from app.events import ports
from app.events.envelope import Event
from app.events.ports import Command
from app.store.codec import decode, encode
from app.store.decide import Head, Key
from app.store.engine import Row, Sql, Tx
from app.store.keys import LIVING_KEYS, PUT_KEY, REVOKE_KEY, key_row
from app.store.run_lists import label_rows
from app.views.artifact import Artifact
from app.views.interrupt import Interrupt
from app.views.records import Kind, Records, touched
from app.views.run import Run
from app.views.thread import Thread
from app.views.transcript import Entry

_LOCKED: Final = Sql("SELECT id, key, last_seq FROM threads WHERE tenant = $1 AND id {in:$2} ORDER BY id {lock}")
_LOCKED_ONE: Final = Sql("SELECT id, key, last_seq FROM threads WHERE tenant = $1 AND id = $2 {lock}")
_THREADS: Final = Sql("SELECT id, key, last_seq, head_hash, updated_at, state FROM threads WHERE key {in:$1}")
_TOMBSTONES: Final = Sql("SELECT thread_id FROM tombstones WHERE tenant = $1 AND thread_id {in:$2}")
_RUNS: Final = Sql(
    "SELECT id, thread_id, first_seq, last_seq, run_seq, state FROM runs WHERE tenant = $1 AND id {in:$2}"
)
_LEASES: Final = Sql("SELECT run_id, owner FROM leases WHERE tenant = $1 AND run_id {in:$2} AND until > {now}")
_BESIDE: Final[dict[Kind, Sql]] = {
    "interrupt": Sql("SELECT r.thread_key, r.id, r.state FROM {pairs:$1,$2} JOIN interrupts r "
                     "ON r.thread_key = v.first AND r.id = v.second"),
    "entry": Sql("SELECT r.thread_key, r.message_id, r.state FROM {pairs:$1,$2} JOIN transcript_entries r "
                 "ON r.thread_key = v.first AND r.message_id = v.second"),
    "artifact": Sql("SELECT r.thread_key, r.id, r.state FROM {pairs:$1,$2} JOIN artifacts r "
                    "ON r.thread_key = v.first AND r.id = v.second"),
}  # fmt: skip
_KEYS: Final = Sql(
    "SELECT key, body_hash, run_id, expires_at FROM idempotency_keys WHERE tenant = $1 AND route = $2 AND key {in:$3}"
)
_EXPIRED_KEY: Final = Sql("DELETE FROM idempotency_keys WHERE tenant = $1 AND route = $2 AND key = $3")

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
_RUN_CHANGE: Final = (
    "ON CONFLICT (tenant, id) DO UPDATE SET status = excluded.status, last_seq = excluded.last_seq, "
    "run_seq = excluded.run_seq, state = excluded.state"
)
_CHANGE_RUN: Final = Sql(
    f"INSERT INTO runs ({_RUN_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) {_RUN_CHANGE}",
    bulk=f"INSERT INTO runs ({_RUN_COLUMNS}) SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], "
    "$5::text[], $6::text[], $7::text[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bytea[]) "
    f"{_RUN_CHANGE}",
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
# No word on a conflict: another replica that stored the key meanwhile must make this batch be decided again.
_PUT_KEY: Final = Sql(
    "INSERT INTO idempotency_keys (tenant, route, key, body_hash, run_id, expires_at) VALUES ($1, $2, $3, $4, $5, $6)",
    bulk="INSERT INTO idempotency_keys (tenant, route, key, body_hash, run_id, expires_at) SELECT * FROM "
    "unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[])",
)
_PUT_BLOB: Final = Sql(
    "INSERT INTO blobs (tenant, sha256, size, mime, data) VALUES ($1, $2, $3, $4, $5) "
    "ON CONFLICT (tenant, sha256) DO NOTHING"
)
_PUT_BLOB_REF: Final = Sql(
    "INSERT INTO blob_refs (tenant, sha256, thread_key) VALUES ($1, $2, $3) "
    "ON CONFLICT (tenant, sha256, thread_key) DO NOTHING"
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

_OF_A_RUN: Final = (ports.RunNotTerminal, ports.RunUnclaimed, ports.CommandsSeen, ports.ClaimRun)
fromhex: Final = bytes.fromhex


_Wanted: TypeAlias = defaultdict[str, dict[str, Head]]
"""By tenant: the name of a record and the head that wants it."""
_Beside: TypeAlias = dict[Kind, dict[tuple[int, str], Head]]
"""By thread and name: the head that wants it."""
Accepted: TypeAlias = tuple[Head, Command, Sequence[Event]]


@dataclass(slots=True)
class Needs:
    """What the commands of a batch will look at, by tenant or thread."""

    threads: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    keys: defaultdict[tuple[str, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    """By tenant and route."""

    @classmethod
    def of(cls, commands: Iterable[Command]) -> "Needs":
        needs = cls()
        for command in commands:
            needs.threads[command.tenant].add(command.thread_id)
            for condition in command.conditions:
                if isinstance(condition, ports.KeyUnused):
                    needs.keys[command.tenant, condition.route].add(condition.key)
        return needs


async def load_heads(
    tx: Tx, needs: Needs, hot: dict[tuple[str, str], Head], disturbed: int | None = None
) -> dict[tuple[str, str], Head]:
    """Lock the threads of the batch and bring each head up to its row; a head in memory is used if its `seq` fits.

    Nor is that asked of one that was seen since `disturbed`, the last turn before which somebody else wrote.
    """
    heads: dict[tuple[str, str], Head] = {}
    for tenant in sorted(needs.threads):
        wanted = needs.threads[tenant]
        if disturbed is not None:
            for thread_id in wanted:
                known = hot.get((tenant, thread_id))
                if known is not None and known.seen >= disturbed:
                    heads[tenant, thread_id] = known
            wanted = {thread_id for thread_id in wanted if (tenant, thread_id) not in heads}
            if not wanted:
                continue
        cold: list[int] = []
        for thread_id, key, last_seq in await _lock(tx, tenant, wanted):
            head = hot.get((tenant, thread_id))
            if head is not None and head.records.thread.last_seq == last_seq:
                heads[tenant, thread_id] = head
            else:
                cold.append(key)
        for row in await tx.rows(_THREADS, cold) if cold else ():
            thread_id, key, last_seq, head_hash, updated_at, state = row
            thread = decode(Thread, state, id=thread_id, last_seq=last_seq, head_hash=head_hash.hex(),
                            updated_at=updated_at)  # fmt: skip
            heads[tenant, thread_id] = Head(tenant, Records(thread), key)
        unborn = sorted(thread_id for thread_id in wanted if (tenant, thread_id) not in heads)
        if unborn:
            purged = {row[0] for row in await tx.rows(_TOMBSTONES, tenant, unborn)}
            for thread_id in unborn:
                heads[tenant, thread_id] = Head(tenant, Records(Thread(thread_id)), purged=thread_id in purged)
    return heads


async def _lock(tx: Tx, tenant: str, wanted: set[str]) -> Sequence[Row]:
    """A batch of one thread is the common case when nothing is busy, and a plain lookup is cheaper than a list."""
    if len(wanted) == 1:
        return await tx.rows(_LOCKED_ONE, tenant, next(iter(wanted)))
    return await tx.rows(_LOCKED, tenant, sorted(wanted))


async def load_keys(tx: Tx, needs: Needs, now: int) -> dict[tuple[str, str, str], Key]:
    """The keys that are in use; one that has expired makes room for its next use."""
    keys: dict[tuple[str, str, str], Key] = {}
    expired: list[Row] = []
    for (tenant, route), wanted in needs.keys.items():
        for key, body_hash, run_id, expires_at in await tx.rows(_KEYS, tenant, route, sorted(wanted)):
            if expires_at > now:
                keys[tenant, route, key] = Key(body_hash, run_id)
            else:
                expired.append((tenant, route, key))
    if expired:
        await tx.many(_EXPIRED_KEY, expired)
    return keys


async def load_records(tx: Tx, commands: Iterable[tuple[Command, Head]]) -> None:
    """The runs, leases, interrupts, entries and artifacts that the commands name and no head holds yet."""
    runs: _Wanted = defaultdict(dict)
    leases: _Wanted = defaultdict(dict)
    beside: _Beside = {}
    for command, head in commands:
        known, key = head.records.runs, head.key
        fence = command.fence
        if fence is not None and fence.run_id not in known:
            runs[command.tenant][fence.run_id] = head
        for draft in command.drafts:
            run_id = draft.run_id
            if run_id is not None and run_id not in known:
                runs[command.tenant][run_id] = head
            if key is not None and (moves := touched(draft)) is not None:
                kind, name = moves
                beside.setdefault(kind, {})[key, name] = head
        for condition in command.conditions:
            if isinstance(condition, _OF_A_RUN) and condition.run_id not in known:
                runs[command.tenant][condition.run_id] = head
            if isinstance(condition, ports.ClaimRun) and not condition.claimed_at_submit:
                # Whether a lease is alive is the database's word of this moment, never ours of a moment ago.
                leases[command.tenant][condition.run_id] = head
            elif isinstance(condition, ports.ApiKeyRevoked):
                living = await tx.rows(LIVING_KEYS, command.tenant, condition.key_id)
                head.living_api_keys |= {row[0] for row in living}
            elif isinstance(condition, ports.InterruptOpen) and key is not None:
                beside.setdefault("interrupt", {})[key, condition.interrupt_id] = head
    await _load_runs(tx, runs)
    for tenant, claimed in leases.items():
        for run_id, owner in await tx.rows(_LEASES, tenant, sorted(claimed)):
            claimed[run_id].living_leases[run_id] = owner
    for kind, asked in beside.items():
        names = sorted(asked)
        for thread_key, name, state in await tx.rows(_BESIDE[kind], [n[0] for n in names], [n[1] for n in names]):
            _hold(asked[thread_key, name].records, kind, name, state)


def _hold(records: Records, kind: Kind, name: str, state: bytes) -> None:
    if kind == "entry":
        records.entries[name] = decode(Entry, state)
    elif kind == "interrupt":
        records.interrupts[name] = decode(Interrupt, state)
    else:
        records.artifacts[name] = decode(Artifact, state)


async def _load_runs(tx: Tx, runs: _Wanted) -> None:
    for tenant, asked in runs.items():
        for run_id, thread_id, first_seq, last_seq, run_seq, state in await tx.rows(_RUNS, tenant, sorted(asked)):
            head = asked[run_id]
            if thread_id != head.records.thread.id:
                head.foreign_runs.add(run_id)
                continue
            head.records.runs[run_id] = decode(Run, state, id=run_id, thread_id=thread_id, first_seq=first_seq,
                                               last_seq=last_seq, run_seq=run_seq)  # fmt: skip


async def write(tx: Tx, accepted: Sequence[Accepted], heads: Iterable[Head]) -> None:
    """The whole batch: threads first, because their keys are in everything else."""
    changed = [head for head in heads if head.moved]
    moved_threads = await _write_threads(tx, changed)
    events: list[Row] = []
    for head, _, placed in accepted:
        key = head.key
        events += [
            (key, event.seq, event.id, event.run_id, event.run_seq, event.type, event.actor, event.at, event.parent_id,
             event.payload_bytes, fromhex(event.prev_hash), fromhex(event.hash))
            for event in placed
        ]  # fmt: skip
    moved_runs: list[Row] = []
    changed_runs: list[tuple[Head, Run]] = []
    moved_beside = False
    for head in changed:
        runs = head.records.runs
        for run_id, beyond_counters in head.touched_runs.items():
            run = runs[run_id]
            if beyond_counters:
                changed_runs.append((head, run))
            else:
                moved_runs.append((head.tenant, run_id, run.last_seq, run.run_seq))
        moved_beside = moved_beside or bool(head.moves)
    await tx.append(events, moved_threads, moved_runs)
    if changed_runs:
        await _write_runs(tx, changed_runs)
    if moved_beside:
        await _write_moved(tx, changed)
    await _write_beside_the_fold(tx, accepted)


async def _write_threads(tx: Tx, heads: Sequence[Head]) -> list[Row]:
    """Writes new and changed threads; returns those of which only the counters moved."""
    moved: list[Row] = []
    changed: list[Row] = []
    born: list[Row] = []
    unkeyed: dict[tuple[str, str], Head] = {}
    for head in heads:
        it = head.records.thread
        counters = (it.last_seq, fromhex(it.head_hash), it.updated_at)
        if head.key is None:
            born.append((head.tenant, it.id, *counters, it.created_at, it.deleted_at, encode(it)))
            unkeyed[head.tenant, it.id] = head
        elif head.state_dirty:
            changed.append((head.key, *counters, it.deleted_at, encode(it)))
        else:
            moved.append((head.key, *counters))
    if born:
        for tenant, thread_id, key in await tx.returning(_NEW_THREAD, born):
            unkeyed[tenant, thread_id].key = key
    if changed:
        await tx.many(_CHANGE_THREAD, changed)
    return moved


async def _write_runs(tx: Tx, runs: Iterable[tuple[Head, Run]]) -> None:
    changed: list[Row] = []
    claims: list[Row] = []
    released: list[Row] = []
    labels: list[Row] = []
    for head, run in runs:
        if run.labels:
            labels += label_rows(head.tenant, head.key, run)
        changed.append((head.tenant, run.id, head.key, run.thread_id, run.agent, run.status, run.parent_run_id,
                        run.created_at, run.first_seq, run.last_seq, run.run_seq, encode(run)))  # fmt: skip
        claim = head.claims.get(run.id)
        if claim is not None and run.status == "running":
            claims.append((head.tenant, run.id, claim.owner, claim.epoch, round(claim.seconds * 1000),
                           claim.suspect, claim.deaths, claim.previous))  # fmt: skip
        elif run.epoch and run.status != "running":
            # A run that ended or waits holds no worker: its lease goes with the event that says so.
            released.append((head.tenant, run.id))
    for sql, rows in ((_CHANGE_RUN, changed), (_CLAIM, claims), (_RELEASE, released), (_PUT_LABEL, labels)):
        if rows:
            await tx.many(sql, rows)


async def _write_moved(tx: Tx, heads: Sequence[Head]) -> None:
    interrupts: list[Row] = []
    entries: list[Row] = []
    artifacts: list[Row] = []
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
            else:
                artifact = records.artifacts[key]
                artifacts.append((head.tenant, key, head.key, artifact.run_id, artifact.seq, encode(artifact)))
    for sql, rows in ((_PUT_INTERRUPT, interrupts), (_PUT_ENTRY, entries), (_PUT_ARTIFACT, artifacts)):
        if rows:
            await tx.many(sql, rows)


async def _write_beside_the_fold(tx: Tx, accepted: Sequence[Accepted]) -> None:
    """What the conditions of the commands store, and the blobs of their events."""
    written: defaultdict[Sql, list[Any]] = defaultdict(list)
    for head, command, _ in accepted:
        tenant = command.tenant
        for it in command.conditions:
            if isinstance(it, ports.KeyUnused):
                written[_PUT_KEY].append((tenant, it.route, it.key, it.body_hash, it.run_id, it.expires_at))
            elif isinstance(it, ports.ApiKeyStored):
                written[PUT_KEY].append(key_row(it.key))
            elif isinstance(it, ports.ApiKeyRevoked):
                written[REVOKE_KEY].append((tenant, it.key_id, it.at))
        for draft in command.drafts:
            for blob in draft.blobs:
                written[_PUT_BLOB].append((tenant, blob.sha256, len(blob.data), blob.mime, blob.data))
                written[_PUT_BLOB_REF].append((tenant, blob.sha256, head.key))
    if _PUT_KEY in written:
        # In one order everywhere, so that replicas with the same keys wait for each other instead of locking up.
        written[_PUT_KEY].sort()
    for sql in (_PUT_KEY, PUT_KEY, REVOKE_KEY, _PUT_BLOB, _PUT_BLOB_REF):
        if sql in written:
            await tx.many(sql, written[sql])

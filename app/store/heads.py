"""Loads what the commands of a batch look at, in the append transaction: the heads of threads, records and keys.

Leaves to others: deciding (`decide`) and writing what was decided (`materialize`).
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Final, TypeAlias

from app.core.value import mutable
from app.events import ports
from app.events.ports import Command
from app.store.codec import decode
from app.store.decide import ONLY_ASKS, ThreadHead, UsedKey
from app.store.engine import Row, Sql, Tx
from app.store.keys import LIVING_KEYS
from app.views.artifact import Artifact
from app.views.interrupt import Interrupt
from app.views.job import JOB_ROUTE, WHILE_ACTIVE
from app.views.memory_record import MemoryRecord
from app.views.records import TOUCHING, Kind, Records, touched
from app.views.run import ACTIVE, Run
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
_SIBLINGS: Final[dict[Kind, Sql]] = {
    "interrupt": Sql(
        "SELECT r.thread_key, r.id, r.state FROM {pairs:$1,$2} JOIN interrupts r "
        "ON r.thread_key = v.first AND r.id = v.second"
    ),
    "entry": Sql(
        "SELECT r.thread_key, r.message_id, r.state FROM {pairs:$1,$2} JOIN transcript_entries r "
        "ON r.thread_key = v.first AND r.message_id = v.second"
    ),
    "memory": Sql(
        "SELECT r.thread_key, r.id, r.state FROM {pairs:$1,$2} JOIN memory_records r "
        "ON r.thread_key = v.first AND r.id = v.second"
    ),
    "artifact": Sql(
        "SELECT r.thread_key, r.id, r.state FROM {pairs:$1,$2} JOIN artifacts r "
        "ON r.thread_key = v.first AND r.id = v.second"
    ),
}
_DUE_EVALUATION: Final = Sql("SELECT run_id FROM due_evaluations WHERE tenant = $1 AND run_id = $2")
_KEYS: Final = Sql(
    "SELECT key, body_hash, run_id, expires_at FROM idempotency_keys WHERE tenant = $1 AND route = $2 AND key {in:$3}"
)
# A job's key counts while its run is active, or, with the other prefix, while its run is stored.
_JOB_KEYS: Final = Sql(
    "SELECT k.key, k.run_id, r.status FROM idempotency_keys k LEFT JOIN runs r ON r.tenant = k.tenant "
    "AND r.id = k.run_id WHERE k.tenant = $1 AND k.route = $2 AND k.key {in:$3}"
)
_EXPIRED_KEY: Final = Sql("DELETE FROM idempotency_keys WHERE tenant = $1 AND route = $2 AND key = $3")

_OF_A_RUN: Final = (
    ports.ClaimRun,
    ports.CommandsSeen,
    ports.RunNotTerminal,
    ports.RunUnclaimed,
    ports.RunAtWork,
    ports.RunEnded,
    ports.NotCancelled,
)
_OF_A_MEMORY: Final = (ports.MemoryIs, ports.MemoryIndexed)

_Needed: TypeAlias = defaultdict[str, dict[str, ThreadHead]]
"""By tenant: the name of a record and the head that wants it."""
_Siblings: TypeAlias = dict[Kind, dict[tuple[int, str], ThreadHead]]
"""By thread and name: the head that wants it."""


@mutable(slots=True)
class Needs:
    """What the commands of a batch will look at, by tenant or thread."""

    threads: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    keys: defaultdict[tuple[str, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    """By tenant and route."""
    lines: set[tuple[str, str]] = field(default_factory=set)
    """Tenant and project."""
    minted: set[tuple[str, str]] = field(default_factory=set)
    """Tenant and thread of those that cannot be stored yet."""

    @classmethod
    def of(cls, commands: Iterable[Command], *, again: bool = False) -> "Needs":
        """`again` after a conflict: then every thread is looked up, also one of which nobody can know."""
        needs = cls()
        for command in commands:
            needs.threads[command.tenant].add(command.thread_id)
            for condition in command.conditions:
                if isinstance(condition, ports.ThreadIsNew):
                    if condition.minted and not again:
                        needs.minted.add((command.tenant, command.thread_id))
                elif isinstance(condition, ports.KeyUnused):
                    needs.keys[command.tenant, condition.route].add(condition.key)
                elif isinstance(condition, ports.ProjectTurn):
                    needs.lines.add((command.tenant, condition.project_id))
        return needs


async def load_heads(
    tx: Tx, needs: Needs, hot: dict[tuple[str, str], ThreadHead], disturbed: int | None = None
) -> dict[tuple[str, str], ThreadHead]:
    """Lock the threads of the batch and bring each head up to its row; a head in memory is used if its `seq` fits.

    Nor is that asked of one that was seen since `disturbed`, the last turn before which somebody else wrote.
    """
    heads: dict[tuple[str, str], ThreadHead] = {}
    for tenant, thread_id in needs.minted:
        heads[tenant, thread_id] = _not_stored(tenant, thread_id, minted=True)
    for tenant in sorted(needs.threads):
        needed = needs.threads[tenant]
        if disturbed is not None:
            for thread_id in needed:
                known = hot.get((tenant, thread_id))
                if known is not None and known.seen >= disturbed:
                    heads[tenant, thread_id] = known
        if heads:
            needed = {thread_id for thread_id in needed if (tenant, thread_id) not in heads}
            if not needed:
                continue
        cold: list[int] = []
        for thread_id, key, last_seq in await _lock(tx, tenant, needed):
            head = hot.get((tenant, thread_id))
            if head is not None and head.records.thread.last_seq == last_seq:
                heads[tenant, thread_id] = head
            else:
                cold.append(key)
        for row in await tx.rows(_THREADS, cold) if cold else ():
            thread_id, key, last_seq, head_hash, updated_at, state = row
            thread = decode(
                Thread, state, id=thread_id, last_seq=last_seq, head_hash=head_hash.hex(), updated_at=updated_at
            )
            heads[tenant, thread_id] = ThreadHead(tenant, Records(thread), key)
        missing = sorted(thread_id for thread_id in needed if (tenant, thread_id) not in heads)
        if missing:
            purged = {row[0] for row in await tx.rows(_TOMBSTONES, tenant, missing)}
            for thread_id in missing:
                heads[tenant, thread_id] = _not_stored(tenant, thread_id, purged=thread_id in purged)
    return heads


def _not_stored(tenant: str, thread_id: str, *, minted: bool = False, purged: bool = False) -> ThreadHead:
    return ThreadHead(tenant, Records(Thread(thread_id)), minted=minted, purged=purged, siblings=())


async def _lock(tx: Tx, tenant: str, needed: set[str]) -> Sequence[Row]:
    """A batch of one thread is the common case when nothing is busy, and a plain lookup is cheaper than a list."""
    if len(needed) == 1:
        return await tx.rows(_LOCKED_ONE, tenant, next(iter(needed)))
    return await tx.rows(_LOCKED, tenant, sorted(needed))


async def load_keys(tx: Tx, needs: Needs, now: int) -> dict[tuple[str, str, str], UsedKey]:
    """The keys that are in use; one that has expired makes room for its next use."""
    keys: dict[tuple[str, str, str], UsedKey] = {}
    expired: list[Row] = []
    for (tenant, route), needed in needs.keys.items():
        if route == JOB_ROUTE:
            for key, run_id, status in await tx.rows(_JOB_KEYS, tenant, route, sorted(needed)):
                if status in ACTIVE or (status is not None and not key.startswith(WHILE_ACTIVE)):
                    keys[tenant, route, key] = UsedKey("", run_id)
                else:
                    expired.append((tenant, route, key))
            continue
        for key, body_hash, run_id, expires_at in await tx.rows(_KEYS, tenant, route, sorted(needed)):
            if expires_at > now:
                keys[tenant, route, key] = UsedKey(body_hash, run_id)
            else:
                expired.append((tenant, route, key))
    if expired:
        await tx.many(_EXPIRED_KEY, expired)
    return keys


async def load_records(tx: Tx, commands: Iterable[tuple[Command, ThreadHead]]) -> None:
    """The runs, leases, interrupts, entries and artifacts that the commands name and no head holds yet."""
    runs: _Needed = defaultdict(dict)
    leases: _Needed = defaultdict(dict)
    siblings: _Siblings = {}
    for command, head in commands:
        known, key = head.records.runs, head.key
        fence = command.fence
        if fence is not None and fence.run_id not in known:
            runs[command.tenant][fence.run_id] = head
        for draft in command.drafts:
            run_id = draft.run_id
            if run_id is not None and run_id not in known and not head.minted:
                runs[command.tenant][run_id] = head
            if key is not None and draft.type in TOUCHING and (moves := touched(draft)) is not None:
                kind, name = moves
                if head.siblings is None or moves in head.siblings:
                    siblings.setdefault(kind, {})[key, name] = head
        for condition in command.conditions:
            if isinstance(condition, _OF_A_RUN) and condition.run_id not in known and not head.minted:
                runs[command.tenant][condition.run_id] = head
            if type(condition) in ONLY_ASKS:
                continue
            if isinstance(condition, ports.ClaimRun):
                # Whether a lease is alive is the database's word of this moment, never ours of a moment ago.
                if not condition.claimed_at_submit:
                    leases[command.tenant][condition.run_id] = head
            elif isinstance(condition, ports.ApiKeyRevoked):
                living = await tx.rows(LIVING_KEYS, command.tenant, condition.key_id)
                head.living_api_keys |= {row[0] for row in living}
            elif isinstance(condition, ports.EvaluationDone):
                due = await tx.rows(_DUE_EVALUATION, command.tenant, condition.run_id)
                head.due_evaluations |= {row[0] for row in due}
            elif isinstance(condition, ports.InterruptOpen) and key is not None:
                siblings.setdefault("interrupt", {})[key, condition.interrupt_id] = head
            elif isinstance(condition, _OF_A_MEMORY) and key is not None:
                siblings.setdefault("memory", {})[key, condition.record_id] = head
            elif isinstance(condition, ports.MemoryUnindexed) and key is not None:
                of_memory = siblings.setdefault("memory", {})
                of_memory.update(((key, record_id), head) for record_id in condition.record_ids)
    await _load_runs(tx, runs)
    for tenant, claimed in leases.items():
        for run_id, owner in await tx.rows(_LEASES, tenant, sorted(claimed)):
            claimed[run_id].living_leases[run_id] = owner
    for kind, asked in siblings.items():
        names = sorted(asked)
        for thread_key, name, state in await tx.rows(_SIBLINGS[kind], [n[0] for n in names], [n[1] for n in names]):
            _hold(asked[thread_key, name].records, kind, name, state)


def _hold(records: Records, kind: Kind, name: str, state: bytes) -> None:
    if kind == "entry":
        records.entries[name] = decode(Entry, state)
    elif kind == "interrupt":
        records.interrupts[name] = decode(Interrupt, state)
    elif kind == "artifact":
        records.artifacts[name] = decode(Artifact, state)
    else:
        records.memories[name] = decode(MemoryRecord, state)


async def _load_runs(tx: Tx, runs: _Needed) -> None:
    for tenant, asked in runs.items():
        for run_id, thread_id, first_seq, last_seq, run_seq, state in await tx.rows(_RUNS, tenant, sorted(asked)):
            head = asked[run_id]
            if thread_id != head.records.thread.id:
                head.foreign_runs |= {run_id}
                continue
            head.records.runs[run_id] = decode(
                Run, state, id=run_id, thread_id=thread_id, first_seq=first_seq, last_seq=last_seq, run_seq=run_seq
            )

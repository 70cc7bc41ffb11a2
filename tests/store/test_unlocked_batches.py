"""Plain batches of several servers on one Postgres: each is decided from memory, and written if that is still so."""

import asyncio
import contextlib
import random
import re
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from app.core.principal import DEFAULT_TENANT
from app.core.settings import Settings
from app.events.catalog import Payload, adapter, request, thread
from app.events.catalog.execution import StepCompleted
from app.events.catalog.log import DroppedMessage, DroppedNumbers, DroppedRange, LogCompacted
from app.events.chain import Broken, verify
from app.events.envelope import Event
from app.events.ports import Answer, Appended, ClaimRun, DropDeltas, Refused, StorageDown
from app.events.recorder import Scope
from app.store import log as log_module
from app.store import plain_batch, postgres_append
from app.store.engine import (
    BEFORE_MOVE,
    DELTA_COLUMNS,
    EVENT_COLUMNS,
    MOVED_RUN,
    MOVED_THREAD,
    Conflict,
    Database,
    Sql,
    Tx,
)
from app.store.plain_batch import MAX_LOCKED, WORTH_WHILE, MemoryTrust
from app.wiring.store import Store, open_store
from tests.databases import create_database
from tests.faults.load import Producer
from tests.faults.points import ForgetfulDatabase, open_wrapped
from tests.postgres import PostgresServer
from tests.server import secret_file
from tests.store_equals_replay import assert_tables_equal_replay
from tests.waiting import until


@pytest.fixture
async def shared(postgres_server: PostgresServer, request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    name = f"unlocked_{zlib.crc32(request.node.name.encode())}"
    await create_database(postgres_server, name)
    return Settings(database_url=postgres_server.url(name), secret_file=secret_file(tmp_path))


@pytest.fixture
async def replicas(shared: Settings) -> AsyncIterator[tuple[Store, Store]]:
    async with open_store(shared) as first, open_store(shared) as second:
        yield first, second


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How each batch ended that was decided from memory."""
    ends: list[str] = []
    append = plain_batch.append_plain

    async def noted(tx: Any, batch: Any, *, alone: bool) -> None:
        try:
            await append(tx, batch, alone=alone)
        except Conflict:
            ends.append("conflict")
            raise
        ends.append("written")

    monkeypatch.setattr(log_module, "append_plain", noted)
    return ends


async def _say(store: Store, scope: Scope, text: str) -> Answer:
    return await store.recorder.record_delta(scope, adapter.OUTPUT_DELTA, "msg_1", 0, text)


async def _streaming(store: Store, short: list[str]) -> Scope:
    """A claimed run, whose server has its thread in memory."""
    scope = await Producer(store.recorder, lambda event: None).begin()
    for n in range(6):
        assert isinstance(await _say(store, scope, f"word{n}"), Appended)
    assert short and set(short) == {"written"}, "it is decided from memory"
    short.clear()
    return scope


async def _events(store: Store, scope: Scope) -> list[Event]:
    return list(await store.reader.events(scope.tenant, scope.thread_id, 0, 1000))


def _hashes(events: list[Event]) -> list[str]:
    return [event.hash for event in events]


async def _elsewhere(store: Store, scope: Scope, payload: Payload, *, of_run: bool = True) -> None:
    """Without a fence, as somebody who is not its executor."""
    place = Scope(scope.tenant, scope.thread_id, scope.run_id if of_run else None)
    assert isinstance(await store.recorder.record(place, payload), Appended)


async def _assert_refused(store: Store, scope: Scope, short: list[str], code: str) -> None:
    """Twice: by the database's word, and by what was read after it."""
    before = await _events(store, scope)
    for text in ("late", "later"):
        answer = await _say(store, scope, text)
        assert isinstance(answer, Refused) and answer.failure.code == code
    assert _hashes(await _events(store, scope)) == _hashes(before)
    assert short == ["conflict"], "what it had in memory would have let it append"


@pytest.mark.requirement("G10")
async def test_an_executor_whose_run_another_server_took_over_appends_nothing(
    replicas: tuple[Store, Store], short: list[str]
) -> None:
    first, second = replicas
    stale = await _streaming(first, short)
    assert stale.run_id is not None
    await second.leases.expire_all()
    resumed = request.RequestResumed(executor="other", epoch=2, reason="recovery")
    claim = ClaimRun(stale.run_id, "other", 2, 15.0)
    place = Scope(stale.tenant, stale.thread_id, stale.run_id)
    assert isinstance(await second.recorder.record(place, resumed, conditions=[claim]), Appended)
    await _assert_refused(first, stale, short, "STALE_EPOCH")
    await assert_tables_equal_replay(first)


@pytest.mark.requirement("G7", "G10")
async def test_nothing_is_appended_to_a_run_that_ended_on_another_server(
    replicas: tuple[Store, Store], short: list[str]
) -> None:
    first, second = replicas
    scope = await _streaming(first, short)
    await _elsewhere(second, scope, request.RequestCancelled(by="user:x"))
    await _assert_refused(first, scope, short, "RUN_TERMINAL")
    await assert_tables_equal_replay(first)


async def test_nothing_is_appended_to_a_thread_that_another_server_deleted(
    replicas: tuple[Store, Store], short: list[str]
) -> None:
    first, second = replicas
    scope = await _streaming(first, short)
    await _elsewhere(second, scope, thread.ThreadDeleted(), of_run=False)
    await _assert_refused(first, scope, short, "THREAD_DELETED")
    await assert_tables_equal_replay(first)


async def test_nothing_is_appended_to_a_thread_that_another_server_purged(
    replicas: tuple[Store, Store], short: list[str]
) -> None:
    first, second = replicas
    scope = await _streaming(first, short)
    await _elsewhere(second, scope, thread.ThreadDeleted(), of_run=False)
    assert await second.retention.purge(deleted_days=0) == 1
    answer = await _say(first, scope, "late")
    assert isinstance(answer, Refused) and answer.failure.code == "STALE_EPOCH", "its run is gone as well"
    assert short == ["conflict"]
    left = await first.database.read(lambda tx: tx.rows(Sql("SELECT 1 FROM events UNION SELECT 1 FROM runs")))
    assert left == []


async def test_a_delta_does_not_refer_to_one_that_another_server_dropped(
    replicas: tuple[Store, Store], short: list[str]
) -> None:
    first, second = replicas
    scope = await _streaming(first, short)
    events = await _events(first, scope)
    deltas = [event for event in events if event.type == adapter.AdapterEvent.type]
    assert scope.run_id is not None and len(deltas) == 6
    start, end = deltas[0], deltas[-1]
    dropped = DroppedRange(
        from_seq=start.seq,
        to_seq=end.seq,
        prev_hash=start.prev_hash,
        head_hash=end.hash,
        runs=[DroppedNumbers(run_id=scope.run_id, run_seq=start.run_seq or 0, count=6)],
        messages=[DroppedMessage(run_id=scope.run_id, message_id="msg_1", text_deltas=6)],
    )
    place = Scope(scope.tenant, scope.thread_id)
    compacted = LogCompacted(deltas=6, delta_days=1, ranges=[dropped])
    drop = DropDeltas(((start.seq, end.seq),), 0)
    assert isinstance(await second.recorder.record(place, compacted, conditions=[drop]), Appended)
    answer = await _say(first, scope, "after")
    assert isinstance(answer, Appended) and short == ["conflict"]
    last = (await _events(second, scope))[-1]
    assert (last.id, last.payload["event"]["text"]) == (answer.events[0].id, "after")
    assert last.seq == end.seq + 2


async def test_a_thread_with_the_same_length_and_another_history_is_read_again(
    replicas: tuple[Store, Store], shared: Settings, short: list[str]
) -> None:
    """As after a restored backup that went on differently."""
    first, _ = replicas
    scope = await _streaming(first, short)
    await _change(shared, "UPDATE threads SET head_hash = $1", b"\7" * 32)
    answer = await _say(first, scope, "next")
    assert isinstance(answer, Appended) and short == ["conflict"]
    assert answer.events[0].prev_hash == "07" * 32


async def test_a_run_that_is_gone_is_missed_even_if_its_thread_has_not_moved(
    replicas: tuple[Store, Store], shared: Settings, short: list[str]
) -> None:
    first, _ = replicas
    scope = await _streaming(first, short)
    await _change(shared, "DELETE FROM runs")
    await _assert_refused(first, scope, short, "STALE_EPOCH")


async def test_one_changed_thread_of_a_batch_leaves_nothing_of_the_batch_behind(
    replicas: tuple[Store, Store], short: list[str]
) -> None:
    """The others are written the long way, with the same numbers as if nothing had been tried."""
    first, second = replicas
    scopes = [await _streaming(first, short) for _ in range(5)]
    lengths = [len(await _events(first, scope)) for scope in scopes]
    await _elsewhere(second, scopes[3], request.RequestCancelled(by="user:x"))
    answers = await asyncio.gather(*(_say(first, scope, "next") for scope in scopes))
    assert [isinstance(answer, Appended) for answer in answers] == [True, True, True, False, True]
    assert short == ["conflict"]
    assert [len(await _events(first, scope)) for scope in scopes] == [length + 1 for length in lengths]
    for scope in scopes:
        assert not isinstance(verify(await _events(first, scope)), Broken)
    await assert_tables_equal_replay(first)


async def test_servers_that_write_to_the_same_threads_in_opposite_order_wait_for_nobody_in_a_circle(
    replicas: tuple[Store, Store], shared: Settings, short: list[str]
) -> None:
    first, second = replicas
    scopes = [await _streaming(first, short) for _ in range(12)]

    async def write(store: Store, order: list[Scope], name: str) -> None:
        for n in range(40):
            steps = [store.recorder.record(one, StepCompleted(step=name, key=f"{name}:{n}")) for one in order]
            assert all(isinstance(answer, Appended) for answer in await asyncio.gather(*steps))

    async with asyncio.timeout(60):
        await asyncio.gather(write(first, scopes, "a"), write(second, scopes[::-1], "b"))
    for scope in scopes:
        events = await _events(first, scope)
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert sum(event.type == StepCompleted.type for event in events) == 80
    connection = await asyncpg.connect(str(shared.database_url))
    deadlocks = await connection.fetchval("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    await connection.close()
    assert deadlocks == 0
    await assert_tables_equal_replay(second)


async def test_a_batch_does_not_wait_for_a_thread_that_is_locked_while_it_has_others(
    replicas: tuple[Store, Store], shared: Settings, short: list[str]
) -> None:
    """It would hold theirs, in an order that nobody else keeps. The long way waits, in the order of all."""
    first, _ = replicas
    scopes = [await _streaming(first, short) for _ in range(3)]
    async with _locked(shared, scopes[1].thread_id):
        said = asyncio.gather(*(_say(first, scope, "next") for scope in scopes))
        await until(lambda: bool(short))
        assert short == ["conflict"] and not said.done()
    assert all(isinstance(answer, Appended) for answer in await said)
    await assert_tables_equal_replay(first)


@pytest.mark.requirement("G1", "G2")
@pytest.mark.parametrize("fate", ["stored", "rolled back"])
async def test_a_lost_commit_of_a_batch_from_memory_is_looked_up(
    settings: Settings, short: list[str], fate: Any
) -> None:
    made: list[ForgetfulDatabase] = []

    def wrap(inner: Database) -> Database:
        made.append(ForgetfulDatabase(inner))
        return made[0]

    async with open_wrapped(settings, wrap) as store:
        scope = await _streaming(store, short)
        before = await _events(store, scope)
        made[0].next_commit = fate
        if fate == "stored":
            answer = await _say(store, scope, "next")
            assert isinstance(answer, Appended)
        else:
            with pytest.raises(StorageDown):
                await _say(store, scope, "next")
        assert short == ["written"]
        assert len(await _events(store, scope)) == len(before) + (fate == "stored")
        async with asyncio.timeout(30):
            while True:
                with contextlib.suppress(StorageDown):
                    answer = await _say(store, scope, "more")
                    break
                await asyncio.sleep(0.01)
        assert isinstance(answer, Appended)
        assert answer.events[0].seq == len(before) + (2 if fate == "stored" else 1)
        await assert_tables_equal_replay(store)


@pytest.mark.requirement("G1", "G2")
async def test_a_connection_that_ends_within_the_transaction_leaves_nothing_and_the_next_batch_is_written(
    replicas: tuple[Store, Store], shared: Settings, short: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = replicas
    scope = await _streaming(first, short)
    before = await _events(first, scope)
    append = plain_batch.append_plain

    async def cut(tx: Tx, batch: Any, **_: Any) -> None:
        await append(tx, batch, alone=False)
        ended = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE relation = 'threads'::regclass AND mode = $1"
        await _change(shared, ended, "RowExclusiveLock")

    with monkeypatch.context() as patch:
        patch.setattr(log_module, "append_plain", cut)
        with pytest.raises(StorageDown):
            await _say(first, scope, "lost")
    assert _hashes(await _events(first, scope)) == _hashes(before)
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(StorageDown):
                answer = await _say(first, scope, "next")
                break
            await asyncio.sleep(0.01)
    assert isinstance(answer, Appended) and answer.events[0].seq == len(before) + 1
    await assert_tables_equal_replay(first)


async def test_over_connections_of_a_pooler_a_batch_is_decided_and_guarded_in_the_same_way(
    shared: Settings, short: list[str]
) -> None:
    pooled = shared.model_copy(update={"database_direct_url": shared.database_url})
    async with open_store(pooled) as first, open_store(pooled) as second:
        scope = await _streaming(first, short)
        await _elsewhere(second, scope, request.RequestCancelled(by="user:x"))
        await _assert_refused(first, scope, short, "RUN_TERMINAL")
        await assert_tables_equal_replay(first)


async def test_a_value_that_cannot_be_packed_goes_the_long_way(replicas: tuple[Store, Store], short: list[str]) -> None:
    first, _ = replicas
    scope = await _streaming(first, short)
    odd = Scope(scope.tenant, scope.thread_id, scope.run_id, "backend:\x1f", scope.fence)
    for n in range(2):
        answer = await first.recorder.record(odd, StepCompleted(step="s", key=f"s:{n}"))
        assert isinstance(answer, Appended)
    assert short == ["conflict"], "the second locks its thread at once"
    assert [event.actor for event in (await _events(first, scope))[-2:]] == ["backend:\x1f"] * 2
    await assert_tables_equal_replay(first)


def test_who_is_disturbed_all_the_time_stops_deciding_from_memory_and_who_is_not_begins_again() -> None:
    trust = MemoryTrust()
    locked = []
    for _ in range(6):
        trust.broken()
        locked.append(0)
        while not trust.allows():
            locked[-1] += 1
    assert locked == [1, 4, 16, 64, MAX_LOCKED, MAX_LOCKED]
    for _ in range(WORTH_WHILE):
        assert trust.allows()
        trust.kept()
    trust.broken()
    assert [trust.allows(), trust.allows()] == [False, True]


_TEXTS = ["", "a", "NULL", "None", "{}", '"', "'", "\\", ",", "é😀", "\n", " "]
_BYTES = [b"", b"\0", b"\\x00", b"\xff" * 300, b"NULL", "é".encode()]


@pytest.mark.parametrize("count", [1, 2, 50])
async def test_packed_rows_come_out_as_they_went_in(postgres_server: PostgresServer, count: int) -> None:
    chosen = random.Random(count)

    def value(name: str) -> object:
        kind = postgres_append._TYPES.get(name, "text")
        if kind == "text":
            return chosen.choice([None, *_TEXTS]) if name == "parent_id" else chosen.choice(_TEXTS) + "."
        if kind == "bytea":
            size = postgres_append._SIZES.get(name)
            return chosen.choice(_BYTES) if size is None else chosen.randbytes(size)
        largest = 2**31 - 1 if kind == "integer" else 2**63 - 1
        return chosen.choice([0, 1, -1, largest, -largest, *([None] if name.endswith("_shift") else [])])

    def rows(columns: Sequence[str]) -> list[tuple[object, ...]]:
        return [tuple(value(name) for name in columns) for _ in range(count)]

    threads, before, runs = rows(MOVED_THREAD), rows(BEFORE_MOVE), rows(MOVED_RUN)
    events, deltas = rows(EVENT_COLUMNS), rows(DELTA_COLUMNS)
    params = postgres_append.packed(threads, before, runs, events, deltas)
    assert params is not None
    tables = [
        ((*MOVED_THREAD, *BEFORE_MOVE), [(*one, *was) for one, was in zip(threads, before, strict=True)]),
        (MOVED_RUN, runs),
        (EVENT_COLUMNS, events),
        (DELTA_COLUMNS, deltas),
    ]
    connection = await asyncpg.connect(postgres_server.url("postgres"))
    try:
        for columns, expected in tables:
            table, after = postgres_append._unpacked(columns, 1)
            mine, params = params[: after - 1], params[after - 1 :]
            found = await connection.fetch(f"SELECT {', '.join(f'v.{name}' for name in columns)} FROM {table}", *mine)
            assert [tuple(row) for row in found] == expected
    finally:
        await connection.close()
    assert params == []


def test_nothing_else_changes_what_a_plain_batch_looks_at() -> None:
    """Each of these was looked at: it moves the hash of its thread in the same transaction, or what it changes does not
    matter to a plain batch. Whoever adds one shows the same, or compares what it changes in `postgres_append`."""
    changing = re.compile(r"\b(UPDATE(?: OR FAIL)?|DELETE FROM|INSERT INTO) (threads|runs)\b")
    found = Counter(
        (path.name, statement, table)
        for folder in ("app", "migrations")
        for path in sorted(Path(folder).rglob("*.py"))
        for statement, table in changing.findall(path.read_text())
    )
    assert found == {
        # The fold: with the thread's row locked, its `last_seq` and hash move with whatever an event changed.
        ("materialize.py", "INSERT INTO", "threads"): 2,
        ("materialize.py", "UPDATE", "threads"): 2,
        ("materialize.py", "UPDATE OR FAIL", "threads"): 1,
        ("materialize.py", "INSERT INTO", "runs"): 2,
        ("materialize.py", "UPDATE", "runs"): 2,
        ("materialize.py", "UPDATE OR FAIL", "runs"): 1,
        # Counters only, with the hash.
        ("postgres_append.py", "UPDATE", "threads"): 2,
        ("postgres_append.py", "UPDATE", "runs"): 1,
        ("sqlite.py", "UPDATE", "threads"): 1,
        ("sqlite.py", "UPDATE OR FAIL", "threads"): 1,
        ("sqlite.py", "UPDATE", "runs"): 1,
        ("sqlite.py", "UPDATE OR FAIL", "runs"): 1,
        # Of threads whose deletion is in their log, and moved the hash then.
        ("retention.py", "DELETE FROM", "threads"): 1,
        ("retention.py", "DELETE FROM", "runs"): 1,
        # Only how far it was swept, which decides over no append.
        ("compaction.py", "UPDATE", "threads"): 1,
    }


async def _change(settings: Settings, sql: str, *params: object) -> None:
    connection = await asyncpg.connect(str(settings.database_url))
    try:
        await connection.execute(sql, *params)
    finally:
        await connection.close()


@contextlib.asynccontextmanager
async def _locked(settings: Settings, thread_id: str) -> AsyncIterator[None]:
    connection = await asyncpg.connect(str(settings.database_url))
    try:
        async with connection.transaction():
            sql = "SELECT 1 FROM threads WHERE tenant = $1 AND id = $2 FOR UPDATE"
            await connection.fetch(sql, DEFAULT_TENANT, thread_id)
            yield
    finally:
        await connection.close()

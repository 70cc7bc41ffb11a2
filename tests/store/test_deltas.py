"""Streamed answers in tight rows, on both databases: every reader, an older layout, tampering, dropping and purging."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import cast

import pytest

from app.core.clock import SystemClock
from app.core.ids import new_id
from app.core.settings import Settings
from app.events.catalog import request, thread
from app.events.catalog.adapter import OUTPUT_DELTA, REASONING_DELTA, AdapterEvent
from app.events.catalog.execution import StepCompleted
from app.events.chain import Broken, ChainCheck, Head
from app.events.envelope import Event
from app.events.ports import Appended, StorageDown
from app.events.recorder import Scope
from app.protocols.dialects.native import export, read_export
from app.store import event_rows, materialize, plain_event
from app.store.engine import Database, Row, Sql, Tx
from app.store.importer import import_thread
from app.store.reader import StoreReader
from app.store.retention import ROWS_AT_ONCE, RetentionPurge
from app.store.tables import metadata
from app.views.records import replay
from app.views.thread import Thread
from app.wiring.store import Store, open_store
from tests.faults.points import ForgetfulDatabase, open_wrapped
from tests.protocols.test_log_format import run_the_printed_verifier
from tests.store_equals_replay import assert_tables_equal_replay, events_of

HOSTILE = ['","text":"', '"}}', "é😀\x1f\\", "", " ", "x" * 700, '{"$blob":{}}']


async def begun(store: Store) -> Scope:
    scope = Scope("default", new_id("thread"), new_id("run"), "backend:test")
    await store.recorder.record(scope, thread.ThreadCreated(), request.RequestQueued(agent="a", input="hi"))
    return scope


async def say(store: Store, scope: Scope, message: str, words: Sequence[str], phase: str = OUTPUT_DELTA) -> None:
    """One event for each word, as a model at an ordinary pace leaves them."""
    for word in words:
        answer = await store.recorder.record_delta(scope, phase, message, 0, word)
        assert isinstance(answer, Appended), answer


async def conversation(store: Store) -> Scope:
    """Seq 1 to 25: two messages with a step between them, then two that alternate."""
    scope = await begun(store)
    await say(store, scope, "msg_1", [f"word{n} " for n in range(5)])  # 3 to 7
    await store.recorder.record(scope, StepCompleted(step="s", key="s:1"))  # 8
    await say(store, scope, "msg_2", HOSTILE)  # 9 to 15
    for n in range(5):  # 16 to 25
        await say(store, scope, "msg_3", [f"a{n}"])
        await say(store, scope, "msg_3", [f"b{n}"], REASONING_DELTA)
    return scope


async def rows(store: Store, sql: str) -> list[Row]:
    return await store.database.read(lambda tx: tx.rows(Sql(sql)))


async def change(store: Store, sql: str) -> None:
    await store.database.write(lambda tx: tx.many(Sql(sql), [()]))


async def exported(store: Store, scope: Scope) -> list[bytes]:
    found = await store.reader.thread(scope.tenant, scope.thread_id)
    assert isinstance(found, Thread)
    return [line async for line in export(store.reader, scope.tenant, found)]


async def checked(store: Store, scope: Scope, limit: int = 4) -> Head | Broken:
    """As `holdfast log verify` does it, page by page."""
    check, after = ChainCheck(), 0
    while page := await store.reader.events(scope.tenant, scope.thread_id, after, limit):
        if not check.feed(page):
            break
        after = page[-1].seq
    return check.finish()


def _all_wide(key: int | None, events: Sequence[Event], bases: object, wide: list[Row], tight: list[Row]) -> None:
    """The layout before tight rows."""
    for event in events:
        event_rows.add_rows(key, [event], {}, wide, tight)


@asynccontextmanager
async def older(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Store]:
    with monkeypatch.context() as patched:
        patched.setattr(materialize, "add_rows", _all_wide)
        patched.setattr(plain_event, "add_rows", _all_wide)
        async with open_store(settings) as store:
            yield store


@pytest.fixture
async def store(settings: Settings) -> AsyncIterator[Store]:
    async with open_store(settings) as opened:
        yield opened


@pytest.mark.requirement("G3", "G19")
async def test_deltas_after_the_first_are_tight_and_every_reader_sees_what_was_published(store: Store) -> None:
    subscribed = store.hub.subscribe("default", None)
    scope = await conversation(store)
    published = [event.export_line() for event in subscribed.take()]
    tight = [row[0] for row in await rows(store, "SELECT seq FROM deltas ORDER BY seq")]
    assert tight == [*range(4, 8), *range(10, 16), *range(18, 26)]
    reader, place = store.reader, (scope.tenant, scope.thread_id)
    for limit in (1, 2, 3, 7, 100):
        for after in range(26):
            page = await reader.events(*place, after, limit)
            assert [event.export_line() for event in page] == published[after : after + limit]
            page = await reader.run_events(scope.tenant, scope.run_id or "", after, limit)
            assert [event.export_line() for event in page] == published[max(after, 1) :][:limit]
            page = await reader.events_of(*place, [AdapterEvent.type], after, 24, limit)
            assert [e.export_line() for e in page] == [
                line for n, line in enumerate(published, 1) if after < n <= 24 and n not in (1, 2, 8)
            ][:limit]
    assert [event.seq for event in await reader.events_of(*place, [StepCompleted.type], 0, 100, 100)] == [8]
    assert isinstance(await checked(store, scope), Head)
    await assert_tables_equal_replay(store)


OF_0007 = (
    "threads", "events", "runs", "run_labels", "interrupts", "transcript_entries", "artifacts", "leases",
    "idempotency_keys", "api_keys", "blobs", "blob_refs", "files", "file_chunks", "workspaces", "tombstones",
)  # fmt: skip


@pytest.mark.requirement("G19", "G22", "OS-L4")
async def test_a_log_of_the_older_layout_is_continued_and_its_copies_are_the_same_in_any_layout(
    settings: Settings, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with older(settings, monkeypatch) as store:
        scope = await conversation(store)
        first = await exported(store, scope)
        assert await rows(store, "SELECT 1 FROM deltas") == []
        for table in reversed(metadata.sorted_tables):
            if table.name not in OF_0007:
                await change(store, f"DROP TABLE {table.name}")
        await change(store, "ALTER TABLE threads DROP COLUMN swept_seq")
        await change(store, "ALTER TABLE tombstones DROP COLUMN deleted_at")
        await change(store, "UPDATE alembic_version SET version_num = '0007'")
    async with open_store(settings) as store:
        assert await exported(store, scope) == first
        await say(store, scope, "msg_3", [f"c{n}" for n in range(9)])
        assert len(await rows(store, "SELECT 1 FROM deltas")) == 8
        whole = await exported(store, scope)
        assert whole[: len(first) - 1] == first[:-1]
        assert isinstance(await checked(store, scope), Head)
        await assert_tables_equal_replay(store)
        folded = replay(scope.thread_id, await events_of(store.database, scope.tenant, scope.thread_id))
    assert run_the_printed_verifier(tmp_path_factory.mktemp("verifier"), [line.rstrip() for line in whole]) == 0
    copy = read_export(whole)
    for name, layout in (("tight", open_store), ("wide", lambda where: older(where, monkeypatch))):
        async with layout(Settings(data_dir=tmp_path_factory.mktemp(name) / "data")) as other:
            assert await import_thread(other.database, copy.events, copy.blobs, copy.head) == copy.head
            assert bool(await rows(other, "SELECT 1 FROM deltas")) is (name == "tight")
            assert await exported(other, scope) == whole
            assert await checked(other, scope) == copy.head
            again = replay(scope.thread_id, await events_of(other.database, scope.tenant, scope.thread_id))
            assert again == folded


@pytest.mark.requirement("G19", "HK-36")
@pytest.mark.parametrize(
    ("tamper", "seq"),
    [
        ("UPDATE deltas SET text = text || text WHERE seq = 5", 5),
        ("UPDATE deltas SET text = '' WHERE seq = 5", 5),
        ("UPDATE deltas SET uuid = hash WHERE seq = 6", 6),
        ("UPDATE deltas SET at_shift = 1000000000000000 WHERE seq = 6", 6),
        ("UPDATE deltas SET at_shift = -1000000000000000 WHERE seq = 6", 6),
        ("UPDATE deltas SET run_shift = -9000000000000000000 WHERE seq = 6", 6),
        ("UPDATE deltas SET back = back - 1 WHERE seq = 7", 7),
        ("UPDATE deltas SET back = 15 WHERE seq = 18", 18),  # the delta of another message
        ("UPDATE deltas SET back = 1 WHERE seq = 18", 18),
        ("UPDATE deltas SET back = 2000000000 WHERE seq = 18", 18),
        ("UPDATE deltas SET run_shift = 1 WHERE seq = 10", 10),
        ("UPDATE deltas SET at_shift = COALESCE(at_shift, 0) + 1 WHERE seq = 10", 10),
        ("UPDATE deltas SET hash = uuid WHERE seq = 12", 12),
        ("UPDATE deltas SET seq = 99 WHERE seq = 25", 25),
        ("DELETE FROM deltas WHERE seq = 20", 20),
        ("DELETE FROM events WHERE seq = 3", 3),
        ("UPDATE events SET payload = 'x' WHERE seq = 9", 9),
        ("UPDATE events SET actor = 'user:other' WHERE seq = 9", 9),
        ("UPDATE events SET run_seq = 1 WHERE seq = 16", 16),
        ("UPDATE events SET type = 'runtime.step.completed' WHERE seq = 16", 16),
        ("UPDATE events SET parent_id = 'x' WHERE seq = 3", 3),
        ("UPDATE events SET hash = prev_hash WHERE seq = 3", 3),
        ("INSERT INTO deltas SELECT thread_key, 26, back, uuid, run_shift, at_shift, text, hash FROM deltas "
         "WHERE seq = 25", 26),
    ],
)  # fmt: skip
async def test_verify_finds_a_changed_tight_row_or_base_at_its_seq(store: Store, tamper: str, seq: int) -> None:
    scope = await conversation(store)
    await change(store, tamper)
    for limit in (1, 4, 100):
        found = await checked(store, scope, limit)
        assert isinstance(found, Broken) and found.seq == seq, found


@pytest.mark.requirement("G19")
async def test_a_chain_made_anew_from_a_tight_row_on_is_found_at_the_next(store: Store) -> None:
    scope = await conversation(store)
    (event,) = await store.reader.events(scope.tenant, scope.thread_id, 4, 1)
    event.payload_bytes = event.payload_bytes.replace(b"word2", b"WORD2")
    forged = bytes.fromhex(event.sealed())
    await store.database.write(
        lambda tx: tx.many(Sql("UPDATE deltas SET text = $1, hash = $2 WHERE seq = 5"), [(b"WORD2 ", forged)])
    )
    found = await checked(store, scope)
    assert isinstance(found, Broken) and found.seq == 6


async def test_messages_are_dropped_as_ranges_and_what_remains_keeps_its_bytes(store: Store) -> None:
    scope = await conversation(store)
    before = await exported(store, scope)
    (key,) = (await rows(store, "SELECT key FROM threads"))[0]
    # The first message, and what was thought of the last: each of the deltas between follows one that goes.
    gone = [(3, 7), *((seq, seq) for seq in (17, 19, 21, 23, 25))]
    await store.database.write(lambda tx: event_rows.drop_rows(tx, key, gone))
    left = [n for n in range(1, 26) if not any(first <= n <= last for first, last in gone)]
    for limit in (1, 3, 100):
        found: list[Event] = []
        while page := await store.reader.events(scope.tenant, scope.thread_id, found[-1].seq if found else 0, limit):
            found += page
        assert [event.export_line() for event in found] == [before[n - 1] for n in left]
    tight = {row[0] for row in await rows(store, "SELECT seq FROM deltas")}
    assert tight == {10, 11, 12, 13, 14, 15}


@pytest.mark.requirement("S7")
async def test_a_purge_leaves_no_row_and_a_purge_that_stops_leaves_a_chain(store: Store) -> None:
    scope = await begun(store)
    (key,) = (await rows(store, "SELECT key FROM threads"))[0]
    drafts = [StepCompleted(step="s", key=f"s:{n}") for n in range(700)]
    await store.recorder.record(scope, *drafts)
    events = await store.reader.events(scope.tenant, scope.thread_id, 0, 1000)
    for message in range(3):
        await say(store, scope, f"msg_{message}", ["one ", "two "])
        await store.recorder.record(scope, *[StepCompleted(step="t", key=f"t{message}:{n}") for n in range(300)])
    last = len(events) + 3 * 302
    from app.store import retention

    assert not await store.database.write(lambda tx: retention._purge_thread(tx, key, last))
    assert await checked(store, scope) == Head(
        last - ROWS_AT_ONCE,
        (await store.reader.events(scope.tenant, scope.thread_id, last - ROWS_AT_ONCE - 1, 5))[0].hash,
    )
    await store.recorder.record(scope, request.RequestCancelled(by="user:x"))
    await store.recorder.record(Scope("default", scope.thread_id), thread.ThreadDeleted())
    assert await RetentionPurge(store.database, SystemClock(), 0).purge() == 1
    assert await rows(store, "SELECT seq FROM deltas UNION ALL SELECT seq FROM events") == []


@pytest.mark.requirement("G1", "G2")
async def test_a_tight_row_of_a_commit_with_unknown_outcome_is_found(settings: Settings) -> None:
    made: list[ForgetfulDatabase] = []

    def wrap(inner: Database) -> Database:
        made.append(ForgetfulDatabase(inner))
        return made[0]

    async with open_wrapped(settings, wrap) as store:
        scope = await begun(store)
        await say(store, scope, "msg_1", ["a"])
        made[0].next_commit = "stored"
        await say(store, scope, "msg_1", ["b"])
        assert [row[0] for row in await rows(store, "SELECT seq FROM deltas")] == [4]
        assert isinstance(await checked(store, scope), Head)


async def test_a_batch_that_is_decided_again_refers_to_no_base_that_was_not_stored(settings: Settings) -> None:
    made: list[ForgetfulDatabase] = []

    def wrap(inner: Database) -> Database:
        made.append(ForgetfulDatabase(inner))
        return made[0]

    async with open_wrapped(settings, wrap) as store:
        scope = await begun(store)
        made[0].next_commit = "rolled back"
        with pytest.raises(StorageDown):
            await say(store, scope, "msg_1", ["a"])
        async with asyncio.timeout(30):
            while await store.reader.events(scope.tenant, scope.thread_id, 2, 1) == []:
                with suppress(StorageDown):  # until the log has found its database again
                    await say(store, scope, "msg_1", ["b"])
                await asyncio.sleep(0.01)
        await say(store, scope, "msg_1", ["c"])
        assert [row[0] for row in await rows(store, "SELECT seq FROM deltas")] == [4]
        assert isinstance(await checked(store, scope), Head)


class _Intruded:
    """Deltas are dropped between the statement that reads a page and the one that reads what it refers to."""

    def __init__(self, store: Store, key: int) -> None:
        self._store, self._key = store, key
        self.torn = 0

    async def look(self, work: Callable[[Tx], Awaitable[event_rows.RowPage]]) -> event_rows.RowPage:
        async def intruded(tx: Tx) -> event_rows.RowPage:
            return await work(cast(Tx, _IntrudedTx(tx, self._store, self._key)))

        page = await self._store.database.look(intruded)
        self.torn += page.torn
        return page

    async def read(self, work: Callable[[Tx], Awaitable[event_rows.RowPage]]) -> event_rows.RowPage:
        return await self._store.database.read(work)


class _IntrudedTx:
    def __init__(self, inner: Tx, store: Store, key: int) -> None:
        self._inner, self._store, self._key = inner, store, key

    async def rows(self, sql: Sql, *params: object) -> list[Row]:
        if sql is event_rows._OUTSIDE:
            await self._store.database.write(lambda tx: event_rows.drop_rows(tx, self._key, [(3, 7)]))
        return await self._inner.rows(sql, *params)


async def test_a_page_whose_base_is_dropped_while_it_is_read_is_read_again(store: Store) -> None:
    scope = await conversation(store)
    if not store.settings.is_postgres:
        return  # all statements of a read see the same there
    (key,) = (await rows(store, "SELECT key FROM threads"))[0]
    intruded = _Intruded(store, key)
    reader = StoreReader(cast(Database, intruded))
    assert [event.seq for event in await reader.events(scope.tenant, scope.thread_id, 4, 3)] == [8, 9, 10]
    assert intruded.torn == 1

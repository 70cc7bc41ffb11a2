"""A plain batch that is alone on Postgres is one statement and commits by itself. However that ends, the log knows."""

import asyncio
import contextlib
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from app.core.settings import Settings
from app.events.catalog import adapter
from app.events.envelope import Event
from app.events.ports import Answer, Appended, StorageDown
from app.events.recorder import Scope
from app.store import postgres_session
from app.store.outbox import OutboxTable
from app.store.postgres import PostgresDatabase
from app.wiring.store import Store, open_store
from tests.databases import create_database
from tests.faults.load import Producer
from tests.postgres import PostgresServer
from tests.server import secret_file
from tests.store_equals_replay import assert_tables_equal_replay

pytestmark = pytest.mark.requirement("G1", "G2")


@pytest.fixture
async def shared(
    postgres_server: PostgresServer,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Settings:
    monkeypatch.setattr(postgres_session, "LOCK_SECONDS", 9.0)  # the tests below keep batches waiting, and cut them off
    name = f"lone_{zlib.crc32(request.node.name.encode())}"
    await create_database(postgres_server, name)
    return Settings(database_url=postgres_server.url(name), secret_file=secret_file(tmp_path))


@pytest.fixture
async def store(shared: Settings) -> AsyncIterator[Store]:
    async with open_store(shared) as opened:
        yield opened


def _database(store: Store) -> PostgresDatabase:
    inner = store.database
    while not isinstance(inner, PostgresDatabase):
        inner = inner._inner  # type: ignore[attr-defined]  # whoever watches it
    return inner


def _writer(store: Store) -> "asyncpg.Connection[asyncpg.Record]":
    writer = _database(store)._writer
    assert writer is not None
    return writer


def _cut_off(store: Store) -> None:
    writer: Any = _writer(store)
    writer._transport.abort()


async def _say(store: Store, scope: Scope, text: str) -> Answer:
    return await store.recorder.record_delta(scope, adapter.OUTPUT_DELTA, "msg_1", 0, text)


async def _say_again(store: Store, scope: Scope, text: str) -> Answer:
    """As a client does: until the log has found its database again."""
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(StorageDown):
                return await _say(store, scope, text)
            await asyncio.sleep(0.01)


async def _streaming(store: Store) -> Scope:
    scope = await Producer(store.recorder, lambda event: None).begin()
    for text in ("first", "second"):  # from the second delta on it is always the same statement, which is prepared then
        assert isinstance(await _say(store, scope, text), Appended)
    return scope


async def _hashes(store: Store, scope: Scope) -> list[str]:
    return [event.hash for event in await store.reader.events(scope.tenant, scope.thread_id, 0, 1000)]


class _Held:
    """A lock that every batch waits for in the middle of its statement."""

    def __init__(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        self._connection = connection

    async def waited_for(self) -> None:
        await self._until("SELECT 1 FROM pg_locks WHERE NOT granted")

    async def end_who_waits(self) -> None:
        await self._connection.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE NOT granted")

    async def release(self) -> None:
        await self._connection.execute("ROLLBACK")

    async def gone(self, session: int) -> None:
        await self._until("SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM pg_stat_activity WHERE pid = $1)", session)

    async def _until(self, sql: str, *params: object) -> None:
        while not await self._connection.fetchval(sql, *params):  # noqa: ASYNC110  # nobody tells
            await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def _held(settings: Settings) -> AsyncIterator[_Held]:
    connection = await asyncpg.connect(str(settings.database_url))
    try:
        await connection.execute("BEGIN; LOCK TABLE runs IN EXCLUSIVE MODE")
        async with asyncio.timeout(30):
            yield _Held(connection)
    finally:
        await connection.close()


async def test_it_is_one_statement(store: Store) -> None:
    scope = await _streaming(store)
    sent: list[str] = []
    _writer(store).add_query_logger(lambda record: sent.append(record.query))
    answer = await _say(store, scope, "next")
    assert isinstance(answer, Appended)
    assert [sql.split()[0] for sql in sent] == ["WITH"]
    await assert_tables_equal_replay(store)


async def test_what_others_are_to_read_is_noted_in_one_transaction_with_it(store: Store) -> None:
    scope = await _streaming(store)
    outbox = store.log.outbox = OutboxTable(store.database)
    await outbox.add("test", frozenset({adapter.AdapterEvent.type}))
    sent: list[str] = []
    _writer(store).add_query_logger(lambda record: sent.append(record.query))
    assert isinstance(await _say(store, scope, "next"), Appended)
    assert [sql.split()[0].rstrip(";") for sql in sent] == ["BEGIN", "WITH", "INSERT", "COMMIT"]
    assert len(await outbox.unread("test", 10)) == 1


async def test_a_session_that_the_server_ends_leaves_nothing(store: Store, shared: Settings) -> None:
    scope = await _streaming(store)
    before = await _hashes(store, scope)
    async with _held(shared) as lock:
        said = asyncio.ensure_future(_say(store, scope, "lost"))
        await lock.waited_for()
        await lock.end_who_waits()
        with pytest.raises(StorageDown):
            await said
        await lock.release()
    assert await _hashes(store, scope) == before
    answer = await _say_again(store, scope, "next")
    assert isinstance(answer, Appended) and answer.events[0].seq == len(before) + 1
    await assert_tables_equal_replay(store)


async def test_a_batch_that_goes_on_without_its_connection_is_ended_before_it_is_called_lost(
    store: Store, shared: Settings
) -> None:
    """Nobody hears of it, so it would be stored after its caller was told that it is not."""
    scope = await _streaming(store)
    before = await _hashes(store, scope)
    listening = store.hub.subscribe(scope.tenant, [scope.thread_id])
    session = _writer(store).get_server_pid()
    async with _held(shared) as lock:
        said = asyncio.ensure_future(_say(store, scope, "lost"))
        await lock.waited_for()
        _cut_off(store)
        with pytest.raises(StorageDown):
            await said
        await lock.gone(session)
        await lock.release()
    assert await _hashes(store, scope) == before and listening.take() == []
    answer = await _say_again(store, scope, "next")
    assert isinstance(answer, Appended) and answer.events[0].seq == len(before) + 1
    await assert_tables_equal_replay(store)


async def test_a_batch_that_was_stored_after_its_connection_was_lost_is_answered_and_published_once(
    store: Store, shared: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    scope = await _streaming(store)
    before = await _hashes(store, scope)
    listening = store.hub.subscribe(scope.tenant, [scope.thread_id])
    session = _writer(store).get_server_pid()
    database = _database(store)
    settle = database.settle
    async with _held(shared) as lock:

        async def settled_late() -> None:
            await lock.release()
            await lock.gone(session)  # it has found out by itself that nobody listens, after its commit
            await settle()

        monkeypatch.setattr(database, "settle", settled_late)
        said = asyncio.ensure_future(_say(store, scope, "kept"))
        await lock.waited_for()
        _cut_off(store)
        answer = await said
    assert isinstance(answer, Appended)
    (event,) = answer.events
    shown: list[Event] = listening.take()
    assert [one.id for one in shown] == [event.id] and event.seq == len(before) + 1
    assert (await _hashes(store, scope))[:-1] == before
    again = await _say(store, scope, "next")
    assert isinstance(again, Appended) and again.events[0].seq == event.seq + 1
    await assert_tables_equal_replay(store)


async def test_a_session_with_the_number_of_a_lost_one_is_left_alone(store: Store, shared: Settings) -> None:
    """Numbers of processes are used again: it counts when the session began."""
    await _streaming(store)
    database, other = _database(store), await asyncpg.connect(str(shared.database_url))
    try:
        lost = database._writers_session
        assert lost is not None
        database._in_doubt.append((other.get_server_pid(), lost[1]))
        await database.settle()
        assert not database._in_doubt
        assert await other.fetchval("SELECT 1") == 1
    finally:
        await other.close()


async def test_its_refusal_says_in_the_servers_log_what_happened(store: Store, shared: Settings) -> None:
    scope = await _streaming(store)
    other = await asyncpg.connect(str(shared.database_url))
    await other.execute("UPDATE threads SET head_hash = $1", b"\7" * 32)
    await other.close()
    errors: list[str] = []
    _writer(store).add_query_logger(lambda record: errors.append(str(record.exception or "")))
    assert isinstance(await _say(store, scope, "next"), Appended), "decided again on what is stored"
    assert "holdfast: another server has written" in errors[0]

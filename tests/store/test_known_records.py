"""What the writer need not look up: a thread whose id was made for it a moment ago, and the names of the records of a
thread that began here. Where it was wrong after all, the database says so and everything is looked up."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from app.core.ids import new_id
from app.core.settings import Settings
from app.events.catalog import request, thread
from app.events.catalog.interrupt import InterruptRaised, InterruptResolved
from app.events.ports import Answer, Appended, ClaimRun, Condition, InterruptOpen, KeyUnused, Refused, ThreadIsNew
from app.events.recorder import Scope
from app.store.decide import KNOWN_SIBLINGS
from app.store.engine import Database, Row, Sql, Tx
from app.wiring.store import Store, open_store
from tests.databases import create_database
from tests.faults.points import Passing, open_wrapped
from tests.postgres import PostgresServer
from tests.server import secret_file
from tests.store_equals_replay import assert_tables_equal_replay


class _NotedTx:
    def __init__(self, tx: Tx, asked: list[str]) -> None:
        self._tx, self._asked = tx, asked

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)

    async def rows(self, sql: Sql, *params: Any) -> Sequence[Row]:
        self._asked.append(sql.postgres)
        return await self._tx.rows(sql, *params)


class _NotedDatabase(Passing):
    """Notes what a transaction that writes asks before it does."""

    def __init__(self, inner: Database) -> None:
        super().__init__(inner)
        self.asked: list[str] = []

    async def write(self, work: Any) -> Any:
        noted: Any = lambda tx: work(_NotedTx(tx, self.asked))  # noqa: E731
        return await self._inner.write(noted)


@pytest.fixture
async def noted(settings: Settings) -> AsyncIterator[tuple[Store, list[str]]]:
    made: list[_NotedDatabase] = []

    def wrap(inner: Database) -> Database:
        made.append(_NotedDatabase(inner))
        return made[0]

    async with open_wrapped(settings, wrap) as store:
        yield store, made[0].asked
        await assert_tables_equal_replay(store)


@pytest.fixture
async def store(settings: Settings) -> AsyncIterator[Store]:
    async with open_store(settings) as opened:
        yield opened
        await assert_tables_equal_replay(opened)


def _new() -> Scope:
    return Scope("default", new_id("thread"), new_id("run"))


async def _begin(store: Store, scope: Scope, *more: Condition, minted: bool = True) -> Answer:
    """As a request with no thread of its own begins."""
    assert scope.run_id is not None
    claim = ClaimRun(scope.run_id, "me", 1, 15.0, claimed_at_submit=True)
    return await store.recorder.record(
        scope, thread.ThreadCreated(), request.RequestQueued(agent="x", input="hi"),
        request.RequestStarted(executor="me", epoch=1), conditions=[ThreadIsNew(minted=minted), claim, *more],
    )  # fmt: skip


def _code(answer: Answer) -> str | None:
    return answer.failure.code if isinstance(answer, Refused) else None


def _raised(name: str) -> InterruptRaised:
    return InterruptRaised(interrupt_id=name, kind="question", title=name, expires_at="2027-01-01T00:00:00.000Z")


def _answered(name: str) -> InterruptResolved:
    """It changes the record: one that was not found would be stored without its title."""
    return InterruptResolved(interrupt_id=name, answer={"a": 1}, answered_by="user:u")


async def test_a_run_of_a_minted_thread_asks_the_database_for_nothing(noted: tuple[Store, list[str]]) -> None:
    store, asked = noted
    scope = _new()
    asked.clear()
    assert isinstance(await _begin(store, scope), Appended)
    assert asked == []
    done = request.RequestCompleted(output="bye", message_id="msg_1")
    assert isinstance(await store.recorder.record(scope, _raised("a"), done), Appended)
    locks = [sql for sql in asked if "FROM threads" in sql and "key" in sql]
    assert asked == locks, "where others write as well its thread is locked; no record of it is looked for"


async def test_an_id_that_was_not_minted_is_looked_up(noted: tuple[Store, list[str]]) -> None:
    store, asked = noted
    scope = _new()
    asked.clear()
    assert isinstance(await _begin(store, scope, minted=False), Appended)
    assert any("tombstones" in sql for sql in asked) and any("FROM runs" in sql for sql in asked)


async def test_a_minted_thread_that_exists_after_all_is_refused_and_its_neighbours_are_stored(store: Store) -> None:
    scope = _new()
    assert isinstance(await _begin(store, scope), Appended)
    before = [event.hash for event in await store.reader.events("default", scope.thread_id, 0, 100)]
    again = Scope("default", scope.thread_id, new_id("run"))
    others = [_new() for _ in range(3)]
    answers = await asyncio.gather(*(_begin(store, one) for one in (others[0], again, *others[1:])))
    assert [_code(answer) for answer in answers] == [None, "THREAD_EXISTS", None, None]
    assert [event.hash for event in await store.reader.events("default", scope.thread_id, 0, 100)] == before
    assert isinstance(await store.recorder.record(scope, request.RequestCompleted(output=1)), Appended)


async def test_a_run_id_that_exists_after_all_is_refused(store: Store) -> None:
    scope = _new()
    assert isinstance(await _begin(store, scope), Appended)
    other = Scope("default", new_id("thread"), scope.run_id)
    assert _code(await _begin(store, other)) == "RUN_EXISTS"
    assert await store.reader.events("default", other.thread_id, 0, 100) == []
    assert await store.reader.thread("default", other.thread_id) is None


async def test_the_other_conditions_of_a_minted_thread_hold(store: Store) -> None:
    first, second = _new(), _new()
    assert first.run_id and second.run_id
    key = KeyUnused("runs", "key", "body", first.run_id, 2**60)
    assert isinstance(await _begin(store, first, key), Appended)
    same = KeyUnused("runs", "key", "body", second.run_id, 2**60)
    answer = await _begin(store, second, same)
    assert isinstance(answer, Refused) and (_code(answer), answer.winner) == ("IDEMPOTENCY_KEY_SEEN", first.run_id)
    assert _code(await _begin(store, second, InterruptOpen("int_1"))) == "INTERRUPT_NOT_OPEN"
    assert await store.reader.thread("default", second.thread_id) is None


@pytest.mark.parametrize("count", [1, KNOWN_SIBLINGS, KNOWN_SIBLINGS + 1, 3 * KNOWN_SIBLINGS])
@pytest.mark.parametrize("how", ["at once", "one by one"])
async def test_records_that_change_again_are_found_however_many_there_are(store: Store, count: int, how: str) -> None:
    scope = _new()
    assert isinstance(await _begin(store, scope), Appended)
    names = [f"int_{n}" for n in range(count)]
    first = [_raised(name) for name in names]
    for group in [first] if how == "at once" else [[one] for one in first]:
        assert isinstance(await store.recorder.record(scope, *group), Appended)
    for name in names:
        assert isinstance(await store.recorder.record(scope, _answered(name)), Appended)
    stored = [await store.reader.interrupt("default", name) for name in names]
    assert [(one.title, one.status) for one in stored if one] == [(name, "resolved") for name in names]


@pytest.mark.parametrize("how", ["restart", "other thread", "rolled back"])
async def test_what_is_known_of_a_thread_ends_with_its_place_in_memory(
    settings: Settings, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.wiring.store.HOT_THREADS", 1)
    monkeypatch.setattr("app.wiring.store._HOT_THREADS_PER_RUN", 0)
    scope = _new()
    async with open_store(settings) as store:
        assert isinstance(await _begin(store, scope), Appended)
        assert isinstance(await store.recorder.record(scope, _raised("a"), _raised("b")), Appended)
        if how == "other thread":
            assert isinstance(await _begin(store, _new()), Appended)
        elif how == "rolled back":
            second = _begin(store, Scope("default", scope.thread_id, new_id("run")))
            answers = await asyncio.gather(store.recorder.record(scope, _raised("c")), second)
            assert [_code(answer) for answer in answers] == [None, "THREAD_EXISTS"]
        if how != "restart":
            assert isinstance(await store.recorder.record(scope, _answered("a"), _raised("d")), Appended)
            assert isinstance(await store.recorder.record(scope, _answered("d")), Appended)
            await assert_tables_equal_replay(store)
    async with open_store(settings) as store:
        assert isinstance(await store.recorder.record(scope, _answered("b")), Appended)
        await assert_tables_equal_replay(store)


async def test_a_record_that_another_server_made_is_found(postgres_server: PostgresServer, tmp_path: Path) -> None:
    await create_database(postgres_server, "known_records")
    shared = Settings(database_url=postgres_server.url("known_records"), secret_file=secret_file(tmp_path))
    scope = _new()
    async with open_store(shared) as first, open_store(shared) as second:
        assert isinstance(await _begin(first, scope), Appended)
        assert isinstance(await second.recorder.record(scope, _raised("a"), _raised("b")), Appended)
        assert isinstance(await first.recorder.record(scope, _answered("a")), Appended)
        assert isinstance(await second.recorder.record(scope, _answered("b")), Appended)
        await assert_tables_equal_replay(first)

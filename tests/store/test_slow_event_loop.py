"""A database that answers while the event loop stands still: that is not the database's fault."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.events.ports import StorageDown
from app.store import postgres, sqlite
from app.store.engine import Row, Sql, Tx
from app.store.patience import LATE_SECONDS
from app.store.postgres import PostgresDatabase
from app.store.sqlite import SqliteDatabase
from tests.postgres import PostgresServer

_ONE = Sql("SELECT 1")


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[SqliteDatabase]:
    database = SqliteDatabase(tmp_path / "holdfast.db")
    await database.ping()
    yield database
    await database.close()


async def test_a_read_that_was_answered_while_the_event_loop_stood_still_is_returned(
    database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "ANSWER_SECONDS", 0.5)
    reading, held, answered = threading.Event(), threading.Event(), threading.Event()

    async def work(tx: Tx) -> list[Row]:
        reading.set()
        held.wait()
        found = await tx.rows(_ONE)
        answered.set()
        return found

    task = asyncio.create_task(database.read(work))
    await asyncio.to_thread(reading.wait)
    held.set()
    held_until = time.monotonic() + 0.5 + 2 * LATE_SECONDS
    while time.monotonic() < held_until or not answered.is_set():
        pass  # the event loop, as an import would hold it
    assert await task == [(1,)]


async def test_a_read_that_the_database_does_not_answer_is_given_up(
    database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "ANSWER_SECONDS", 0.05)
    released = threading.Event()

    async def work(tx: Tx) -> list[Row]:
        released.wait()
        return await tx.rows(_ONE)

    try:
        with pytest.raises(StorageDown):
            await database.read(work)
    finally:
        released.set()


@pytest.mark.parametrize("write", [False, True])
async def test_postgres_is_not_down_because_the_event_loop_stood_still(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch, write: bool
) -> None:
    monkeypatch.setattr(postgres, "ANSWER_SECONDS", 0.5)
    database = PostgresDatabase(postgres_server.url("postgres"))

    async def work(tx: Tx) -> list[Row]:
        asking = asyncio.ensure_future(tx.rows(_ONE))
        await asyncio.sleep(0)  # it is sent
        held_until = time.monotonic() + 0.5 + 2 * LATE_SECONDS
        while time.monotonic() < held_until:
            pass  # the event loop, as an import would hold it
        return await asking

    try:
        for _ in range(2):  # the second time the connection is there
            found = await (database.write(work) if write else database.read(work))
            assert [tuple(row) for row in found] == [(1,)]
    finally:
        await database.close()


async def test_postgres_that_does_not_answer_is_given_up(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "ANSWER_SECONDS", 0.2)
    database = PostgresDatabase(postgres_server.url("postgres"))
    try:
        for ask in (database.read, database.write):
            with pytest.raises(StorageDown):
                await ask(lambda tx: tx.rows(Sql("SELECT pg_sleep(20)")))
    finally:
        await database.close()

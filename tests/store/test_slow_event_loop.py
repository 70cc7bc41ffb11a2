"""A read of SQLite while the event loop stands still: that is not the database's fault."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.events.ports import StorageDown
from app.store import sqlite
from app.store.engine import Row, Sql, Tx
from app.store.sqlite import SqliteDatabase

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
    held_until = time.monotonic() + 0.5 + 2 * sqlite.LATE_SECONDS
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

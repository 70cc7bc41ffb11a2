"""Whoever waits for a database is let go in time, and a cancel is never lost on the way."""

import asyncio
from typing import Any

import pytest

from app.events.ports import StorageDown
from app.store import postgres
from app.store.engine import Sql
from app.store.patience import Patience
from app.store.postgres import PostgresDatabase
from tests.faults.replicas.proxy import FaultyProxy
from tests.postgres import PostgresServer


async def test_a_reader_whose_preparation_is_not_answered_keeps_nobody_waiting(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pool would say goodbye to the connection, and wait for the answer to that."""
    monkeypatch.setattr(postgres, "ANSWER_SECONDS", 0.5)
    proxy = await FaultyProxy(postgres_server.port).start()
    database = PostgresDatabase(f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres")
    prepare = database._session.prepare

    async def frozen(connection: Any, *, reads: bool) -> None:
        proxy.freeze()
        await prepare(connection, reads=reads)

    monkeypatch.setattr(database._session, "prepare", frozen)
    try:
        async with asyncio.timeout(10):
            with pytest.raises(StorageDown):
                await database.read(lambda tx: tx.rows(Sql("SELECT 1")))
    finally:
        await proxy.close()
        await database.close()


async def test_whoever_was_cancelled_is_cancelled_whatever_the_driver_makes_of_it() -> None:
    async def driver() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise ConnectionResetError from None

    async def ask() -> None:
        with Patience(60):
            await driver()

    task = asyncio.create_task(ask())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_failure_of_its_own_is_reported_as_it_is() -> None:
    with pytest.raises(ConnectionResetError):
        with Patience(60):
            raise ConnectionResetError
    with pytest.raises(TimeoutError):
        with Patience(0.01):
            await asyncio.sleep(60)

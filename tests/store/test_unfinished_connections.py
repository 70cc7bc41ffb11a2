"""A connection to Postgres whose preparation is cut short is closed and not left to the garbage collector."""

import asyncio
from typing import Any

import asyncpg
import pytest

from app.store.engine import Tx
from app.store.notifications import open_channel
from app.store.postgres import PostgresDatabase
from app.store.postgres_session import OwnSession
from tests.postgres import PostgresServer


class Unfinished:
    """The connections that are opened, and the moment at which their preparation hangs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened: list[asyncpg.Connection[Any]] = []
        self.preparing = asyncio.Event()
        connect = asyncpg.connect

        async def noted(*args: Any, **options: Any) -> "asyncpg.Connection[Any]":
            self.opened.append(await connect(*args, **options))
            return self.opened[-1]

        monkeypatch.setattr(asyncpg, "connect", noted)

    async def hang(self, *args: Any, **options: Any) -> None:
        self.preparing.set()
        await asyncio.Event().wait()

    async def cancelled(self, work: "asyncio.Task[Any]") -> None:
        await self.preparing.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert [connection.is_closed() for connection in self.opened] == [True]


async def _nothing(tx: Tx) -> None:
    pass


async def test_a_channel_of_notifications(postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    unfinished = Unfinished(monkeypatch)
    monkeypatch.setattr(asyncpg.Connection, "execute", unfinished.hang)
    opening = open_channel(postgres_server.url("postgres"), lambda channel, message: None)
    await unfinished.cancelled(asyncio.create_task(opening))


async def test_the_writers_connection(postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    unfinished = Unfinished(monkeypatch)
    monkeypatch.setattr(OwnSession, "prepare", unfinished.hang)
    database = PostgresDatabase(postgres_server.url("postgres"))
    try:
        await unfinished.cancelled(asyncio.create_task(database.write(_nothing)))
    finally:
        await database.close()

"""Named moments at which a process kills itself, as wrappers around the ports; nothing in `app/` knows of them."""

import contextlib
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final, Literal, TypeVar, cast

from app.bus.relay import Relay
from app.core.clock import SystemClock
from app.core.schemas import SchemaRegistry
from app.core.settings import Settings
from app.events.envelope import Event
from app.events.hub import Hub
from app.events.ports import StorageDown
from app.events.recorder import Recorder
from app.policy.redaction import LogRedaction
from app.store.engine import CommitUnknown, Database, Row, Tx
from app.store.folder import DataFolder
from app.store.health import WatchedDatabase
from app.store.leases import LeaseTable
from app.store.log import Log
from app.store.migrate import migrate
from app.store.reader import StoreReader
from app.store.retention import RetentionPurge
from app.wiring.store import Store, open_database

T = TypeVar("T")

POINTS: Final = ("before_work", "before_commit", "after_commit", "before_publish", "after_publish")


class Moment:
    """Kills the process when its point is reached for the given time."""

    def __init__(self, point: str, after: int) -> None:
        self._point, self._left = point, after

    def reached(self, point: str) -> None:
        if point == self._point:
            self._left -= 1
            if self._left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)


class Passing:
    """A database as it is; the wrappers below change one thing each."""

    def __init__(self, inner: Database) -> None:
        self._inner = inner

    async def write(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        return await self._inner.write(work)

    async def read(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        return await self._inner.read(work)

    def load(self) -> dict[str, float]:
        return self._inner.load()

    async def look(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        return await self._inner.look(work)

    async def act(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        return await self.write(work)  # what is done to a write is done to this one as well

    async def settle(self) -> None:
        await self._inner.settle()

    async def ping(self) -> None:
        await self._inner.ping()

    async def close(self) -> None:
        await self._inner.close()


class KilledDatabase(Passing):
    """Its writes pass the moments before, inside and after their transaction."""

    def __init__(self, inner: Database, moment: Moment) -> None:
        super().__init__(inner)
        self._moment = moment

    async def write(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        async def watched(tx: Tx) -> T:
            self._moment.reached("before_work")
            result = await work(tx)
            self._moment.reached("before_commit")
            return result

        result = await self._inner.write(watched)
        self._moment.reached("after_commit")
        return result


class RefusingDatabase(Passing):
    """Can be made to refuse its writes, as a full disk would; counts the attempts."""

    refuse: Exception | None = None
    refused: int = 0

    async def write(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        if self.refuse is not None:
            self.refused += 1
            raise self.refuse
        return await super().write(work)


class _Undone(Exception):
    """Rolls a transaction back whose outcome nobody is to know."""


class _NeverAlone:
    """A transaction in which no statement commits by itself, so that all of it can be rolled back."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)

    async def append(self, *rows: Sequence[Row], alone: bool = False) -> None:
        await self._tx.append(*rows)


class ForgetfulDatabase(Passing):
    """Loses the connection while it commits: the caller does not hear whether the transaction is there."""

    next_commit: Literal["answered", "stored", "rolled back"] = "answered"
    reads_fail: bool = False

    async def write(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        fate, self.next_commit = self.next_commit, "answered"

        async def watched(tx: Tx) -> T:
            result = await work(cast(Tx, _NeverAlone(tx)))
            if fate == "rolled back":
                raise _Undone
            return result

        try:
            result = await super().write(watched)
        except _Undone:
            raise CommitUnknown from None
        if fate == "stored":
            raise CommitUnknown
        return result

    async def read(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        if self.reads_fail:
            raise StorageDown
        return await super().read(work)

    async def look(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        return await self.read(work)


@contextlib.asynccontextmanager
async def open_wrapped(
    settings: Settings,
    wrap: Callable[[Database], Database],
    before_publish: Callable[[Sequence[Event]], None] = lambda events: None,
    after_publish: Callable[[Sequence[Event]], None] = lambda events: None,
) -> AsyncIterator[Store]:
    """As `app.wiring.store.open_store`, with wrappers around the database and the hub."""
    folder = DataFolder(settings.data_dir)
    if not settings.is_postgres:
        folder.take()
    await migrate(settings)
    database, hub, clock = wrap(open_database(settings)), Hub(), SystemClock()

    def publish(events: Sequence[Event]) -> None:
        before_publish(events)
        hub.publish(events)
        after_publish(events)

    log = Log(database, clock, publish, settings.max_pending_events)
    log.start()
    recorder = Recorder(log, clock, SchemaRegistry(), LogRedaction())
    retention = RetentionPurge(database, clock, settings.retention_deleted_days)
    reader = StoreReader(database)
    try:
        health = WatchedDatabase(database, clock)
        relay, leases = Relay(hub, reader), LeaseTable(database)
        yield Store(settings, database, folder, hub, relay, log, reader, leases, retention, recorder, health)
    finally:
        await log.close()
        await database.close()
        folder.release()

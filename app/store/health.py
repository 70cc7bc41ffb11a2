"""A database that is watched: whether writes can be expected to succeed, and a line in the log when that changes.

Asked by `/readyz`. A database that was full is tried by a small write, so that a server which nobody sends anything
becomes ready again by itself.
"""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import structlog

from app.core.clock import Clock
from app.events.ports import StorageCorrupt, StorageDown, StorageFailed, StorageFull, StoreError
from app.store.engine import Database, Sql, Tx

T = TypeVar("T")

READY_SECONDS: Final = 1.0
"""How long the answer may take, whatever the database does."""
_REPEAT_SECONDS: Final = 60.0
"""The same trouble is logged again after this time, not for every request."""
_PROBE_BYTES: Final = 64 * 1024
_PUT: Final = Sql(
    "INSERT INTO workspaces (digest, files) VALUES ('probe', $1) "
    "ON CONFLICT (digest) DO UPDATE SET files = excluded.files"
)
_REMOVE: Final = Sql("DELETE FROM workspaces WHERE digest = 'probe'")

log = structlog.get_logger("holdfast.storage")


class WatchedDatabase:
    def __init__(self, inner: Database, clock: Clock, has_room: Callable[[], bool] = lambda: True) -> None:
        """`has_room` is asked before a full database is tried again."""
        self._inner, self._clock, self._has_room = inner, clock, has_room
        self._full = False
        self._logged: dict[str, float] = {}
        self._asking: asyncio.Task[None] | None = None

    async def write(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        try:
            return await self._inner.write(work)
        except StoreError as error:
            self._note(error)
            raise

    async def read(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        try:
            return await self._inner.read(work)
        except StoreError as error:
            self._note(error)
            raise

    async def look(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        try:
            return await self._inner.look(work)
        except StoreError as error:
            self._note(error)
            raise

    async def act(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        try:
            return await self._inner.act(work)
        except StoreError as error:
            self._note(error)
            raise

    async def settle(self) -> None:
        await self._inner.settle()

    async def ping(self) -> None:
        await self._inner.ping()

    def load(self) -> dict[str, float]:
        return self._inner.load()

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._asking
        await self._inner.close()

    async def ready(self) -> None:
        """Raises the error that a write would meet. Within a second, and the database is asked once for all callers."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._try() if self._full else self._inner.ping())
        asking = self._asking
        done, _ = await asyncio.wait([asking], timeout=READY_SECONDS)
        if not done:
            raise StorageDown("the database does not answer")
        error = None if asking.cancelled() else asking.exception()
        if isinstance(error, StoreError):
            raise error
        if error is not None or asking.cancelled():
            raise StorageDown from error

    async def _try(self) -> None:
        """A write of some size, because what the files have room for already would succeed on any disk."""
        if not self._has_room():
            raise StorageFull
        await self.write(lambda tx: tx.many(_PUT, [(os.urandom(_PROBE_BYTES),)]))
        await self.write(lambda tx: tx.many(_REMOVE, [()]))
        self._full = False
        log.info("storage.has_room_again")

    def _note(self, error: StoreError) -> None:
        if isinstance(error, StorageFull):
            self._full = True
        elif not isinstance(error, (StorageCorrupt, StorageFailed)):
            return
        now = self._clock.monotonic()
        if now - self._logged.get(error.code, float("-inf")) >= _REPEAT_SECONDS:
            self._logged[error.code] = now
            log.error("storage.refused", code=error.code, message=error.failure.message, remedy=error.remedy)

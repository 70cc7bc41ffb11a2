"""A database whose failed sync stops the process, whoever was writing: the log, a lease, retention.

After it nobody knows what the disk holds, so nothing may be answered and nothing tried again.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from app.events.ports import StorageBroken
from app.store.engine import Database, Tx

T = TypeVar("T")


class StopsWhenBroken:
    def __init__(self, inner: Database, stop_the_process: Callable[[StorageBroken], None]) -> None:
        self._inner = inner
        self._stop_the_process = stop_the_process

    async def write(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        try:
            return await self._inner.write(work)
        except StorageBroken as broken:
            self._stop_the_process(broken)
            raise

    async def read(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        return await self._inner.read(work)

    async def look(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        return await self._inner.look(work)

    async def act(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        try:
            return await self._inner.act(work)
        except StorageBroken as broken:
            self._stop_the_process(broken)
            raise

    async def settle(self) -> None:
        await self._inner.settle()

    async def ping(self) -> None:
        await self._inner.ping()

    def load(self) -> dict[str, float]:
        return self._inner.load()

    async def close(self) -> None:
        await self._inner.close()

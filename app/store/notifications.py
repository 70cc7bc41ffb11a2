"""The connection on which a server listens and notifies by Postgres' own LISTEN and NOTIFY.

Apart from the log's connection: a commit that notifies would wait for every other one that does. Leaves to the bus:
what is said, and connecting again.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

import asyncpg

from app.events.ports import StorageDown

_CONNECT_SECONDS: Final = 1.5
_NOTIFY: Final = "SELECT pg_notify(v.channel, v.message) FROM unnest($1::text[], $2::text[]) AS v(channel, message)"
_FAILED: Final = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, TimeoutError)


class NotificationChannel:
    """`on_heard` is called with the channel and the message of whatever was notified, by this connection as well."""

    def __init__(self, connection: "asyncpg.Connection[Any]", on_heard: Callable[[str, str], None]) -> None:
        self._connection, self._on_heard = connection, on_heard
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        connection.add_termination_listener(self._ended)

    @property
    def closed(self) -> bool:
        return self._connection.is_closed()

    async def listen(self, channels: Sequence[str]) -> None:
        if not channels:
            return
        for channel in channels:
            await self._do(self._connection.add_listener(channel, self._heard))

    async def unlisten(self, channel: str) -> None:
        await self._do(self._connection.remove_listener(channel, self._heard))

    async def notify(self, messages: Sequence[tuple[str, str]]) -> None:
        channels, texts = [row[0] for row in messages], [row[1] for row in messages]
        await self._do(self._connection.execute(_NOTIFY, channels, texts))

    async def wait_closed(self) -> None:
        await asyncio.shield(self._over)

    def terminate(self) -> None:
        self._connection.terminate()
        self._ended()

    async def _do(self, work: Any) -> None:
        try:
            await work
        except _FAILED as error:
            self.terminate()
            raise StorageDown(f"the database answered {type(error).__name__}") from error

    def _heard(self, _connection: Any, _pid: int, channel: str, message: object) -> None:
        self._on_heard(channel, str(message))

    def _ended(self, _connection: Any = None) -> None:
        if not self._over.done():
            self._over.set_result(None)


async def open_channel(url: str, on_heard: Callable[[str, str], None]) -> NotificationChannel:
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            connection = await asyncpg.connect(url, timeout=_CONNECT_SECONDS, command_timeout=_CONNECT_SECONDS)
            try:
                # A notification is a transaction, and says nothing lasting: nobody waits for the disk or a standby.
                await connection.execute("SET synchronous_commit = off")
            except BaseException:
                connection.terminate()
                raise
    except _FAILED as error:
        raise StorageDown(f"the database answered {type(error).__name__}") from error
    return NotificationChannel(connection, on_heard)

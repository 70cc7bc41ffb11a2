"""LISTEN and NOTIFY of the Postgres that holds the log, through one connection of its own: nothing to install.

Messages are sent outside the log's transactions, so that a commit never waits for them. Leaves to the store: the
connection itself (`Channel`).
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from app.bus.connection import KeptConnection
from app.bus.contract import Bus, BusDeps, BusDown, BusKind, Channel, OpenChannel, Receive
from app.events.ports import StoreError

_ANSWER_SECONDS: Final = 1.5


def channel_of(subject: str) -> str:
    """A name of a channel has at most 63 bytes; tenants may be longer, and contain anything."""
    return "holdfast_" + hashlib.sha256(subject.encode()).hexdigest()[:32]


class PostgresBus:
    def __init__(self, open_channel: OpenChannel) -> None:
        self._open = open_channel
        self._channel: Channel | None = None
        self._subjects: dict[str, str] = {}
        """By channel."""
        self._receive: Receive = lambda subject, message: None
        self._connection = KeptConnection("postgres", self._connect)
        self._one = asyncio.Lock()
        """A connection does one thing at a time."""

    @property
    def connected(self) -> bool:
        return self._connection.connected

    def start(self, receive: Receive, on_connected: Callable[[], None]) -> None:
        self._receive = receive
        self._connection.start(on_connected)

    async def _connect(self) -> Callable[[], Awaitable[None]]:
        try:
            channel = await self._open(self._heard)
        except StoreError as error:
            raise BusDown(error.failure.message) from error
        # From here on whoever listens to something new does so on this connection.
        self._channel = channel
        try:
            async with asyncio.timeout(_ANSWER_SECONDS), self._one:
                await channel.listen(list(self._subjects))
        except (StoreError, TimeoutError) as error:
            channel.terminate()
            raise BusDown("the database does not answer") from error
        return channel.wait_closed

    def _heard(self, channel: str, message: str) -> None:
        subject = self._subjects.get(channel)
        if subject is not None:
            self._receive(subject, message.encode())

    async def listen(self, subject: str) -> None:
        name = channel_of(subject)
        self._subjects[name] = subject
        await self._do(lambda channel: channel.listen([name]))

    async def leave(self, subject: str) -> None:
        name = channel_of(subject)
        if self._subjects.pop(name, None) is not None:
            await self._do(lambda channel: channel.unlisten(name))

    async def _do(self, work: Callable[[Channel], Awaitable[None]]) -> None:
        """While there is no connection nothing is to do: the next one hears all subjects from its start."""
        if self._channel is not None and not self._channel.closed:
            try:
                await self._in_time(work)
            except BusDown:
                self.reconnect()

    async def publish(self, messages: Sequence[tuple[str, bytes]]) -> None:
        rows = [(channel_of(subject), message.decode()) for subject, message in messages]
        await self._in_time(lambda channel: channel.notify(rows))

    async def request(self, subject: str, message: bytes, seconds: float) -> bool:
        """Postgres does not say who heard it."""
        await self.publish([(subject, message)])
        return True

    async def _in_time(self, work: Callable[[Channel], Awaitable[None]]) -> None:
        channel = self._channel
        if channel is None or channel.closed:
            raise BusDown("there is no connection to the database")
        try:
            async with asyncio.timeout(_ANSWER_SECONDS), self._one:
                await work(channel)
        except StoreError as error:
            raise BusDown(error.failure.message) from error
        except TimeoutError as error:
            channel.terminate()  # whatever it still answers cannot be distinguished from the next answer
            raise BusDown("the database does not answer") from error

    def reconnect(self) -> None:
        if self._channel is not None:
            self._channel.terminate()

    async def close(self) -> None:
        await self._connection.close()
        if self._channel is not None:
            self._channel.terminate()


def _make(deps: BusDeps) -> Bus:
    if deps.open_channel is None:
        raise BusDown("HOLDFAST_BUS=postgres needs HOLDFAST_DATABASE_URL")
    return PostgresBus(deps.open_channel)


KIND = BusKind(name="postgres", make=_make)

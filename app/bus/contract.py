"""What the servers of one installation say to each other, and what carries it.

A bus carries short messages at most once and in no certain order. Nothing on it is the truth: whoever hears a message
reads from the store what it is about, and a message that is lost costs time, never data. Leaves to others: what is
said (`messages`), and finding out by polling what no message said (`replicas`).
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from app.core.errors import HoldfastError
from app.core.value import contract_value
from app.workspace.catalog import Kind

MAX_MESSAGE_BYTES: Final = 7_500
"""The most that every kind carries in one message: Postgres has the smallest limit, 8,000."""
CONTROL: Final = "control"
"""The subject that every server of the installation hears."""

Receive = Callable[[str, bytes], None]
"""(subject, message): called on the event loop for everything heard, this server's own messages included."""


class BusDown(HoldfastError):
    """The bus does not answer. What was to be sent is lost."""

    def __init__(self, message: str) -> None:
        super().__init__("BUS_DOWN", message, retryable=True)


class Bus(Protocol):
    """Subjects are texts of this program's own making, such as `news.default`; a kind spells them as it must."""

    @property
    def connected(self) -> bool: ...

    def start(self, receive: Receive, on_connected: Callable[[], None]) -> None:
        """Connect, and again whenever the connection is lost. `on_connected` is called each time, when everything that
        `listen` was asked for is heard."""
        ...

    async def listen(self, subject: str) -> None:
        """Returns when it is heard; at once while there is no connection: it will be with the next one."""
        ...

    async def leave(self, subject: str) -> None: ...

    async def publish(self, messages: Sequence[tuple[str, bytes]]) -> None:
        """(subject, message) each, to whoever listens. Raises `BusDown`."""
        ...

    async def request(self, subject: str, message: bytes, seconds: float) -> bool:
        """To the one server that listens to the subject. Whether it received the message; raises `BusDown`."""
        ...

    def reconnect(self) -> None:
        """The connection is silent although it should not be: drop it and connect anew."""
        ...

    async def close(self) -> None: ...


class Channel(Protocol):
    """One connection to the database that listens and notifies, as the store provides it."""

    @property
    def closed(self) -> bool: ...

    async def listen(self, channels: Sequence[str]) -> None: ...

    async def unlisten(self, channel: str) -> None: ...

    async def notify(self, messages: Sequence[tuple[str, str]]) -> None:
        """(channel, message) each, in one round trip."""
        ...

    async def wait_closed(self) -> None: ...

    def terminate(self) -> None: ...


OpenChannel = Callable[[Callable[[str, str], None]], Awaitable[Channel]]
"""Connects; what is heard is passed to the given function as (channel, message). Raises `StoreError`."""


@contract_value(frozen=True, slots=True)
class BusDeps:
    """What a kind may need of the server."""

    url: str
    """The setting, such as `nats://localhost:4222`."""
    open_channel: OpenChannel | None = None
    """Of a server on Postgres."""


@dataclass(frozen=True, kw_only=True)
class BusKind(Kind):
    """`name` is the setting's value, or the scheme of its URL."""

    make: Callable[[BusDeps], Bus]

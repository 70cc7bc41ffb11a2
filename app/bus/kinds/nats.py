"""NATS: plain subjects for news, request and reply for commands. No JetStream: nothing there is the truth.

The setting is `nats://[user:password@]host:port[,...][/prefix]`; `tls://` connects with TLS. Installations that share a
NATS server have different prefixes.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from app.bus.connection import KeptConnection
from app.bus.contract import Bus, BusDeps, BusDown, BusKind, Receive
from app.core.settings import SettingsError

_CONNECT_SECONDS: Final = 2
_PING_SECONDS: Final = 5
DEFAULT_PREFIX: Final = "holdfast"
MAX_PENDING_BYTES: Final = 8 * 1024 * 1024
"""Heard and not looked at yet; what is over is dropped, and the next poll finds it."""


def servers_and_prefix(url: str) -> tuple[list[str], str]:
    """The addresses of one cluster, and what all subjects begin with."""
    scheme, _, rest = url.partition("://")
    hosts, _, prefix = rest.partition("/")
    prefix = prefix.strip("/") or DEFAULT_PREFIX
    addresses = [f"{scheme}://{host}" for host in hosts.split(",") if host]
    valid = all(char.isalnum() or char in "-_" for char in prefix)
    try:
        valid = (
            valid and bool(addresses) and all(urlsplit(one).hostname and urlsplit(one).port != 0 for one in addresses)
        )
    except ValueError:
        valid = False
    if not valid:
        # Without the URL: it may contain a password.
        raise SettingsError(
            [
                "HOLDFAST_BUS: must be nats://host:port, or nats://host:port/prefix with a prefix of letters, "
                "digits, dashes and underscores"
            ]
        )
    return addresses, prefix


class NatsBus:
    def __init__(self, url: str) -> None:
        self._servers, self._prefix = servers_and_prefix(url)
        self._client: Any = None
        self._subjects: set[str] = set()
        self._subscriptions: dict[str, Any] = {}
        self._receive: Receive = lambda subject, message: None
        self._connection = KeptConnection("nats", self._connect)
        self._lost: asyncio.Event | None = None

    @property
    def connected(self) -> bool:
        return self._connection.connected

    def start(self, receive: Receive, on_connected: Callable[[], None]) -> None:
        self._receive = receive
        self._connection.start(on_connected)

    def _spelled(self, subject: str) -> str:
        """A subject of NATS: its first word, and the rest as one word. Dots separate words there."""
        first, dot, rest = subject.partition(".")
        return f"{self._prefix}.{first}{dot}{rest.replace('%', '%25').replace('.', '%2E')}"

    async def _connect(self) -> Callable[[], Awaitable[None]]:
        import nats
        import nats.errors

        lost = asyncio.Event()

        async def ended() -> None:
            lost.set()

        async def failed(_error: Exception) -> None:
            return  # a slow consumer, or what closes the connection, which is reported by itself

        try:
            async with asyncio.timeout(2 * _CONNECT_SECONDS):
                client = await nats.connect(
                    self._servers,
                    allow_reconnect=False,
                    connect_timeout=_CONNECT_SECONDS,
                    ping_interval=_PING_SECONDS,
                    error_cb=failed,
                    disconnected_cb=ended,
                    closed_cb=ended,
                    name="holdfast",
                )
                self._subscriptions = {}
                self._client = client
                self._lost = lost
                # Also what is asked for meanwhile: until this returns, `listen` leaves it to the connection.
                while missing := sorted(self._subjects - self._subscriptions.keys()):
                    for subject in missing:
                        await self._subscribe(client, subject)
                    await _subscribed(client)
        except (nats.errors.Error, OSError, TimeoutError) as error:
            raise BusDown(f"NATS answered {type(error).__name__}") from error
        return lambda: self._until_lost(client, lost)

    async def _until_lost(self, client: Any, lost: asyncio.Event) -> None:
        await lost.wait()
        await _drop(client)

    async def _subscribe(self, client: Any, subject: str) -> None:
        async def heard(message: Any) -> None:
            self._receive(subject, message.data)
            if message.reply:
                with contextlib.suppress(Exception):
                    await message.respond(b"+")

        if subject not in self._subscriptions:
            self._subscriptions[subject] = None
            self._subscriptions[subject] = await client.subscribe(
                self._spelled(subject), cb=heard, pending_bytes_limit=MAX_PENDING_BYTES
            )

    async def listen(self, subject: str) -> None:
        self._subjects.add(subject)
        if self.connected:
            with contextlib.suppress(BusDown):
                await self._do(lambda client: self._subscribe_now(client, subject))

    async def _subscribe_now(self, client: Any, subject: str) -> None:
        await self._subscribe(client, subject)
        await _subscribed(client)

    async def leave(self, subject: str) -> None:
        self._subjects.discard(subject)
        subscription = self._subscriptions.pop(subject, None)
        if subscription is not None and self.connected:
            with contextlib.suppress(BusDown):
                await self._do(lambda client: subscription.unsubscribe())

    async def publish(self, messages: Sequence[tuple[str, bytes]]) -> None:
        async def send(client: Any) -> None:
            for subject, message in messages:
                await client.publish(self._spelled(subject), message)

        await self._do(send)

    async def request(self, subject: str, message: bytes, seconds: float) -> bool:
        import nats.errors

        async def ask(client: Any) -> bool:
            try:
                await client.request(self._spelled(subject), message, timeout=seconds)
            except (nats.errors.NoRespondersError, nats.errors.TimeoutError):
                return False
            return True

        return bool(await self._do(ask))

    async def _do(self, work: Callable[[Any], Awaitable[Any]]) -> Any:
        import nats.errors

        client = self._client
        if client is None or not self.connected:
            raise BusDown("there is no connection to NATS")
        try:
            return await work(client)
        except (nats.errors.Error, OSError) as error:
            raise BusDown(f"NATS answered {type(error).__name__}") from error

    def reconnect(self) -> None:
        if self._lost is not None:
            self._lost.set()

    async def close(self) -> None:
        await self._connection.close()
        if self._client is not None:
            await _drop(self._client)


async def _subscribed(client: Any) -> None:
    """Returns when the server has read every subscription. The client's `flush` writes its PING before the commands
    that wait to be sent: the first answer says nothing about them, the second one does."""
    await client.flush(_CONNECT_SECONDS)
    await client.flush(_CONNECT_SECONDS)


async def _drop(client: Any) -> None:
    """Without saying goodbye to a server that does not answer."""
    with contextlib.suppress(Exception):
        async with asyncio.timeout(1):
            await client.close()


def _make(deps: BusDeps) -> Bus:
    return NatsBus(deps.url)


KIND = BusKind(name="nats", make=_make, extra="nats", module="nats")

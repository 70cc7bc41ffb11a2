"""A server that says exactly the bytes a test wants, over a real socket, and a client that may reach it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from ssl import SSLContext

import pytest
import uvloop

from app.outside import direct, http
from app.outside.addresses import AddressPolicy
from app.outside.http import HttpClient, OutgoingRequest, OutsideError, Reply

LOOPBACK = AddressPolicy(private=frozenset({"127.0.0.1"}))
OK = b"HTTP/1.1 200 OK\r\n"


@pytest.fixture(scope="session")
def event_loop_policy() -> asyncio.AbstractEventLoopPolicy:
    """For modules that import it: the loop that the server runs on, whose transports differ from the plain ones."""
    policy: asyncio.AbstractEventLoopPolicy = uvloop.EventLoopPolicy()
    return policy


@pytest.fixture(autouse=True, params=["direct", "session"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """For modules that import it: as requests go with a tested version of aiohttp, and as with any other one."""
    monkeypatch.setattr(direct, "is_tested", lambda: request.param == "direct")
    http._loaded.cache_clear()
    yield str(request.param)
    http._loaded.cache_clear()


@dataclass
class Peer:
    """One connection, seen from the server."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def request(self) -> bytes:
        """The next request with its body; `IncompleteReadError` when the client has hung up."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        return head + await self.reader.readexactly(int(length[0].split(b":")[1]) if length else 0)

    async def say(self, *pieces: bytes) -> None:
        """Each piece in a read of its own, as far as a socket allows."""
        for piece in pieces:
            self.writer.write(piece)
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    async def hung_up(self) -> None:
        async with asyncio.timeout(30):
            while await self.reader.read(65_536):
                pass


@dataclass
class Place:
    port: int = 0
    connections: int = 0
    requests: list[bytes] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def get(self, **fields: object) -> OutgoingRequest:
        return OutgoingRequest("GET", self.url, policy=LOOPBACK, **fields)  # type: ignore[arg-type]  # of each test


Script = Callable[[Peer], Awaitable[None]]


@asynccontextmanager
async def speaking(script: Script, tls: SSLContext | None = None) -> AsyncIterator[Place]:
    """Runs the script for each connection; when it ends, the connection is closed."""
    place, tasks = Place(), set[asyncio.Task[None]]()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        place.connections += 1
        try:
            await script(Peer(reader, writer))
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    place.port = server.sockets[0].getsockname()[1]
    try:
        yield place
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks)


def answering(*answer: bytes, close: bool = False) -> Script:
    """The same pieces for each request of a connection."""

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.say(*answer)
            if close:
                return

    return script


@asynccontextmanager
async def a_client(ca_file: Path | None = None, /, **lookups: list[str]) -> AsyncIterator[HttpClient]:
    """A client for which the given names (with `_` for `.`) have the given addresses."""

    async def lookup(host: str, port: int) -> list[str]:
        return lookups[host.replace(".", "_")]

    client = HttpClient(lookup=lookup, ca_file=ca_file)
    try:
        async with asyncio.timeout(30):
            yield client
    finally:
        await client.close()


async def body_of(client: HttpClient, request: OutgoingRequest) -> bytes:
    async with await client.send(request) as reply:
        return await reply.read()


async def code_of(client: HttpClient, request: OutgoingRequest) -> str:
    with pytest.raises(OutsideError) as caught:
        await body_of(client, request)
    return caught.value.code


async def first(reply: Reply, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += await reply.some()
    return data

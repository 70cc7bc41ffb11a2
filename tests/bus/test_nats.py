"""NATS: `listen` returns when the server has read the subscription, not when the client has queued it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from app.bus.contract import Bus, BusDeps
from app.bus.kinds.nats import KIND, NatsBus
from tests.bus.servers import NatsServer
from tests.waiting import until


class SlowReader:
    """Stands between a client and its NATS server, and passes on a subscription only after a while, as a busy server
    reads it. Nothing overtakes it."""

    def __init__(self, port: int) -> None:
        self._port, self.delayed = port, 0
        self.open = 0
        self.url = ""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self._port)
        task = asyncio.create_task(self._answers(from_server, writer))
        try:
            while line := await reader.readline():
                if line.startswith(b"SUB"):
                    self.delayed += 1
                    await asyncio.sleep(0.2)
                to_server.write(line)
        finally:
            to_server.close()
            await asyncio.gather(task, to_server.wait_closed(), return_exceptions=True)
            self.open -= 1

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
        finally:
            writer.close()
            await writer.wait_closed()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["SlowReader"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            await until(lambda: self.open == 0)


@contextlib.asynccontextmanager
async def _listening(url: str, heard: list[tuple[str, bytes]]) -> AsyncIterator[Bus]:
    bus = KIND.make(BusDeps(url))
    connections: list[int] = []
    bus.start(lambda subject, message: heard.append((subject, message)), lambda: connections.append(1))
    await until(lambda: bool(connections))
    try:
        yield bus
    finally:
        await bus.close()


async def test_a_subject_is_heard_when_listen_returns_however_late_the_server_reads_it(nats_server: NatsServer) -> None:
    heard: list[tuple[str, bytes]] = []
    async with (
        SlowReader(nats_server.port).running() as slow,
        _listening(f"{slow.url}/slow", heard) as late,
        _listening(f"{nats_server.url}/slow", []) as sender,
    ):
        await late.listen("news.late")
        assert slow.delayed == 1
        await sender.publish([("news.late", b"[1]")])
        await until(lambda: heard == [("news.late", b"[1]")])


async def test_a_subject_that_is_asked_for_while_the_bus_connects_is_heard_afterwards(nats_server: NatsServer) -> None:
    heard: list[tuple[str, bytes]] = []
    connections: list[int] = []
    async with SlowReader(nats_server.port).running() as slow:
        bus = NatsBus(f"{slow.url}/slow")
        await bus.listen("news.first")
        bus.start(lambda subject, message: heard.append((subject, message)), lambda: connections.append(1))
        try:
            await until(lambda: slow.delayed == 1)
            assert not connections, "it still connects"
            await bus.listen("news.meanwhile")
            await until(lambda: bool(connections))
            await bus.publish([("news.meanwhile", b"[1]")])
            await until(lambda: heard == [("news.meanwhile", b"[1]")])
        finally:
            await bus.close()

"""A TCP proxy that cuts connections or lets nothing through, as networks do."""

import asyncio
import contextlib


class FaultyProxy:
    def __init__(self, port: int) -> None:
        self.target = port
        """Where new connections go, on this machine."""
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._open = asyncio.Event()
        self._open.set()

        self.port = 0

    async def start(self) -> "FaultyProxy":
        """Also again after `refuse`, at the same address."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    def refuse(self) -> None:
        """Nothing takes connections at this address, and those that there are end."""
        assert self._server is not None
        self._server.close()
        self.cut()

    def cut(self) -> None:
        """Every connection ends at once, without a goodbye."""
        for writer in list(self._writers):
            writer.transport.abort()

    def freeze(self) -> None:
        """Connections stay open, and nothing passes; not even that somebody hung up."""
        self._open.clear()

    def thaw(self) -> None:
        self._open.set()

    async def close(self) -> None:
        self.thaw()
        if self._server is not None:
            self._server.close()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        there: asyncio.StreamWriter | None = None
        try:
            await self._open.wait()
            back, there = await asyncio.open_connection("127.0.0.1", self.target)
            self._writers.add(there)
            ways = [asyncio.create_task(self._pass(reader, there)), asyncio.create_task(self._pass(back, writer))]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            for one in (writer, there):
                if one is not None:
                    self._writers.discard(one)
                    one.transport.abort()
            self._tasks.discard(task)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await self._open.wait()
                writer.write(data)
                await writer.drain()

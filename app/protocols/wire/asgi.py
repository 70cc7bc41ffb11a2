"""Connections over plain ASGI messages, for a server that is not the one `uvicorn_connection` was tested with.

What is written waits in a buffer for a task that sends it. Slower than writing to the transport, and a peer that never
reads loses its stream, but not the socket, which is the server's. Leaves to others: the bound of what is written,
which is `has_room`.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from starlette.types import Message, Receive, Send

from app.protocols.wire.connection import STREAM_HEADERS, Credentials, RawHeaders
from app.protocols.wire.websocket import messages

MAX_BUFFERED_BYTES: Final = 64 * 1024


class _Buffer:
    """Messages on their way to `send`."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._queue: deque[tuple[Message, int]] = deque()
        self._size = 0
        self._sending: asyncio.Task[None] | None = None
        self._room = asyncio.Event()
        self._room.set()
        self.credentials: Credentials | None = None
        self.has_room, self.lost = True, False
        self.on_lost: Callable[[], None] | None = None
        self.on_room: Callable[[], None] | None = None

    async def room(self) -> None:
        await self._room.wait()

    async def flushed(self, seconds: float) -> bool:
        if self._sending is not None:
            await asyncio.wait({self._sending}, timeout=seconds)
            if self._sending is not None:
                self.drop()
        return not self.lost

    def drop(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
        self._lose()

    def _put(self, message: Message, size: int) -> None:
        self._queue.append((message, size))
        self._size += size
        if self._size > MAX_BUFFERED_BYTES:
            self.has_room = False
            self._room.clear()
        if self._sending is None:
            self._sending = asyncio.get_running_loop().create_task(self._send_all())

    async def _send_all(self) -> None:
        try:
            while self._queue:
                message, size = self._queue.popleft()
                await self._send(message)
                self._size -= size
                if not self.has_room and self._size <= MAX_BUFFERED_BYTES // 4:
                    self.has_room = True
                    self._room.set()
                    if self.on_room is not None:
                        self.on_room()
        except OSError:
            self._lose()
        finally:
            self._sending = None

    def _lose(self) -> None:
        self.lost = True
        self._queue.clear()
        self._room.set()
        if self.on_lost is not None:
            self.on_lost()


class AsgiConnection(_Buffer):
    """One request's way to its client."""

    def __init__(self, receive: Receive, send: Send) -> None:
        super().__init__(send)
        self._receive = receive
        self._leaving: asyncio.Task[None] | None = None
        self._head: Message = {}
        self._complete = False
        self.begun = False
        self.headers: RawHeaders = ()
        self.on_begun: Callable[[int], None] | None = None

    @property
    def has_body_part(self) -> bool:
        return False

    @property
    def has_whole_body(self) -> bool:
        return False

    def take_body(self) -> bytes | None:
        return None

    def watch(self, on_lost: Callable[[], None]) -> None:
        self.on_lost = on_lost
        self._leaving = asyncio.get_running_loop().create_task(self._leave())

    def unwatch(self) -> None:
        self.on_lost = None
        if self._leaving is not None:
            self._leaving.cancel()

    async def _leave(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if not self._complete:
            self._lose()

    def open(self, headers: RawHeaders) -> None:
        sent = [*STREAM_HEADERS, *headers, *self.headers]
        self._head = {"type": "http.response.start", "status": 200, "headers": sent}
        self._leaving = asyncio.get_running_loop().create_task(self._leave())

    def write(self, data: bytes, *, last: bool = False) -> None:
        if self.lost or self._complete:
            return
        if not self.begun:
            self.begun = True
            if self.on_begun is not None:
                self.on_begun(200)
            self._put(self._head, 0)
        if data or last:
            self._put({"type": "http.response.body", "body": data, "more_body": not last}, len(data))
        self._complete = last


class AsgiSocket(_Buffer):
    """A websocket's way to its client."""

    begun = True

    def write(self, data: bytes, *, last: bool = False) -> None:
        if not self.lost:
            for message in messages(data):
                self._put({"type": "websocket.send", "text": message.decode()}, len(message))

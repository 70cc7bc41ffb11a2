"""Events as server-sent events: `id` is the thread's `seq`, so that a client resumes where it stopped.

The answer is written straight to the server: an event's bytes are made once, however many clients get them, and a
batch is one write. A client that does not read loses its connection; nothing waits for it. Leaves to others: joining
history and news (`events.follow`), who may listen (the routes).
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Final

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from app.core import json
from app.core.errors import Failure, HoldfastError
from app.events.envelope import Event
from app.events.follow import FellBehind
from app.protocols.http.connection import drop_of

COMMENT_SECONDS: Final = 15.0
"""Proxies close what is silent; a comment keeps the connection without being an event."""
STALL_SECONDS: Final = 6.0
"""How long a write may wait for a reader before the connection is dropped; it resumes from its cursor."""
_TICK_SECONDS: Final = 2.0
_COMMENT: Final = b": still here\n\n"
_HEADERS: Final = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)

Batches = AsyncGenerator[list[Event]]
Said = dict[str, object]
Ending = Callable[[Event], Said | None]
"""What to say at the end, if this event is the last of the stream."""


def encode(events: list[Event]) -> bytes:
    parts: list[bytes] = []
    for event in events:
        parts += (b"id: %d\nevent: %b\ndata: " % (event.seq, event.type.encode()), event.wire(), b"\n\n")
    return b"".join(parts)


def named(name: str, data: object) -> bytes:
    """A frame of ours that is no event: it has no id, so the client's cursor stays where it is."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), json.dumps(data))


class EventStream(Response):
    """Follows `batches` until `ending` says that an event was the last, the client leaves or the server stops.

    With `end`, there is nothing left to follow: the client has seen it all and is only told so.
    """

    def __init__(
        self,
        batches: Batches,
        *,
        ending: Ending,
        keep: Callable[[Event], bool] | None = None,
        end: Said | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(None, 200, headers)
        del self.headers["content-length"]
        self.raw_headers += _HEADERS
        self._batches, self._ending, self._keep, self._end = batches, ending, keep, end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        line = _Line(send)
        sending = asyncio.create_task(self._send(line))
        leaving = asyncio.create_task(_left(receive))
        watching = asyncio.create_task(_watch(line, drop_of(scope)))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, leaving, watching):
                task.cancel()
            await asyncio.gather(sending, leaving, watching, return_exceptions=True)
        if not sending.cancelled():
            sending.result()
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send(self, line: "_Line") -> None:
        if self._end is not None:
            await line.write(named("end", self._end))
            return
        try:
            async with contextlib.aclosing(self._batches) as batches:
                async for batch in batches:
                    if await self._send_batch(line, batch):
                        return
        except FellBehind as slow:
            failure = Failure("READER_TOO_SLOW", "more arrived than the reader took")
            await line.write(named("problem", _error(failure) | {"lastSeq": slow.last_seq}))
        except HoldfastError as error:
            await line.write(named("problem", _error(error.failure)))

    async def _send_batch(self, line: "_Line", batch: list[Event]) -> bool:
        wanted = batch if self._keep is None else [event for event in batch if self._keep(event)]
        for index, event in enumerate(wanted):
            last = self._ending(event)
            if last is not None:
                await line.write(encode(wanted[: index + 1]) + named("end", last))
                return True
        if wanted:
            await line.write(encode(wanted))
        return False


class _Line:
    """The way to the client: one write at a time, and since when it waits."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._clock = asyncio.get_running_loop().time
        self._lock = asyncio.Lock()
        self.idle_since = self._clock()
        self.waiting_since: float | None = None

    async def write(self, data: bytes) -> None:
        async with self._lock:
            self.waiting_since = self._clock()
            await self._send({"type": "http.response.body", "body": data, "more_body": True})
            self.waiting_since, self.idle_since = None, self._clock()

    @property
    def stalled(self) -> bool:
        return self.waiting_since is not None and self._clock() - self.waiting_since > STALL_SECONDS

    @property
    def silent(self) -> bool:
        return self.waiting_since is None and self._clock() - self.idle_since > COMMENT_SECONDS - _TICK_SECONDS


async def _watch(line: _Line, drop: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(_TICK_SECONDS)
        if line.stalled:
            drop()
            return
        if line.silent:
            await line.write(_COMMENT)


async def _left(receive: Receive) -> None:
    message: Message = {"type": ""}
    while message["type"] != "http.disconnect":
        message = await receive()


def _error(failure: Failure) -> Said:
    return {"code": failure.code, "message": failure.message, "remedy": failure.remedy}

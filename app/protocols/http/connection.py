"""The connection under an HTTP request: uvicorn's own, with a line to it for whoever must know more than messages say.

A stream is many small writes. As messages, each would pass every layer between its route and the socket, and cost a
task that waits for the client to leave; on its line it is one write, and a call when the client is gone. uvicorn also
ends a connection by letting its buffer run out, which a peer that never reads prevents for ever: a line can be dropped.

Leaves to others: what is written, how long a reader may take, whether the client is still welcome (whoever streams).
"""

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

LINE: Final = "holdfast.line"
"""The key of a request's line in `scope["extensions"]`."""
_STREAM: Final = STATUS_LINE[200] + (
    b"content-type: text/event-stream; charset=utf-8\r\ncache-control: no-store\r\nx-accel-buffering: no\r\n"
)
_UNFIT: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
"""What would end a header before its end."""

RawHeaders = Iterable[tuple[bytes, bytes]]


class Line:
    """One request's way to its client. A stream takes it with `open`, then writes until `last`.

    The head leaves with the first write, so that a client that is answered at once gets both in one piece.
    """

    __slots__ = ("_connection", "_cycle", "_head", "has_room", "headers", "lost", "on_begun", "on_lost", "on_room",
                 "still_welcome")  # fmt: skip

    def __init__(self, connection: "HttpConnection", cycle: RequestResponseCycle) -> None:
        self._connection, self._cycle = connection, cycle
        self._head = b""
        self.headers: RawHeaders = ()
        """What the gate adds to every answer."""
        self.still_welcome: Callable[[], Awaitable[bool]] | None = None
        """Of the gate: whether the client's credentials still count; None where nobody needs any."""
        self.on_begun: Callable[[int], None] | None = None
        """Of the gate: hears the status when the head is written."""
        self.has_room, self.lost = True, False
        self.on_lost: Callable[[], None] | None = None
        self.on_room: Callable[[], None] | None = None
        """Called when a full buffer has room again."""

    @property
    def has_news(self) -> bool:
        """Whether a part of the body is here, so that asking for it is no waiting."""
        return self._cycle.message_event.is_set()

    @property
    def begun(self) -> bool:
        return self._cycle.response_started

    async def room(self) -> None:
        """For who writes much at once."""
        if self._cycle.flow.write_paused:
            await self._cycle.flow.drain()

    def watch(self, on_lost: Callable[[], None]) -> None:
        """From now until the answer ended, hear of a client that leaves."""
        self.on_lost = on_lost
        self._connection.answering = self
        self.has_room = not self._cycle.flow.write_paused
        self._cycle.flow.resume_reading()  # a large body may have left it paused, and then nobody would notice

    def open(self, headers: RawHeaders) -> None:
        """The head of an event stream, with `headers` of its own."""
        content = [_STREAM]
        for name, value in (*self._cycle.default_headers, *headers, *self.headers):
            if _UNFIT.search(value) is not None:
                raise ValueError("a header's value contains a control character")
            content += (name, b": ", value, b"\r\n")
        content.append(b"transfer-encoding: chunked\r\n\r\n")
        self._head = b"".join(content)

    def write(self, data: bytes, *, last: bool = False) -> None:
        """Never waits: who writes without room fills the memory. What is lost by then is written to nobody."""
        cycle = self._cycle
        if self.lost or cycle.response_complete:
            return
        head = b""
        if not cycle.response_started:
            cycle.response_started = cycle.chunked_encoding = True
            if self.on_begun is not None:
                self.on_begun(200)
            head = self._head if cycle.keep_alive else self._head[:-2] + b"connection: close\r\n\r\n"
        body = b"%x\r\n%b\r\n" % (len(data), data) if data else b""
        cycle.transport.write(b"%b%b0\r\n\r\n" % (head, body) if last else head + body)
        if last:
            self._end()

    def drop(self) -> None:
        """For a peer that does not read: its connection ends at once."""
        self._cycle.transport.abort()

    def lose(self) -> None:
        self.lost = self._cycle.disconnected = True
        if self.on_lost is not None:
            self.on_lost()

    def _end(self) -> None:
        cycle = self._cycle
        cycle.response_complete = True
        cycle.message_event.set()
        self._connection.answering = None
        if not cycle.keep_alive:
            cycle.transport.close()
        cycle.on_response()


class HttpConnection(HttpToolsProtocol):
    answering: Line | None = None
    """The line that hears of this connection; answers leave one after the other."""

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and cycle.scope is self.scope:  # else it becomes a websocket
            # Its task has not begun yet.
            self.scope["extensions"] = {LINE: Line(self, cycle)}  # type: ignore[dict-item]  # an object, not a dict

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        line, self.answering = self.answering, None
        if line is not None:
            line.lose()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self.answering is not None:
            self.answering.has_room = False

    def resume_writing(self) -> None:
        super().resume_writing()
        line = self.answering
        if line is not None:
            line.has_room = True
            if line.on_room is not None:
                line.on_room()


def line_of(scope: Any) -> Line:
    """The request's line. Only our own connection has one."""
    line: Line = scope["extensions"][LINE]
    return line


def drop_of(scope: Any) -> Callable[[], None]:
    """What drops this request's connection; under another server, nothing does."""
    line: Line | None = (scope.get("extensions") or {}).get(LINE)
    return (lambda: None) if line is None else line.drop

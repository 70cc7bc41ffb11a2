"""Connections that write straight to uvicorn's transports, by fields that uvicorn does not publish.

A stream is many small writes. As messages, each would pass every layer between its route and the socket, and cost a
task that waits for the client to leave; here it is one write, and a call when the client is gone. uvicorn also ends a
connection by letting its buffer run out, which a peer that never reads prevents for ever: these can be dropped.

Everything that depends on uvicorn's inside is in this module. `is_tested` says whether the installed versions are
those it was tested with; with others the server uses uvicorn's own protocols, and streams go through `wire.asgi`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import unquote

import httptools
from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from app.protocols.wire.connection import CONNECTION, STREAM_HEADERS, WHOLE_BODY_BYTES, Credentials, RawHeaders

if TYPE_CHECKING:
    from uvicorn._types import HTTPScope

TESTED: Final = {"uvicorn": ("0.54.",), "httptools": ("0.9.",), "websockets": ("15.", "17.")}
"""How the versions begin with which these connections were tested. The lock has websockets 15, because agent
frameworks allow nothing newer."""
HEAD_SECONDS: Final = 10.0
"""From the connection, or the first byte of a further request, until the headers are complete."""
LINGER_SECONDS: Final = 2.0
"""How long what still comes is thrown away after a refusal: closing at once would destroy the answer on its way."""
_MAX_DISCARDED_BYTES: Final = 1024 * 1024
_HEAD_END: Final = b"\r\n\r\n"
_STREAM: Final = STATUS_LINE[200] + b"".join(b"%b: %b\r\n" % header for header in STREAM_HEADERS)
_UNFIT: Final = bytes({*range(0x20), 0x7F} - {0x09})
"""What would end a header before its end."""


version = cache(metadata.version)


def is_tested() -> bool:
    return all(version(name).startswith(begin) for name, begin in TESTED.items())


async def _within(seconds: float, taken: Awaitable[object], drop: Callable[[], None]) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await taken
    except TimeoutError:
        drop()
        return False
    return True


class UvicornConnection(RequestResponseCycle):
    """One request's way to its client: uvicorn's own record of the request, with writes past its messages."""

    def __init__(self, protocol: "HttpProtocol", scope: "HTTPScope", *, keep_alive: bool) -> None:
        # By position: a name for each would double what this costs.
        super().__init__(
            scope,
            protocol.transport,
            protocol.flow,
            protocol.logger,
            protocol.access_logger,
            protocol.access_log,
            protocol.server_state.default_headers,
            asyncio.Event(),
            protocol.expect_100_continue,
            keep_alive,
            protocol.on_response_complete,
        )
        self._protocol = protocol
        self._head = b""
        self.headers: RawHeaders = ()
        self.credentials: Credentials | None = None
        self.on_begun: Callable[[int], None] | None = None
        self.has_room, self.lost = True, False
        self.on_lost: Callable[[], None] | None = None
        self.on_room: Callable[[], None] | None = None

    @property
    def has_body_part(self) -> bool:
        return self.message_event.is_set()

    @property
    def has_whole_body(self) -> bool:
        return not (self.more_body or self.disconnected) and len(self.body) <= WHOLE_BODY_BYTES

    def take_body(self) -> bytes | None:
        if not self.has_whole_body or self.waiting_for_100_continue or not self.message_event.is_set():
            return None  # a sender that asks first whether it may send gets an answer
        body = bytes(self.body)
        self.body = bytearray()
        self.message_event.clear()
        return body

    @property
    def begun(self) -> bool:
        return self.response_started

    async def room(self) -> None:
        if self.flow.write_paused:
            await self.flow.drain()

    def watch(self, on_lost: Callable[[], None]) -> None:
        self.on_lost = on_lost
        self._protocol.answering = self
        self.has_room = not self.flow.write_paused
        self.flow.resume_reading()  # a large body may have left it paused, and then nobody would notice

    def unwatch(self) -> None:
        self.on_lost = None

    def open(self, headers: RawHeaders) -> None:
        lines = [b"%b: %b" % header for header in (*self.default_headers, *headers, *self.headers)]
        written = b"".join(lines)
        if written.translate(None, _UNFIT) != written:  # a fraction of what a regular expression costs
            raise ValueError("a header contains a control character")
        lines.append(b"transfer-encoding: chunked\r\n\r\n")
        self._head = _STREAM + b"\r\n".join(lines)
        self._protocol.answering = self
        self.has_room = not self.flow.write_paused
        if self.flow.read_paused:
            self.flow.resume_reading()

    def write(self, data: bytes, *, last: bool = False) -> None:
        if self.lost or self.response_complete:
            return
        head = b""
        if not self.response_started:
            self.response_started = self.chunked_encoding = True
            if self.on_begun is not None:
                self.on_begun(200)
            head = self._head if self.keep_alive else self._head[:-2] + b"connection: close\r\n\r\n"
        body = b"%x\r\n%b\r\n" % (len(data), data) if data else b""
        self.transport.write(b"%b%b0\r\n\r\n" % (head, body) if last else head + body)
        if last:
            self._end()

    def drop(self) -> None:
        self.transport.abort()

    async def flushed(self, seconds: float) -> bool:
        flow = self.flow
        return not self.lost and (not flow.write_paused or await _within(seconds, flow.drain(), self.drop))

    def lose(self) -> None:
        self.lost = self.disconnected = True
        if self.on_lost is not None:
            self.on_lost()

    def _end(self) -> None:
        self.response_complete = True
        self.message_event.set()
        self._protocol.answering = None
        if not self.keep_alive:
            self.transport.close()
        self.on_response()


class HttpProtocol(HttpToolsProtocol):
    """uvicorn's HTTP, with a connection for whoever streams and bounds on what comes before a request's headers end.

    Headers that never end or never come would otherwise be waited for, and kept, without limit.
    """

    max_head_bytes = 32 * 1024
    """Over this the headers are not kept; a smaller limit is for the gate to answer."""
    answering: UvicornConnection | None = None
    """The connection that is notified of what happens to the transport; answers leave one after the other."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._head_timer: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._idle_since: float | None = None
        """When the last answer ended, until the next request begins."""
        self._in_head = True
        self._head_bytes = 0
        self._head_tail = b""
        """The last bytes of the head so far: its end may be cut in two."""
        self._discarded: int | None = None
        """Bytes that came after the refusal; None before it."""

    def head_refusal(self, path: str) -> Response:
        """The answer to headers that are too large."""
        return Response(b"the headers are too large", 431, media_type="text/plain")

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        super().connection_lost(exc)
        answering, self.answering = self.answering, None
        if answering is not None:
            answering.lose()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self.answering is not None:
            self.answering.has_room = False

    def resume_writing(self) -> None:
        super().resume_writing()
        answering = self.answering
        if answering is not None:
            answering.has_room = True
            if answering.on_room is not None:
                answering.on_room()

    # -- the head of a request -----------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._discarded is not None:
            self._discard(len(data))
            return
        if self._in_head:
            # Counted before it is parsed: the parser keeps an endless header to itself.
            self._head_bytes += len(data)
            if self._head_bytes > self.max_head_bytes and not self._ends_in(data):
                self._refuse()
                return
        super().data_received(data)
        if self._in_head:  # most heads come in one piece and are waited for by nobody
            self._head_tail = (self._head_tail + data[-3:])[-3:]
            if self._head_timer is None:
                self._start_timer()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head_bytes = 0
        self._head_tail = b""
        self._stop_timer()
        parser, scope = self.parser, self.scope
        if parser.should_upgrade() and self._should_upgrade():
            super().on_headers_complete()  # it becomes a websocket
            return
        # As uvicorn does it, with a connection in place of its cycle. Its limit of connections is not used: the gate
        # has its own bounds.
        version, url = parser.get_http_version(), httptools.parse_url(self.url)
        path = url.path.decode("ascii")
        scope["method"], scope["http_version"] = parser.get_method().decode("ascii"), version
        scope["path"], scope["raw_path"] = unquote(path) if "%" in path else path, url.path
        scope["query_string"] = url.query or b""
        before: RequestResponseCycle | None = self.cycle
        made = UvicornConnection(self, scope, keep_alive=version != "1.0" and parser.should_keep_alive())
        self.cycle = made
        scope["extensions"] = {CONNECTION: made}  # type: ignore[dict-item]  # an object, not a dict
        if before is None or before.response_complete:
            self._start_asgi_task(made, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((made, self.app))

    # -- between two requests ------------------------------------------------------------------------

    def on_response_complete(self) -> None:
        """As uvicorn's, but with one timer while requests come: one for each would cost more than all else here."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
            return
        self._idle_since = self.loop.time()
        if self._idle_timer is None:
            self._idle_timer = self.loop.call_later(self.timeout_keep_alive, self._close_if_idle)

    def _unset_keepalive_if_required(self) -> None:
        self._idle_since = None

    def _close_if_idle(self) -> None:
        self._idle_timer = None
        if self._idle_since is None:
            return  # a request is being answered
        left = self._idle_since + self.timeout_keep_alive - self.loop.time()
        if left > 0:
            self._idle_timer = self.loop.call_later(left, self._close_if_idle)
        else:
            self.timeout_keep_alive_handler()

    # -- refusals ------------------------------------------------------------------------------------

    def _ends_in(self, data: bytes) -> bool:
        """A large piece may hold the end of the headers and much of a body; then all is well."""
        return _HEAD_END in self._head_tail + data[: self.max_head_bytes + len(_HEAD_END)]

    def _refuse(self) -> None:
        """Without reading on. Behind an answer that is still being written there is no place for another."""
        self._stop_timer()
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            self.transport.abort()
            return
        refused = self.head_refusal(getattr(self, "url", b"").partition(b"?")[0].decode("latin-1"))
        head = b"".join(b"%b: %b\r\n" % header for header in refused.raw_headers)
        self.transport.write(b"%b%b\r\n%b" % (STATUS_LINE[refused.status_code], head, bytes(refused.body)))
        self.transport.write_eof()
        self._discarded = 0
        self._head_timer = self.loop.call_later(LINGER_SECONDS, self._too_slow)

    def _discard(self, size: int) -> None:
        assert self._discarded is not None
        self._discarded += size
        if self._discarded > _MAX_DISCARDED_BYTES:
            self._stop_timer()
            self.transport.abort()

    def _start_timer(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _too_slow(self) -> None:
        self._head_timer = None
        self.transport.abort()


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """uvicorn's websocket as a connection for ready-made frames; a peer that does not read is dropped at the end."""

    on_room: Callable[[], None] | None = None
    on_lost: Callable[[], None] | None = None
    """Never called: the route hears of it by its next message."""
    credentials: Credentials | None = None
    has_room = True
    begun = True

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if not self.handshake_complete:  # it was not refused, and its task has not begun
            cast("dict[str, object]", self.scope["extensions"])[CONNECTION] = self

    def write(self, data: bytes, *, last: bool = False) -> None:
        if not (self.disconnected or self.close_sent or self.transport.is_closing()):
            self.transport.write(data)

    async def room(self) -> None:
        await self.writable.wait()

    def drop(self) -> None:
        self.transport.abort()

    async def flushed(self, seconds: float) -> bool:
        return await _within(seconds, self.writable.wait(), self.drop) and not self.disconnected

    def pause_writing(self) -> None:
        super().pause_writing()
        self.has_room = False

    def resume_writing(self) -> None:
        super().resume_writing()
        self.has_room = True
        if self.on_room is not None:
            self.on_room()

    # uvicorn lets the buffer run out before it closes.

    async def run_asgi(self) -> None:
        await super().run_asgi()
        self._drop_if_stuck()

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self._drop_if_stuck()

    def shutdown(self) -> None:
        super().shutdown()
        self._drop_if_stuck()

    def _drop_if_stuck(self) -> None:
        # Writable means that the buffer is as good as empty: the peer gets the closing frame in the ordinary way.
        if not self.writable.is_set():
            self.transport.abort()

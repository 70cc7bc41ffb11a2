"""What aiohttp need not do for us: its session around a small request, its writer and response, and keeping the chunks
of an answer apart.

The session looks at cookies, redirects, middlewares, traces and proxies, none of which we want, and on Python 3.11 it
starts a task to write a body: together a third of what a short request costs. Pools, TLS, the protocol and its parser
stay aiohttp's. Uses fields that aiohttp does not document, so only with versions that were tested; with any other one
requests go through the session, as large uploads and requests to a proxy always do, and answers are read by chunks.
"""

import asyncio
from collections.abc import Awaitable
from functools import lru_cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import aiohttp
from aiohttp import http_writer
from aiohttp.helpers import TimerNoop
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import StreamReader
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

if TYPE_CHECKING:
    from aiohttp.http_parser import RawResponseMessage
    from aiohttp.http_writer import HttpVersion

TESTED: Final = ("3.14.",)
"""How the versions begin with which this was tested."""

_PIECE_BYTES: Final = 32
"""What a piece counts for beside its bytes: few bytes in very many pieces are much memory all the same."""
_REPEATABLE: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
_NO_TIMER: Final = TimerNoop()


@lru_cache(maxsize=1)
def is_tested() -> bool:
    return version("aiohttp").startswith(TESTED)


class JoinedBody(StreamReader):
    """The body of an answer, read as whatever has arrived. aiohttp's keeps track of where each chunk of the transfer
    ends, and does its accounts for each of them: a streamed answer has a chunk for every token."""

    __slots__ = ()

    @classmethod
    def take_over(cls, body: StreamReader | None) -> None:
        """Makes the body of an answer one of these; what has arrived of it stays."""
        # Who wants aiohttp to watch a time gets a reader that does.
        if type(body) is StreamReader and type(body._timer) is TimerNoop and is_tested():
            body.__class__ = cls  # the parser made it, and asks nobody which class to take

    # Called for every chunk, and nobody asks where chunks end: these are the cheapest callables that do nothing.
    begin_http_chunk_receiving = staticmethod(bool)  # type: ignore[assignment]
    end_http_chunk_receiving = staticmethod(bool)  # type: ignore[assignment]

    def feed_data(self, data: bytes, size: int = 0) -> bool:
        """Called by the parser for every chunk; when it has done with all of them that came together, `fed` is."""
        if data:
            self._buffer.append(data)
            self._size += size + _PIECE_BYTES
            if self._size > self._high_water:
                self._protocol.pause_reading()  # the parser stops here, and keeps what is left
        return False

    def fed(self) -> None:
        """Whoever waits for a part of the body goes on."""
        waiter = self._waiter
        if waiter is not None and self._buffer:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)

    def arrival(self) -> "asyncio.Future[None] | None":
        """What to await before `taken`; None if that need not wait. For one reader, as `readany`, which is a coroutine
        of its own for every part."""
        if self._exception is not None:
            raise self._exception
        if self._buffer or self._eof:
            return None
        if self._protocol.transport is None:
            raise RuntimeError("the connection is closed")
        if self._waiter is not None and not self._waiter.done():  # whoever was cancelled waits no longer
            raise RuntimeError("the body is read already")
        waiter: asyncio.Future[None] = asyncio.Future()  # of the running loop; to name the loop costs as much again
        self._waiter = waiter
        return waiter

    def taken(self) -> bytes:
        """Whatever has arrived; empty at the end of the body."""
        buffer = self._buffer
        data = buffer[0] if len(buffer) == 1 else b"".join(buffer)
        buffer.clear()
        self._http_chunk_splits = None
        self._size = 0
        self._cursor += len(data)
        protocol = self._protocol
        if protocol._reading_paused or protocol._buffer_paused:
            protocol.resume_reading()
        return data

    def _read_nowait(self, n: int) -> bytes:
        return super()._read_nowait(n) if n != -1 or self._buffer_offset else self.taken()


def as_joined(body: StreamReader) -> JoinedBody | None:
    return body if isinstance(body, JoinedBody) else None


class UnaskedAnswer(Exception):
    """A kept connection already holds an answer to nothing that was asked. Nothing was sent over it."""


class DirectRequest(aiohttp.ClientRequest):
    """What a connector wants to know of a request; nothing is looked up or added."""

    def __init__(  # the parent's would look for what is never there
        self, loop: asyncio.AbstractEventLoop, method: str, url: URL, headers: dict[str, str], body: bytes
    ) -> None:
        self.method, self.original_url, self.loop = method, url, loop
        self.url = url.with_fragment(None) if url.raw_fragment else url
        self.headers = headers  # type: ignore[assignment]  # written as they are, and looked up by nobody
        self.proxy = self.proxy_auth = self.proxy_headers = self.server_hostname = None
        self._ssl, self._content = True, body

    @property
    def request_info(self) -> aiohttp.RequestInfo:
        """For an error."""
        return aiohttp.RequestInfo(self.url, self.method, CIMultiDictProxy(CIMultiDict(self.headers)), self.url)

    def write_to(self, connection: "aiohttp.connector.Connection") -> None:
        """Sends all of it at once, which aiohttp's writer would do in five calls."""
        protocol = connection._protocol
        # What arrived while the connection was idle would be taken for the answer to this request.
        if protocol is None or protocol.should_close:
            raise UnaskedAnswer
        transport = protocol.transport
        if transport is None or transport.is_closing():
            raise aiohttp.ClientConnectionResetError("the connection is closed")
        # Looked up here: a version without it, which would not be a tested one, can still be imported.
        head = http_writer._serialize_headers(f"{self.method} {self.url.raw_path_qs} HTTP/1.1", self.headers)
        transport.write(head + self._content)


class DirectAnswer:
    """The head of an answer, and its body as it arrives: as much of aiohttp's response as a `Reply` needs."""

    __slots__ = ("connection", "content", "headers", "status")

    def __init__(
        self, connection: "aiohttp.connector.Connection", message: "RawResponseMessage", content: StreamReader
    ) -> None:
        self.status, self.headers, self.content = message.code, message.headers, content
        self.connection: aiohttp.connector.Connection | None = connection
        """Until all of the body has arrived; then it is kept for another request."""
        content.on_eof(self._arrived)

    def _arrived(self) -> None:
        if self.connection is not None:
            self.connection.release()
            self.connection = None

    def close(self) -> None:
        """Of a body that is still to come, nothing can be read any more."""
        if self.content.exception() is None:
            self.content.set_exception(aiohttp.ClientConnectionError("the answer was closed"))
        if self.connection is not None:
            self.connection.close()
            self.connection = None


def ends_clearly(status: int, version: "HttpVersion | None", headers: CIMultiDictProxy[str]) -> bool:
    """Whether there is one opinion on where the answer ends. aiohttp takes more than that, and it would let a server
    switch to a protocol that nobody asked for."""
    if status == 101 or version not in (aiohttp.HttpVersion10, aiohttp.HttpVersion11):
        return False
    coding = headers.getall("Transfer-Encoding", ())
    return not coding or (version == aiohttp.HttpVersion11 and ",".join(coding).strip().lower() == "chunked")


def exchange(
    session: aiohttp.ClientSession,
    method: str,
    url: URL,
    headers: dict[str, str],
    body: bytes,
    timeout: aiohttp.ClientTimeout,
    params: dict[str, Any],
) -> Awaitable[DirectAnswer]:
    """Awaited: the answer, once its head has arrived. `params` are those of the protocol that the session would set."""
    connector = session.connector
    if connector is None:
        raise RuntimeError("the session is closed")
    headers = {"Host": url.host_port_subcomponent or "", **headers}
    request = DirectRequest(connector._loop, method, url, headers, body)
    send = _repeated if method in _REPEATABLE else _once
    return send(connector, request, timeout, params)


async def _repeated(
    connector: aiohttp.BaseConnector,
    request: DirectRequest,
    timeout: aiohttp.ClientTimeout,
    params: dict[str, Any],
) -> DirectAnswer:
    try:
        return await _once(connector, request, timeout, params)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError):
        # The other side may have closed a kept connection just when it was used.
        return await _once(connector, request, timeout, params)


async def _once(
    connector: aiohttp.BaseConnector,
    request: DirectRequest,
    timeout: aiohttp.ClientTimeout,
    params: dict[str, Any],
) -> DirectAnswer:
    try:
        connection = await connector.connect(request, traces=[], timeout=timeout)
    except TimeoutError as error:
        raise aiohttp.ConnectionTimeoutError(f"no connection to {request.headers['Host']}") from error
    protocol = connection._protocol
    assert protocol is not None
    try:
        protocol.set_response_params(
            timer=_NO_TIMER,
            skip_payload=request.method == "HEAD",
            read_until_eof=True,
            read_timeout=timeout.sock_read,
            **params,
        )
        request.write_to(connection)
        if timeout.sock_read is not None:
            protocol.start_timeout()
        message, content = await protocol.read()
        while 100 <= message.code < 200 and message.code != 101:  # the answer itself follows
            message, content = await protocol.read()
        if not ends_clearly(message.code, message.version, message.headers):
            raise aiohttp.ClientResponseError(request.request_info, (), message="unclear framing")
    except HttpProcessingError as error:
        connection.close()
        raise aiohttp.ClientResponseError(request.request_info, (), status=error.code, message=error.message) from error
    except BaseException:
        connection.close()
        raise
    if type(content) is not JoinedBody:  # which it is where its first part came with the head
        JoinedBody.take_over(content)
    return DirectAnswer(connection, message, content)

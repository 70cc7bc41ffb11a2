"""aiohttp as we use it: pools whose connections go to checked addresses, bodies with a length, failures by code.

Loaded with the first request, so that a start without one is quicker. Leaves to `routes`: which hosts a policy allows;
to `http`: what an answer means and how much of it is read.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.helpers import _EXC_SENTINEL
from aiohttp.http_exceptions import HttpProcessingError

from app.outside.addresses import is_public, normal_host
from app.outside.direct import JoinedBody, ends_clearly
from app.outside.direct import UnaskedAnswer as UnaskedAnswer
from app.outside.failures import OutsideError, not_public

# Long enough to spare a burst of calls the lookup, short enough to follow a provider that moves.
_DNS_CACHE_SECONDS: Final = 10
KEPT_SECONDS: Final = 30.0
ANSWERS: Final[dict[str, Any]] = {
    "auto_decompress": False,  # `inflate` never unpacks more than the caller has room for
    "read_bufsize": 128 * 1024,  # how much may wait to be read before the other side is made to wait
    "max_line_size": 8 * 1024,
    "max_field_size": 32 * 1024,
    "max_headers": 128,
}
"""How answers are read, whoever sent the request."""
# A body up to this size goes out in one write; a larger one in parts, so that the loop is not held up by it.
MAX_AT_ONCE: Final = 64 * 1024
_END_OF_HEAD: Final = b"\r\n\r\n"
_receive: Final = ResponseHandler.data_received
"""Not through `super()`, which makes an object each time: this is done for every token of every model."""

Lookup = Callable[[str, int], Any]
"""Awaited: the addresses of a host, in the order in which to try them."""


def open_session(lookup: Lookup | None, tls: ssl.SSLContext | None, *, private: bool) -> aiohttp.ClientSession:
    connector = _Connector(
        resolver=_Resolver(lookup or _system_lookup, refuse_private=not private),
        limit=0,  # callers bound their own concurrency, fairly between tenants
        ttl_dns_cache=_DNS_CACHE_SECONDS,
        keepalive_timeout=KEPT_SECONDS,
        # aiohttp read the system's authorities when it was imported; to read them again takes 16 ms and 2 MB.
        ssl=True if tls is None else tls,
    )
    return aiohttp.ClientSession(
        connector=connector,
        request_class=_Request,
        response_class=_Response,
        cookie_jar=aiohttp.DummyCookieJar(),  # nothing one tenant received is sent for another
        skip_auto_headers=("Content-Type",),
        trust_env=False,  # which hosts may use a proxy is for `http` to say
        **ANSWERS,
    )


class _Connector(aiohttp.TCPConnector):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        # Without this field connections would be aiohttp's own, which cost more and do the same.
        self._factory: Any = partial(_Connection, loop=self._loop)


class _Connection(ResponseHandler):
    def data_received(self, data: bytes) -> None:
        """The head of an answer goes to the parser by itself, so that what came with it is already joined."""
        body = self._payload
        if type(body) is not JoinedBody or body._eof:
            end = data.find(_END_OF_HEAD) + len(_END_OF_HEAD)
            if len(_END_OF_HEAD) <= end < len(data):
                _receive(self, data[:end])
                if self._exception is not None:
                    return
                body = self._payload
                JoinedBody.take_over(body)
                data = data[end:]
        _receive(self, data)
        if type(body) is JoinedBody:
            body.fed()

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Asked after every part that was read, even if nothing was paused, and then it would go through the parser
        and the transport for nothing: a streamed answer has hundreds of parts."""
        if getattr(self, "_reading_paused", True) or getattr(self, "_buffer_paused", True):
            super().resume_reading(resume_parser)

    def set_exception(self, exc: BaseException, exc_cause: BaseException = _EXC_SENTINEL) -> None:
        """A parser that fails in the middle of a body reports it to the connection alone: without this, whoever reads
        the body would wait until his time is over."""
        body = self._payload
        if isinstance(exc, HttpProcessingError) and body is not None and not body.is_eof():
            if type(body) is JoinedBody:
                body.fed()  # what came before it is read first
            body.set_exception(aiohttp.ClientPayloadError("the body is framed wrongly"), exc)
        super().set_exception(exc, exc_cause)


class _Request(aiohttp.ClientRequest):
    async def send(self, conn: "aiohttp.connector.Connection") -> aiohttp.ClientResponse:
        # What arrived while the connection was idle would be taken for the answer to this request.
        if conn.protocol is None or conn.protocol.should_close:
            conn.close()
            raise UnaskedAnswer
        return await super().send(conn)


class _Response(aiohttp.ClientResponse):
    async def start(self, connection: "aiohttp.connector.Connection") -> aiohttp.ClientResponse:
        protocol = connection._protocol
        await super().start(connection)
        if not ends_clearly(self.status, self.version, self.headers):
            self.close()
            if protocol is not None:
                protocol.force_close()  # it may be back among the kept ones already
            raise aiohttp.ClientResponseError(self.request_info, (), message="unclear framing")
        if type(self.content) is not JoinedBody:  # which it is where its first part came with the head
            JoinedBody.take_over(self.content)
        return self


class _Resolver(AbstractResolver):
    """Looks a name up, checks what it finds, and hands the connector exactly the addresses that were checked."""

    def __init__(self, lookup: Lookup, *, refuse_private: bool) -> None:
        self._lookup, self._refuse_private = lookup, refuse_private

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        try:
            found: Sequence[str] = await self._lookup(host, port)
        except UnicodeError as error:
            raise OSError("the name cannot be looked up") from error
        if not found:
            raise OSError("the name has no address")
        if self._refuse_private and not all(map(is_public, found)):
            # One private address among public ones is already an attempt to reach it by retrying.
            raise not_public(normal_host(host))
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                proto=0,
                flags=socket.AI_NUMERICHOST,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
            )
            for address in found
        ]

    async def close(self) -> None:
        return None


async def _system_lookup(host: str, port: int) -> Sequence[str]:
    found = await asyncio.get_running_loop().getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
    )
    return list(dict.fromkeys(str(address[4][0]) for address in found))


class UploadBody:
    """A body in pieces, exactly as long as was announced. What fails while it is read is kept: aiohttp would hide it
    behind a broken connection."""

    def __init__(self, pieces: Iterator[bytes], length: int) -> None:
        self._pieces, self._left = pieces, length
        self.failure: Exception | None = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            for piece in self._pieces:
                self._left -= len(piece)
                if self._left < 0:
                    break
                yield piece
            if self._left:
                raise ValueError("the pieces of a body are not of the length that was announced")
        except Exception as error:
            self.failure = error
            raise


def in_parts(body: bytes) -> Iterator[bytes]:
    return (body[at : at + MAX_AT_ONCE] for at in range(0, len(body), MAX_AT_ONCE))


def translated(error: BaseException, place: str) -> OutsideError | None:
    """A failure of the other side as one of ours; None for whatever else it is. A cause is not repeated."""
    if isinstance(error, aiohttp.ClientHttpProxyError):
        words = f"the proxy refused to connect to {place} ({error.status})"
        return OutsideError("OUTSIDE_UNREACHABLE", words, retryable=error.status not in (401, 403, 407))
    if isinstance(error, aiohttp.ClientResponseError):
        return OutsideError("OUTSIDE_CUT_OFF", f"{place} sent an invalid HTTP response", retryable=True)
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return OutsideError("OUTSIDE_UNREACHABLE", f"{place} did not accept the connection in time", retryable=True)
    if isinstance(error, TimeoutError):
        return OutsideError("OUTSIDE_TIMEOUT", f"{place} did not answer in time", retryable=True)
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ClientProxyConnectionError):
        return OutsideError("OUTSIDE_UNREACHABLE", f"{place} cannot be reached", retryable=True)
    if isinstance(error, aiohttp.ClientError | OSError):
        return OutsideError("OUTSIDE_CUT_OFF", f"{place} closed the connection early", retryable=True)
    return None

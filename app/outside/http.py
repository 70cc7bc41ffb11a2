"""HTTP to the outside: the one door through which requests leave the process.

A request goes to an address that was resolved once, checked and pinned; private ranges are refused unless
the host is allowed by name; each redirect is checked like a first request; bodies are bounded both ways in.
Leaves to others: retries, meaning of a status, which hosts a workspace allows (`AddressPolicy`).

    client = HttpClient()
    async with await client.send(Outgoing("GET", "https://example.org/")) as reply:
        body = await reply.read()

The client is ours because every token of every agent passes it: on the transports of the loop and the parser that
the server uses anyway, an exchange costs a fraction of the calls of a general client, and there is nothing to
switch off (proxies, cookies, redirects, protocols) before it is safe. It speaks HTTP/1.1 only.

Failures are `OutsideError`s with a stable code; no message repeats a path, a query, a header or a body.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Final, Self

from multidict import CIMultiDict

from app.core import tracing
from app.outside.addresses import PUBLIC_ONLY, AddressPolicy
from app.outside.failures import OutsideError as OutsideError
from app.outside.heads import Route, lines, opening, parsed, route
from app.outside.inflate import BrokenBody, Inflater, inflater
from app.outside.names import Lookup
from app.outside.pool import Pool
from app.outside.wire import Connection
from app.outside.wire import Segments as Segments

DEFAULT_MAX_BYTES: Final = 16 * 1024 * 1024
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
# What may follow a redirect to another origin; everything else might carry a credential.
_SAFE_HEADERS: Final = frozenset({"accept", "accept-language", "content-type", "user-agent"})
_BODY_HEADERS: Final = frozenset({"content-type", "content-length", "content-encoding"})
# Whose requests say nothing about a body when they have none; the others say that it is empty.
_WITHOUT_BODY: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
# What may be sent a second time when the connection it went to turned out to be dead.
_IDEMPOTENT: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds; None means no limit. `idle` is the longest silence between two reads."""

    connect: float | None = 10.0
    idle: float | None = 60.0
    total: float | None = 300.0


@dataclass(frozen=True, slots=True)
class Outgoing:
    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | Segments | None = None
    policy: AddressPolicy = PUBLIC_ONLY
    deadlines: Deadlines = Deadlines()
    max_bytes: int = DEFAULT_MAX_BYTES
    """Bound of the answer's body, after decompression."""
    max_redirects: int = 0


class Reply:
    """An answer whose body may still be on its way. Closing it before the end closes the connection."""

    __slots__ = (
        "_connection", "_ended", "_idle", "_inflater", "_left", "_packed_left", "_pool", "_route", "headers", "status",
    )  # fmt: skip

    def __init__(self, connection: Connection, pool: Pool, request: Outgoing) -> None:
        self._connection: Connection | None = connection
        self._pool = pool
        self._route = connection.route
        self._idle = request.deadlines.idle
        self._left = self._packed_left = request.max_bytes
        self._ended = False
        self.status: Final = connection.status
        self.headers: Final[Mapping[str, str]] = connection.headers
        self._inflater = self._unpacking(connection.headers) if "Content-Encoding" in connection.headers else None

    @property
    def content_type(self) -> str:
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    @property
    def origin(self) -> str:
        return self._route.origin

    @property
    def ended(self) -> bool:
        """Whether all of the body was read, as far as is known without waiting."""
        connection = self._connection
        return self._ended if connection is None else connection.complete and not connection.pieces

    @property
    def arrived(self) -> bool:
        """Whether something of the body can be read without waiting."""
        connection = self._connection
        return connection is not None and bool(connection.pieces)

    async def some(self) -> bytes:
        """Whatever has arrived, at least one byte; empty at the end of the body."""
        connection = self._connection
        if connection is None:
            if self._ended:
                return b""
            raise self._cut_off("was closed before its end")
        while not connection.complete or connection.pieces:
            if connection.pieces:
                data = connection.take()
                if self._inflater is not None:
                    data = self._unpacked(self._inflater, data)
                self._left -= len(data)
                if self._left < 0:
                    raise self._too_large()
                if connection.complete:
                    self._end()
                if data or self._ended:
                    return data
            elif connection.fault is not None:
                raise connection.error()
            else:
                await connection.news(self._idle)
        self._end()
        return b""

    async def chunks(self) -> AsyncIterator[bytes]:
        while data := await self.some():
            yield data

    async def read(self) -> bytes:
        pieces = []
        while data := await self.some():
            pieces.append(data)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def close(self) -> None:
        """Drop the connection at once unless all of the body has arrived; then it is kept for reuse."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._ended = connection.complete and not connection.pieces
            self._pool.give(connection)

    def _end(self) -> None:
        """Of the body: the connection may serve the next request before this answer is closed."""
        if self._inflater is not None and not self._inflater.ended:
            self.close()
            raise self._cut_off("ends in the middle of its compressed body")
        self.close()

    def _unpacking(self, headers: CIMultiDict[str]) -> Inflater | None:
        try:
            return inflater(",".join(headers.getall("Content-Encoding")))
        except BrokenBody:
            if self.ended:  # there is nothing to unpack
                return None
            self.close()
            raise self._cut_off("has an encoding that was not asked for") from None

    def _unpacked(self, inflater: Inflater, data: bytes) -> bytes:
        self._packed_left -= len(data)  # what unpacks to nothing is bounded as well
        if self._packed_left < 0:
            raise self._too_large()
        try:
            return inflater.feed(data, self._left)
        except BrokenBody:
            self.close()
            raise self._cut_off("has a broken compressed body") from None

    def _too_large(self) -> OutsideError:
        self.close()
        return OutsideError("OUTSIDE_TOO_LARGE", f"the answer of {self._route.place} is over the limit")

    def _cut_off(self, words: str) -> OutsideError:
        return OutsideError("OUTSIDE_CUT_OFF", f"the answer of {self._route.place} {words}", retryable=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class HttpClient:
    """Requests from one process, over connections that are kept (`Pool`). To be used on one event loop."""

    def __init__(self, *, user_agent: str = "holdfast", lookup: Lookup | None = None) -> None:
        self._user_agent = user_agent
        self._pool = Pool(lookup)

    async def send(self, request: Outgoing) -> Reply:
        place = ""
        for _ in range(request.max_redirects + 1):
            to = route(request.url, request.policy)
            reply = await self._exchange(request, to)
            if reply.status not in _REDIRECTS or "Location" not in reply.headers:
                return reply
            reply.close()
            place = to.place
            if request.max_redirects == 0:
                raise OutsideError("REDIRECT_REFUSED", f"{place} redirects, which is not allowed here")
            request = _redirected(request, to, reply)
        raise OutsideError("REDIRECT_REFUSED", f"{place} redirects too often")

    async def close(self) -> None:
        await self._pool.close()

    async def _exchange(self, request: Outgoing, to: Route) -> Reply:
        head = self._head(request, to)
        deadlines, bodiless = request.deadlines, request.method == "HEAD"
        ends = None if deadlines.total is None else asyncio.get_running_loop().time() + deadlines.total
        kept = self._pool.take(to.key)
        if kept is not None:
            try:
                await kept.ask(head, request.body, bodiless=bodiless, idle=deadlines.idle, ends=ends)
                return Reply(kept, self._pool, request)
            except OutsideError as error:
                # It was closed while the request was on its way. Whoever may do a thing twice gets a second try; for
                # the others nobody knows whether the request was acted upon.
                if not kept.unanswered or error.code != "OUTSIDE_CUT_OFF" or request.method not in _IDEMPOTENT:
                    raise
        try:
            async with asyncio.timeout_at(ends):
                made = await self._pool.connect(to, deadlines.connect)
        except TimeoutError as error:
            raise OutsideError("OUTSIDE_TIMEOUT", f"{to.place} did not answer in time", retryable=True) from error
        await made.ask(head, request.body, bodiless=bodiless, idle=deadlines.idle, ends=ends)
        return Reply(made, self._pool, request)

    def _head(self, request: Outgoing, to: Route) -> bytes:
        head = opening(request.method, to, self._user_agent, tuple(request.headers.items()))
        # The trace of whoever works here, unless the request brings its own.
        if trace := tracing.outgoing():
            own = {name.lower() for name in request.headers}
            head += lines(tuple((name, value) for name, value in trace.items() if name not in own))
        body = request.body
        if body is None:
            return head + (b"\r\n" if request.method in _WITHOUT_BODY else b"Content-Length: 0\r\n\r\n")
        return b"%bContent-Length: %d\r\n\r\n" % (head, body.length if isinstance(body, Segments) else len(body))


def _redirected(request: Outgoing, at: Route, reply: Reply) -> Outgoing:
    target = parsed(reply.headers["Location"], at.url)
    if at.tls and target.scheme == "http":
        raise OutsideError("REDIRECT_REFUSED", f"{at.place} redirects to an unencrypted address")
    headers = dict(request.headers)
    if target.origin() != at.url.origin():
        headers = {name: value for name, value in headers.items() if name.lower() in _SAFE_HEADERS}
    becomes_get = reply.status == 303 or (reply.status in (301, 302) and request.method == "POST")
    if becomes_get and request.method != "HEAD":
        headers = {name: value for name, value in headers.items() if name.lower() not in _BODY_HEADERS}
        return replace(request, url=str(target), method="GET", headers=headers, body=None)
    return replace(request, url=str(target), headers=headers)

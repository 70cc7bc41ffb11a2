"""HTTP to the outside: the one door through which requests leave the process.

A request goes to an address that was resolved once, checked and pinned; private ranges are refused unless
the host is allowed by name; each redirect is checked like a first request; bodies are bounded both ways in.
Leaves to others: retries, meaning of a status, which hosts a workspace allows (`AddressPolicy`).

    client = HttpClient()
    async with await client.send(OutgoingRequest("GET", "https://example.org/")) as reply:
        body = await reply.read()

The protocol is aiohttp's, which only `sessions` and this module know. Hosts that the operator listed may be reached
through the operator's proxy (`proxies`), which then looks them up.

Failures are `OutsideError`s with a stable code; no message repeats a path, a query, a header or a body.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import field, replace
from functools import cache, lru_cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self

from yarl import URL

from app.core import tracing
from app.core.value import contract_value, value
from app.outside.addresses import PUBLIC_ONLY, AddressPolicy
from app.outside.failures import OutsideError as OutsideError
from app.outside.inflate import BrokenBody, Inflater, inflater
from app.outside.proxies import OutgoingProxies
from app.outside.routes import OutgoingRoute, checked_headers, parsed, route

if TYPE_CHECKING:
    import aiohttp

    from app.outside.direct import DirectAnswer, JoinedBody
    from app.outside.sessions import Lookup, UploadBody

DEFAULT_MAX_BYTES: Final = 16 * 1024 * 1024
MAX_UNPACKED: Final = 256 * 1024
"""What is handed out of a compressed body at once, about as much as one read brings of any other: a few kilobytes may
hold megabytes, and the event loop would wait for whoever reads them."""
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
# What may follow a redirect to another origin; everything else might carry a credential.
_SAFE_HEADERS: Final = frozenset({"accept", "accept-language", "content-type", "user-agent"})
_BODY_HEADERS: Final = frozenset({"content-type", "content-length", "content-encoding"})
# Whose requests say nothing about a body when they have none; the others say that it is empty.
_WITHOUT_BODY: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
# Kept connections that are tried, and dropped because they hold an answer that nobody asked for.
_MAX_UNASKED: Final = 100

PoolName = Literal["public", "private", "proxied"]
"""Whose connections may serve each other: one to a private address that a request was allowed by name never serves a
request that was not, and neither does one to a proxy."""


@contract_value(frozen=True, slots=True)
class Deadlines:
    """Seconds; None means no limit. `idle` is the longest silence between two reads."""

    connect: float | None = 10.0
    idle: float | None = 60.0
    total: float | None = 300.0


@contract_value(frozen=True, slots=True)
class Segments:
    """A body sent piece by piece, so that a large attachment is never joined into one buffer."""

    length: int
    pieces: Callable[[], Iterator[bytes]]


@value(frozen=True, slots=True)
class OutgoingRequest:
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
        "_content",
        "_deadline",
        "_inflater",
        "_joined",
        "_left",
        "_packed_left",
        "_ready",
        "_response",
        "_route",
        "_unpacked",
        "headers",
        "status",
    )

    def __init__(
        self,
        response: "aiohttp.ClientResponse | DirectAnswer",
        to: OutgoingRoute,
        max_bytes: int,
        deadline: float | None,
    ) -> None:
        self._response, self._content, self._route, self._deadline = response, response.content, to, deadline
        self._joined = _loaded().joined(response.content)
        self._left = self._packed_left = max_bytes
        self._ready = b""
        """What was seen to have arrived, and not taken yet."""
        self.status: Final = response.status
        self.headers: Final[Mapping[str, str]] = response.headers
        self._inflater = self._unpacking() if "Content-Encoding" in response.headers else None
        self._unpacked = memoryview(b"")
        """The rest of a part that was too large to be handed out at once."""

    @property
    def content_type(self) -> str:
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    @property
    def origin(self) -> str:
        return self._route.origin

    @property
    def ended(self) -> bool:
        """Whether all of the body was read, as far as is known without waiting."""
        if self._ready or self._unpacked:
            return False
        return self._content.exception() is None and self._content.at_eof()

    @property
    def arrived(self) -> bool:
        """Whether something of the body can be read without waiting."""
        if not self._ready and self._content.exception() is None:
            self._ready = self._content.read_nowait() if self._joined is None else self._joined.taken()
        return bool(self._ready or self._unpacked)

    async def some(self) -> bytes:
        """Whatever has arrived, at least one byte; empty at the end of the body. Who is cancelled here hangs up."""
        while True:
            if self._unpacked:
                return await self._next_part()
            if self._ready:
                data, self._ready = self._ready, b""
            else:
                try:
                    if self._deadline is not None:
                        async with asyncio.timeout_at(self._deadline):
                            data = await self._content.readany()
                    elif self._joined is None:
                        data = await self._content.readany()
                    else:
                        if (arrival := self._joined.arrival()) is not None:
                            await arrival
                        data = self._joined.taken()
                except BaseException as error:
                    self.close()
                    raise _known(error, self._route.place) or error from None
            if self._inflater is not None:
                packed, data = data, self._unpack(self._inflater, data)
            else:
                packed = data
            self._left -= len(data)
            if self._left < 0:
                raise self._too_large()
            if len(data) > MAX_UNPACKED and packed is not data:
                self._unpacked = memoryview(data)
            elif data or not packed:
                return data

    async def _next_part(self) -> bytes:
        """Between two parts everybody else has a turn."""
        try:
            await asyncio.sleep(0)
        except BaseException:
            self.close()
            raise
        part, self._unpacked = bytes(self._unpacked[:MAX_UNPACKED]), self._unpacked[MAX_UNPACKED:]
        return part

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
        if self._response.connection is not None or not self._content.at_eof():
            self._response.close()

    def _unpacking(self) -> Inflater | None:
        try:
            return inflater(",".join(self._response.headers.getall("Content-Encoding")))
        except BrokenBody:
            if self._content.at_eof():  # there is nothing to unpack
                return None
            self.close()
            raise self._cut_off("has an encoding that was not asked for") from None

    def _unpack(self, inflater: Inflater, data: bytes) -> bytes:
        if not data:
            if not inflater.ended:
                self.close()
                raise self._cut_off("ends in the middle of its compressed body")
            return data
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
    """Requests from one process, over connections that are kept. To be used on one event loop."""

    def __init__(
        self,
        *,
        user_agent: str = "holdfast",
        lookup: "Lookup | None" = None,
        proxies: OutgoingProxies = OutgoingProxies(),
        ca_file: Path | None = None,
    ) -> None:
        self._user_agent, self._lookup, self._proxies, self._ca_file = user_agent, lookup, proxies, ca_file
        self._sessions: dict[PoolName, aiohttp.ClientSession] = {}
        self._tls: ssl.SSLContext | None = None  # without a file, aiohttp's own, which trusts what the system trusts

    async def send(self, request: OutgoingRequest) -> Reply:
        place, total, deadline = "", request.deadlines.total, None
        for _ in range(request.max_redirects + 1):
            to = route(request.url, request.policy)
            proxy = self._proxies.of(to.url) if to.proxied else None
            session = self._session("proxied" if proxy is not None else "private" if to.private else "public")
            if total is None:
                reply = await self._exchange(session, request, to, proxy, None)
            else:
                deadline = deadline or asyncio.get_running_loop().time() + total
                try:
                    async with asyncio.timeout_at(deadline):
                        reply = await self._exchange(session, request, to, proxy, deadline)
                except TimeoutError as error:
                    raise _known(error, to.place) or error from None
            if reply.status not in _REDIRECTS or "Location" not in reply.headers:
                return reply
            reply.close()
            place = to.place
            if request.max_redirects == 0:
                raise OutsideError("REDIRECT_REFUSED", f"{place} redirects, which is not allowed here")
            request = _redirected(request, to, reply)
        raise OutsideError("REDIRECT_REFUSED", f"{place} redirects too often")

    async def close(self) -> None:
        """Also what is in use."""
        sessions, self._sessions = list(self._sessions.values()), {}
        for session in sessions:
            await session.close()

    async def _exchange(
        self,
        session: "aiohttp.ClientSession",
        request: OutgoingRequest,
        to: OutgoingRoute,
        proxy: URL | None,
        deadline: float | None,
    ) -> Reply:
        loaded, headers, body, within = _loaded(), self._headers(request), request.body, request.deadlines
        timeout = _timeout(within.connect, within.idle)
        directly = proxy is None and not isinstance(body, Segments) and len(body or b"") <= loaded.max_directly
        response: aiohttp.ClientResponse | DirectAnswer
        for _ in range(_MAX_UNASKED):
            try:
                if directly:
                    response = await loaded.exchange(
                        session, request.method, to.url, headers, body or b"", timeout, loaded.answers
                    )
                else:
                    response = await _by_session(session, request, to, headers, proxy, timeout)
            except loaded.unasked:
                continue  # nothing was sent, because a kept connection cannot be used
            except _UploadFailed as failed:
                raise failed.cause from None
            except BaseException as error:
                raise _known(error, to.place) or error from None
            return Reply(response, to, request.max_bytes, deadline)
        raise OutsideError("OUTSIDE_CUT_OFF", f"{to.place} sent an unexpected response", retryable=True)

    def _headers(self, request: OutgoingRequest) -> dict[str, str]:
        headers = checked_headers(request.method, request.headers, self._user_agent)
        # The trace of whoever works here, unless the request brings its own.
        if trace := tracing.outgoing():
            own = {name.lower() for name in headers}
            headers |= {name: value for name, value in trace.items() if name not in own}
        body = request.body
        if body is not None:
            headers["Content-Length"] = str(body.length if isinstance(body, Segments) else len(body))
        elif request.method not in _WITHOUT_BODY:
            headers["Content-Length"] = "0"
        return headers

    def _session(self, pool: PoolName) -> "aiohttp.ClientSession":
        session = self._sessions.get(pool)
        if session is None:
            from app.outside.sessions import open_session

            if self._ca_file is not None:
                self._tls = self._tls or _tls_context(self._ca_file)
            session = self._sessions[pool] = open_session(self._lookup, self._tls, private=pool != "public")
        return session


class _UploadFailed(Exception):
    """A body could not be read, which is no failure of the other side."""

    def __init__(self, cause: Exception) -> None:
        self.cause = cause


async def _by_session(
    session: "aiohttp.ClientSession",
    request: OutgoingRequest,
    to: OutgoingRoute,
    headers: dict[str, str],
    proxy: URL | None,
    timeout: "aiohttp.ClientTimeout",
) -> "aiohttp.ClientResponse":
    data, upload = _data(request.body)
    try:
        return await session.request(
            request.method,
            to.url,
            data=data,
            allow_redirects=False,
            timeout=timeout,
            **_through(proxy, to, headers),
        )
    except BaseException as error:
        if upload is not None and upload.failure is not None and not isinstance(error, _loaded().unasked):
            raise _UploadFailed(upload.failure) from None
        raise


class _Loaded(NamedTuple):
    """What is loaded with the first request: an import within a function costs microseconds each time."""

    exchange: "Callable[..., Awaitable[DirectAnswer]]"
    max_directly: int
    """Bytes of a body that goes out without aiohttp's session; less than none with versions that were not tested."""
    answers: dict[str, Any]
    unasked: type[Exception]
    joined: "Callable[[aiohttp.StreamReader], JoinedBody | None]"


@cache
def _loaded() -> _Loaded:
    from app.outside.direct import UnaskedAnswer, as_joined, exchange, is_tested
    from app.outside.sessions import ANSWERS, MAX_AT_ONCE

    return _Loaded(exchange, MAX_AT_ONCE if is_tested() else -1, ANSWERS, UnaskedAnswer, as_joined)


def _tls_context(ca_file: Path) -> ssl.SSLContext:
    """Trusts what the system trusts, and the authorities of the operator's file as well."""
    context = ssl.create_default_context()
    context.load_verify_locations(ca_file)
    return context


def _redirected(request: OutgoingRequest, at: OutgoingRoute, reply: Reply) -> OutgoingRequest:
    target = parsed(reply.headers["Location"], at.url)
    if at.url.scheme == "https" and target.scheme == "http":
        raise OutsideError("REDIRECT_REFUSED", f"{at.place} redirects to an unencrypted address")
    headers = dict(request.headers)
    if target.origin() != at.url.origin():
        headers = {name: value for name, value in headers.items() if name.lower() in _SAFE_HEADERS}
    becomes_get = reply.status == 303 or (reply.status in (301, 302) and request.method == "POST")
    if becomes_get and request.method != "HEAD":
        headers = {name: value for name, value in headers.items() if name.lower() not in _BODY_HEADERS}
        return replace(request, url=str(target), method="GET", headers=headers, body=None)
    return replace(request, url=str(target), headers=headers)


def _data(body: bytes | Segments | None) -> "tuple[bytes | UploadBody | None, UploadBody | None]":
    """What aiohttp sends, and the upload to ask for its own failure."""
    from app.outside.sessions import MAX_AT_ONCE, UploadBody, in_parts

    if isinstance(body, Segments):
        upload = UploadBody(body.pieces(), body.length)
    elif body is not None and len(body) > MAX_AT_ONCE:
        upload = UploadBody(in_parts(body), len(body))
    else:
        return body, None
    return upload, upload


def _through(proxy: URL | None, to: OutgoingRoute, headers: Mapping[str, str]) -> dict[str, Any]:
    """The proxy's own password goes to the proxy alone: with a plain request, or with the order to make a tunnel."""
    if proxy is None:
        return {"headers": headers}
    if proxy.user is None:
        return {"headers": headers, "proxy": proxy}
    from aiohttp import encode_basic_auth

    signed = {"Proxy-Authorization": encode_basic_auth(proxy.user, proxy.password or "")}
    proxy = proxy.with_user(None)
    if to.url.scheme == "https":
        return {"headers": headers, "proxy": proxy, "proxy_headers": signed}
    return {"headers": {**headers, **signed}, "proxy": proxy}


@lru_cache(maxsize=64)
def _timeout(connect: float | None, idle: float | None) -> "aiohttp.ClientTimeout":
    from aiohttp import ClientTimeout

    # The total is kept here: it also covers redirects and requests that aiohttp's session knows nothing of.
    return ClientTimeout(total=None, connect=connect, sock_read=idle)


def _known(error: BaseException, place: str) -> OutsideError | None:
    from app.outside.sessions import translated

    return None if isinstance(error, asyncio.CancelledError) else translated(error, place)

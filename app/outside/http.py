"""HTTP to the outside, by aiohttp, which only this module and `sessions` know.

A request goes to an address that was resolved once, checked and pinned; private ranges are refused unless
the host is allowed by name; each redirect is checked like a first request; bodies are bounded both ways in.
Leaves to others: retries, meaning of a status, which hosts a workspace allows (`AddressPolicy`).

    client = HttpClient()
    async with await client.send(Outgoing("GET", "https://example.org/")) as reply:
        body = await reply.read()

Failures are `OutsideError`s with a stable code; no message repeats a path, a query, a header or a body.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from yarl import URL

from app.core import tracing
from app.outside.addresses import PUBLIC_ONLY, AddressPolicy, is_literal, is_public, normal_host
from app.outside.failures import OutsideError as OutsideError
from app.outside.failures import place_of as _place

if TYPE_CHECKING:
    import aiohttp

    from app.outside.sessions import Lookup

DEFAULT_MAX_BYTES: Final = 16 * 1024 * 1024
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
# What may follow a redirect to another origin; everything else might carry a credential.
_SAFE_HEADERS: Final = frozenset({"accept", "accept-language", "content-type", "user-agent"})
_BODY_HEADERS: Final = frozenset({"content-type", "content-length", "content-encoding"})


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds; None means no limit. `idle` is the longest silence between two reads."""

    connect: float | None = 10.0
    idle: float | None = 60.0
    total: float | None = 300.0


@dataclass(frozen=True, slots=True)
class Segments:
    """A body sent piece by piece, so that a large attachment is never joined into one buffer."""

    length: int
    pieces: Callable[[], Iterator[bytes]]


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

    def __init__(self, response: "aiohttp.ClientResponse", max_bytes: int) -> None:
        self._response = response
        self._content = response.content
        self._left = max_bytes
        self.status: Final = response.status
        self.headers: Final[Mapping[str, str]] = response.headers

    @property
    def content_type(self) -> str:
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    @property
    def origin(self) -> str:
        return str(self._response.url.origin())

    @property
    def ended(self) -> bool:
        """Whether all of the body was read, as far as is known without waiting."""
        return self._content.at_eof()

    async def some(self) -> bytes:
        """Whatever has arrived, at least one byte; empty at the end of the body."""
        try:
            data = await self._content.readany()
        except Exception as error:
            if (known := _known(error, self._response.url)) is None:
                raise
            raise known from error
        self._left -= len(data)
        if self._left < 0:
            self.close()
            raise OutsideError("OUTSIDE_TOO_LARGE", f"the answer of {_place(self._response.url)} is over the limit")
        return data

    async def chunks(self) -> AsyncIterator[bytes]:
        while data := await self.some():
            yield data

    async def read(self) -> bytes:
        pieces = [piece async for piece in self.chunks()]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def close(self) -> None:
        """Drop the connection at once unless the body was read to its end; then it is kept for reuse."""
        self._response.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class HttpClient:
    """Connections to the outside, pooled. Two pools, so that a connection to a private address that one
    request was allowed by name is never reused by a request that was not."""

    def __init__(self, *, user_agent: str = "holdfast", lookup: "Lookup | None" = None) -> None:
        self._user_agent = user_agent
        self._lookup = lookup
        self._sessions: dict[bool, aiohttp.ClientSession] = {}

    async def send(self, request: Outgoing) -> Reply:
        url = _url(request.url)
        for _ in range(request.max_redirects + 1):
            response = await self._send_once(request, url)
            if response.status not in _REDIRECTS or "Location" not in response.headers:
                return Reply(response, request.max_bytes)
            response.close()
            if request.max_redirects == 0:
                raise OutsideError("REDIRECT_REFUSED", f"{_place(url)} redirects, which is not allowed here")
            url, request = _redirected(request, url, response)
        raise OutsideError("REDIRECT_REFUSED", f"{_place(url)} redirects too often")

    async def close(self) -> None:
        sessions, self._sessions = list(self._sessions.values()), {}
        for session in sessions:
            await session.close()

    async def _send_once(self, request: Outgoing, url: URL) -> "aiohttp.ClientResponse":
        private = _check(request.policy, url)
        session = self._session(private)
        try:
            return await session.request(
                request.method,
                url,
                headers=_headers(request),
                data=_data(request.body),
                allow_redirects=False,
                timeout=_timeout(request.deadlines),
            )
        except Exception as error:
            if (known := _known(error, url)) is None:
                raise
            raise known from error

    def _session(self, private: bool) -> "aiohttp.ClientSession":
        session = self._sessions.get(private)
        if session is None:
            # aiohttp is loaded with the first request: a start without one is quicker and smaller for it.
            from app.outside.sessions import open_session

            session = self._sessions[private] = open_session(self._lookup, self._user_agent, private=private)
        return session


def _url(text: str, base: URL | None = None) -> URL:
    try:
        url = URL(text) if base is None else base.join(URL(text))
    except ValueError:
        raise OutsideError("ADDRESS_REFUSED", "the address is not a valid URL") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise OutsideError("ADDRESS_REFUSED", "the address is not an http or https URL")
    if url.user is not None or url.password is not None:
        raise OutsideError("ADDRESS_REFUSED", "the address contains credentials")
    return url


def _check(policy: AddressPolicy, url: URL) -> bool:
    """Refuses what the host alone gives away; answers whether a private address is allowed."""
    host, port = normal_host(url.host or ""), url.port or 0
    if not policy.permits(host, port):
        raise OutsideError("ADDRESS_REFUSED", f"{_place(url)} is not an allowed host")
    private = policy.permits_private(host, port)
    # The connector does not ask a resolver about literal addresses.
    if not private and is_literal(host) and not is_public(host):
        raise OutsideError("ADDRESS_REFUSED", f"{_place(url)} is not a public address")
    return private


def _redirected(request: Outgoing, url: URL, response: "aiohttp.ClientResponse") -> tuple[URL, Outgoing]:
    target = _url(response.headers["Location"], url)
    if url.scheme == "https" and target.scheme == "http":
        raise OutsideError("REDIRECT_REFUSED", f"{_place(url)} redirects to an unencrypted address")
    headers = dict(request.headers)
    if target.origin() != url.origin():
        headers = {name: value for name, value in headers.items() if name.lower() in _SAFE_HEADERS}
    becomes_get = response.status == 303 or (response.status in (301, 302) and request.method == "POST")
    if becomes_get and request.method != "HEAD":
        headers = {name: value for name, value in headers.items() if name.lower() not in _BODY_HEADERS}
        return target, replace(request, method="GET", headers=headers, body=None)
    return target, replace(request, headers=headers)


def _headers(request: Outgoing) -> dict[str, str]:
    # The trace of whoever works here, unless the request brings its own.
    headers = {**tracing.outgoing(), **request.headers}
    if isinstance(request.body, Segments):
        headers["Content-Length"] = str(request.body.length)
    return headers


def _data(body: bytes | Segments | None) -> Any:
    return _each(body.pieces()) if isinstance(body, Segments) else body


async def _each(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


@lru_cache(maxsize=64)
def _timeout(deadlines: Deadlines) -> "aiohttp.ClientTimeout":
    from aiohttp import ClientTimeout

    return ClientTimeout(total=deadlines.total, sock_connect=deadlines.connect, sock_read=deadlines.idle)


def _known(error: Exception, url: URL) -> OutsideError | None:
    """A failure of the other side as one of ours; None for whatever else it is."""
    from app.outside.sessions import translated

    return translated(error, url)

"""The gate: what every request passes before a route sees it, in this order.

    name it -> headers not too large, no NUL -> host -> open path? -> preflight, origin -> who -> rate -> room -> body

Pure ASGI and in one piece, because it is on the way of every request. A refusal is answered in the dialect of its
path. Leaves to others: what the caller may do (`http.caller`, a dependency of each route).
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from itertools import chain
from time import monotonic
from typing import Final

import uuid_utils
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.core.errors import Failure, HoldfastError
from app.core.logs import REQUEST_NAME
from app.core.principal import Principal
from app.protocols.auth.access import CHECK_SECONDS, Access
from app.protocols.auth.browser_sessions import CSRF_MISSING
from app.protocols.auth.permissions import is_open
from app.protocols.auth.proxies import IDENTITY_HEADERS
from app.protocols.auth.shown import Headers, peer_of
from app.protocols.edge.cancels import Cancels
from app.protocols.edge.limits import (
    MAX_DIGITS,
    MAX_HEADER_BYTES,
    BoundedBody,
    HeldBytes,
    InFlight,
    Rates,
    headers_too_large,
)
from app.protocols.edge.origins import Origins
from app.protocols.edge.request_meter import Observe, unobserved
from app.protocols.http.correlation import HEADERS_KEY, NAME_KEY
from app.protocols.http.errors import answer
from app.protocols.wire.asgi import AsgiConnection
from app.protocols.wire.connection import CONNECTION, WHOLE_BODY_BYTES, HttpConnection

REQUEST_ID: Final = b"x-request-id"
_SANE_ID: Final = re.compile(rb"[A-Za-z0-9._:-]{1,128}")
_ONCE: Final = frozenset({b"authorization", b"x-api-key", b"host", b"origin", b"content-length", *IDENTITY_HEADERS})
"""Headers of which a second one would be read differently by somebody else."""
_PER_HEADER_BYTES: Final = 4  # the colon, the space and the line end


class RequestGate:
    def __init__(
        self,
        app: ASGIApp,
        access: Access,
        origins: Origins,
        rates: Rates,
        in_flight: InFlight,
        max_sockets: int,
        max_upload: int,
        cancels: Cancels | None = None,
        observe: Observe = unobserved,
    ) -> None:
        """`cancels` are the routes that are served under any load."""
        self.app = app
        self._access, self._origins, self._rates, self._in_flight = access, origins, rates, in_flight
        self._max_sockets, self._max_upload = max_sockets, max_upload
        self._cancels = cancels
        self._observe = observe
        self.held = HeldBytes()
        self.sockets = 0
        self.public_suffix: str | None = None
        """Addresses that end so are read by anybody, as somebody without any scope."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await (self._websocket if scope["type"] == "websocket" else self.app)(scope, receive, send)
            return
        headers: Headers = dict(scope["headers"])
        path: str = scope["path"]
        request_id = _name(headers)
        scope[NAME_KEY], scope[HEADERS_KEY] = request_id.decode(), headers
        answered = partial(self._observe, scope, monotonic())
        reply = _Reply(send, path, request_id, answered)
        open_path = is_open(path)
        if (refused := self._wrong_request(scope, headers, open_path)) is not None:
            await reply.refuse(scope, receive, refused)
            return
        connection: HttpConnection = (scope.get("extensions") or {}).get(CONNECTION) or AsgiConnection(receive, send)
        body = _body(receive, headers, path, self._max_upload, connection, self.held)
        reply.body = body
        if open_path:
            await self.app(scope, body or receive, reply)
            return
        if (origin := headers.get(b"origin")) is not None:
            if scope["method"] == "OPTIONS" and b"access-control-request-method" in headers:
                await self._preflight(scope, receive, reply, origin)
                return
            if (refused := self._origins.wrong_origin(scope["method"], origin, headers[b"host"])) is not None:
                await reply.refuse(scope, receive, refused)
                return
            reply.headers += self._origins.headers(origin)
        rates, in_flight = self._bounds(scope["method"], path)
        who = await self._admit(scope, headers, rates, in_flight)
        if isinstance(who, Failure):
            await reply.refuse(scope, receive, who)
            return
        if body is not None and (refused := body.announced(headers.get(b"content-length"))) is not None:
            await reply.refuse(scope, receive, refused)
            return
        connection.headers, connection.on_begun = reply.headers, answered
        if self._access.enabled:
            reply.access, reply.who = self._access, who
            connection.credentials = self._access.credentials_of(who)
        scope[CONNECTION] = connection
        in_flight.enter(who.tenant)
        try:
            await self.app(scope, body or receive, reply)
        except ClientDisconnect:
            pass  # it went away in the middle of its body: nobody is there to be answered
        finally:
            in_flight.leave(who.tenant)
            if body is not None:
                body.release()
            # The connection knows the scope: together they would wait for the collector.
            del scope[CONNECTION]
            scope.pop("extensions", None)

    def _wrong_request(self, scope: Scope, headers: Headers, open_path: bool) -> Failure | None:
        sent, path = scope["headers"], scope["path"]
        size = len(scope.get("raw_path") or b"") + len(scope["query_string"])
        if size + len(b"".join(chain.from_iterable(sent))) + _PER_HEADER_BYTES * len(sent) > MAX_HEADER_BYTES:
            return headers_too_large()
        if len(headers) != len(sent) and _repeats(scope):
            return Failure("INVALID_REQUEST", "A header occurs twice that may occur only once.")
        # No database takes the NUL character in a text; in an address it is a mistake like in a body.
        if "\x00" in path or scope["query_string"].find(b"%00") >= 0:
            return Failure("INVALID_REQUEST", "The URL contains the NUL character.")
        if open_path:
            return None  # a probe knows the address of the process, not its name
        if b"host" not in headers:
            return Failure("HOST_REFUSED", "The request has no Host header.")
        return self._origins.wrong_host(headers[b"host"])

    async def _preflight(self, scope: Scope, receive: Receive, reply: "_Reply", origin: bytes) -> None:
        allowed = self._origins.preflight(origin)
        if allowed is None:
            refused = Failure("ORIGIN_REFUSED", "Web pages of this origin may not call this server.")
            await reply.refuse(scope, receive, refused)
            return
        reply.headers += allowed
        await Response(status_code=204)(scope, receive, reply)

    async def _admit(self, scope: Scope, headers: Headers, rates: Rates, in_flight: InFlight) -> Principal | Failure:
        """Who it is, if they may come in now; noted in the scope for the route."""
        try:
            who = await self._access.authenticate(scope, headers)
        except HoldfastError as error:
            return error.failure  # the store cannot be asked; nobody comes in meanwhile
        if not isinstance(who, Principal) and who.reason == "no_credentials" and self._is_public(scope):
            who = Principal(f"peer:{peer_of(scope)}")
        if not isinstance(who, Principal):
            self._access.denials.count(who.tenant, who.principal or f"peer:{peer_of(scope)}", who.reason)
            if who.reason == CSRF_MISSING:
                return Failure("CSRF_TOKEN_INVALID", "A browser session needs its CSRF token for a change.")
            return Failure("UNAUTHENTICATED", "Credentials are needed.")
        scope["holdfast.principal"] = who
        scope["holdfast.access"] = self._access
        if self._access.enabled and (seconds := rates.take((who.tenant, who.id))):
            return Failure("RATE_LIMITED", "Too many requests.", retryable=True, detail={"retryAfter": seconds})
        return in_flight.refusal(who.tenant) or who

    def _is_public(self, scope: Scope) -> bool:
        suffix = self.public_suffix
        return (
            suffix is not None
            and scope["type"] == "http"
            and scope["method"] == "GET"
            and scope["path"].endswith(suffix)
        )

    def _bounds(self, method: str, path: str) -> tuple[Rates, InFlight]:
        """What makes the load less has bounds of its own: it is served when everything else is too much."""
        cancels = self._cancels
        if cancels is not None and cancels.matches(method, path):
            return cancels.rates, cancels.in_flight
        return self._rates, self._in_flight

    # -- websocket -----------------------------------------------------------------------------------

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: Headers = dict(scope["headers"])
        request_id = _name(headers)
        refused = self._wrong_request(scope, headers, is_open(scope["path"]))
        if refused is None and (origin := headers.get(b"origin")) is not None:
            refused = self._origins.wrong_origin("CONNECT", origin, headers[b"host"])
        if refused is None and self.sockets >= self._max_sockets:
            refused = Failure("OVERLOADED", "The maximum number of websockets is open.", retryable=True)
        if refused is None:
            who = await self._admit(scope, headers, self._rates, self._in_flight)
            refused = who if isinstance(who, Failure) else None
        if refused is not None:
            # An ordinary HTTP answer instead of a handshake.
            denial = answer(refused, path=scope["path"])
            denial.raw_headers.append((REQUEST_ID, request_id))
            await denial(scope, receive, send)
            return
        self.sockets += 1
        try:
            await self.app(scope, receive, send)
        finally:
            self.sockets -= 1


class _Reply:
    """Stands before `send`: every answer carries the request's name; a body that broke its bounds wins over whatever
    the route made of that; a long answer ends when its reader's credentials do. Streams write to their connection
    instead, which knows what to add and whose credentials to check."""

    __slots__ = ("_answered", "_checked_at", "_ended", "_path", "_send", "access", "body", "headers", "who")

    def __init__(self, send: Send, path: str, request_id: bytes, answered: Callable[[int], None]) -> None:
        self._send, self._path, self._answered = send, path, answered
        self.headers: list[tuple[bytes, bytes]] = [(REQUEST_ID, request_id)]
        self.body: BoundedBody | None = None
        self.access: Access | None = None
        self.who: Principal | None = None
        self._checked_at = 0.0
        self._ended = False

    async def __call__(self, message: Message) -> None:
        if self._ended:
            return
        if message["type"] == "http.response.start":
            if self.body is not None and self.body.failure is not None:
                await self._replace(self.body.failure)
                return
            self._answered(message["status"])
            message["headers"] = [*message.get("headers", ()), *self.headers]
        elif message.get("more_body") and not await self._still_valid():
            self._ended = True
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        await self._send(message)

    async def _replace(self, failure: Failure) -> None:
        refused = answer(failure, path=self._path)
        self._ended = True
        self._answered(refused.status_code)
        await self._send(
            {
                "type": "http.response.start",
                "status": refused.status_code,
                "headers": [*refused.raw_headers, *self.headers],
            }
        )
        await self._send({"type": "http.response.body", "body": refused.body})

    async def _still_valid(self) -> bool:
        """Checked now and then, between parts of a long answer."""
        if self.access is None or self.who is None:
            return True
        now = monotonic()
        if now - self._checked_at < CHECK_SECONDS:
            return True
        self._checked_at = now
        return await self.access.still_valid(self.who)

    async def refuse(self, scope: Scope, receive: Receive, failure: Failure) -> None:
        await answer(failure, path=self._path)(scope, receive, self)


def _name(headers: Headers) -> bytes:
    """The request's name: the sender's, if it is fit for a log, else a new one. It goes into every line logged."""
    sent = headers.get(REQUEST_ID)
    request_id = sent if sent is not None and _SANE_ID.fullmatch(sent) else b"req_" + uuid_utils.uuid7().hex.encode()
    REQUEST_NAME.set(request_id.decode())
    return request_id


def _repeats(scope: Scope) -> bool:
    seen: set[bytes] = set()
    for name, _ in scope["headers"]:
        if name in _ONCE:
            if name in seen:
                return True
            seen.add(name)
    return False


def _body(
    receive: Receive,
    headers: Mapping[bytes, bytes],
    path: str,
    uploads: int,
    connection: HttpConnection,
    held: HeldBytes,
) -> BoundedBody | None:
    """None for a request that has no body, or a small one that came with its head: these are most of them."""
    length = headers.get(b"content-length", b"0")
    if length == b"0" and b"transfer-encoding" not in headers:
        return None
    if connection.has_whole_body and uploads >= WHOLE_BODY_BYTES and len(length) <= MAX_DIGITS:
        return None
    return BoundedBody(receive, path, uploads, connection, held)

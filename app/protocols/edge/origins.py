"""Where a request may come from: the names this server goes by, and the pages that may call it."""

from typing import Final

from app.core.errors import Failure

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_PREFLIGHT_SECONDS: Final = b"600"
_METHODS: Final = b"GET, POST, PATCH, PUT, DELETE"
_REQUEST_HEADERS: Final = b"authorization, content-type, idempotency-key, last-event-id, x-api-key, x-request-id"
_RESPONSE_HEADERS: Final = b"x-request-id, retry-after, content-location"

RawHeaders = list[tuple[bytes, bytes]]


class Origins:
    """`hosts` None takes any name. `allowed` are exact origins; a page from the server's own host needs no entry."""

    def __init__(self, hosts: frozenset[str] | None, allowed: frozenset[str]) -> None:
        self._hosts = None if hosts is None else frozenset(host.encode() for host in hosts)
        self._allowed = frozenset(origin.encode() for origin in allowed)
        self._last_right: bytes | None = None

    def wrong_host(self, host: bytes) -> Failure | None:
        if self._hosts is None or host == self._last_right:
            return None
        if name_of(host) in self._hosts:
            self._last_right = host
            return None
        return Failure("HOST_REFUSED", "The Host header is not one of this server's names.")

    def wrong_origin(self, method: str, origin: bytes, host: bytes) -> Failure | None:
        """A page elsewhere may look at nothing (no CORS headers) and change nothing (this), nor open a websocket.

        Also without authentication: a browser on the same machine would otherwise lend its loopback to any page.
        """
        if method in _SAFE or origin in self._allowed or origin.partition(b"://")[2] == host.lower():
            return None
        return Failure("ORIGIN_REFUSED", "Web pages of this origin may not call this server.")

    def headers(self, origin: bytes) -> RawHeaders:
        if origin not in self._allowed:
            return []
        return [
            (b"access-control-allow-origin", origin),
            (b"access-control-expose-headers", _RESPONSE_HEADERS),
            (b"vary", b"origin"),
        ]

    def preflight(self, origin: bytes) -> RawHeaders | None:
        """The answer to a browser that asks first; None for an origin that may not."""
        if origin not in self._allowed:
            return None
        return [
            *self.headers(origin),
            (b"access-control-allow-methods", _METHODS),
            (b"access-control-allow-headers", _REQUEST_HEADERS),
            (b"access-control-max-age", _PREFLIGHT_SECONDS),
        ]


def name_of(host: bytes) -> bytes:
    """A Host header without its port, in lower case; IPv6 keeps its brackets."""
    host = host.lower()
    if host.startswith(b"["):
        return host.partition(b"]")[0] + b"]"
    return host.partition(b":")[0]

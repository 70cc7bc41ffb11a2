"""Where a request goes and how it begins: a checked URL and the bytes of a request's head, each made once.

Nothing in here talks to anybody. Leaves to `pool`: names and addresses; to `http`: redirects and bodies.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from yarl import URL

from app.outside.addresses import AddressPolicy, is_literal, is_public, normal_host
from app.outside.failures import OutsideError, not_public, place_of

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# What would end a line or a message early; the other controls, and halves of characters, mean nothing in a header.
_NO_VALUE: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")
_NAME: Final = re.compile(r"[0-9A-Za-z._~-]+")
_TARGET: Final = re.compile(r"[!-~]+")
# How long a message is and what becomes of the connection is said by us alone: two opinions are how requests
# are smuggled. We unpack gzip and deflate, so nothing else is asked for.
_OURS: Final = frozenset(
    {
        "content-length", "transfer-encoding", "connection", "keep-alive", "proxy-connection",
        "upgrade", "te", "trailer", "expect", "accept-encoding",
    }
)  # fmt: skip

Fields = tuple[tuple[str, str], ...]

Key = tuple[str, int, bool, bool]
"""Whose connections may serve each other: same host, port and scheme, and the same permission. A connection to a
private address that one request was allowed by name never serves one that was not."""


@dataclass(frozen=True, slots=True, eq=False)  # compared by identity: it is a key of the cache of heads
class Route:
    """A place that a policy allows, as connections and messages need it."""

    url: URL
    host: str
    port: int
    tls: bool
    private: bool
    """The policy allows this host to be at a private address."""
    place: str
    """How a message names it: without path and query."""
    origin: str
    key: Key


@lru_cache(maxsize=1024)
def route(text: str, policy: AddressPolicy) -> Route:
    """Refuses what the URL alone gives away; a refusal is made anew each time."""
    return route_of(parsed(text), policy)


def route_of(url: URL, policy: AddressPolicy) -> Route:
    host, port, place = normal_host(url.host or ""), url.port or 0, place_of(url)
    if not policy.permits(host, port):
        raise OutsideError("ADDRESS_REFUSED", f"{place} is not an allowed host")
    private = policy.permits_private(host, port)
    literal = is_literal(host)
    if literal:
        if not private and not is_public(host):
            raise not_public(place)
    elif not _NAME.fullmatch(url.raw_host or "") or host.replace(".", "").isnumeric():
        # Resolvers read all kinds of numbers as addresses: those have one spelling here.
        raise OutsideError("ADDRESS_REFUSED", "the address is not a valid URL")
    # As a name server is asked for it; a literal is not, and has its zone unescaped.
    name, tls = host if literal else normal_host(url.raw_host or ""), url.scheme == "https"
    return Route(url, name, port, tls, private, place, str(url.origin()), (name, port, tls, private))


def parsed(text: str, base: URL | None = None) -> URL:
    try:
        url = URL(text) if base is None else base.join(URL(text))
    except ValueError:
        raise OutsideError("ADDRESS_REFUSED", "the address is not a valid URL") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise OutsideError("ADDRESS_REFUSED", "the address is not an http or https URL")
    if url.user is not None or url.password is not None:
        raise OutsideError("ADDRESS_REFUSED", "the address contains credentials")
    return url


@lru_cache(maxsize=1024)
def opening(method: str, at: Route, agent: str, fields: Fields) -> bytes:
    """The head up to where requests to one place differ: what they are traced by, and the length of the body."""
    target = at.url.raw_path_qs
    if not _TOKEN.fullmatch(method) or not _TARGET.fullmatch(target):
        raise OutsideError("OUTSIDE_UNSENDABLE", "the method or the path of an outgoing request cannot be sent")
    told = {
        "host": ("Host", at.url.host_port_subcomponent or at.host),
        "user-agent": ("User-Agent", agent),
        "accept": ("Accept", "*/*"),
    }
    # One value for each name, whatever its case: the last one that was given.
    told |= {name.lower(): (name, value) for name, value in fields if name.lower() not in _OURS}
    begin = f"{method} {target} HTTP/1.1\r\nAccept-Encoding: gzip, deflate\r\n".encode("ascii")
    return begin + lines(tuple(told.values()))


def lines(fields: Fields) -> bytes:
    for name, value in fields:
        if not _TOKEN.fullmatch(name):
            raise OutsideError("OUTSIDE_UNSENDABLE", "an outgoing request has a header without a usable name")
        if _NO_VALUE.search(value):
            # The value is not repeated: it may be a credential.
            raise OutsideError("OUTSIDE_UNSENDABLE", f"the header {name} of an outgoing request has line breaks in it")
    return "".join([f"{name}: {value}\r\n" for name, value in fields]).encode()

"""Where a request may go and what its head may say: URLs, hosts and headers, checked before anything is sent.

Nothing in here talks to anybody. Leaves to `sessions`: names and addresses; to `http`: redirects and bodies.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from yarl import URL

from app.core.value import contract_value
from app.outside.addresses import AddressPolicy, is_literal, is_public, normal_host
from app.outside.failures import OutsideError, not_public, place_of

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# What would end a line or a message early; the other controls, and halves of characters, mean nothing in a header.
_NO_VALUE: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")
_NAME: Final = re.compile(r"[0-9A-Za-z._~-]+")
# How long a message is and what becomes of the connection is decided here alone: two opinions are how requests
# are smuggled. Bodies are unpacked from gzip and deflate, so nothing else is asked for.
_RESERVED: Final = frozenset(
    {
        "content-length",
        "transfer-encoding",
        "connection",
        "keep-alive",
        "proxy-connection",
        "proxy-authorization",
        "upgrade",
        "te",
        "trailer",
        "expect",
        "accept-encoding",
    }
)


@contract_value(frozen=True, slots=True)
class OutgoingRoute:
    """A place that a policy allows."""

    url: URL
    host: str
    private: bool
    """The policy allows this host to be at a private address."""
    proxied: bool
    """The operator's proxy may look this host up and connect to it."""
    place: str
    """How a message names it: without path and query."""
    origin: str


@lru_cache(maxsize=1024)
def route(text: str, policy: AddressPolicy) -> OutgoingRoute:
    """Refuses what the URL alone gives away."""
    return route_of(parsed(text), policy)


def route_of(url: URL, policy: AddressPolicy) -> OutgoingRoute:
    host, port, place = normal_host(url.host or ""), url.port or 0, place_of(url)
    if not policy.permits(host, port):
        raise OutsideError("ADDRESS_REFUSED", f"{place} is not an allowed host")
    private = policy.permits_private(host, port)
    literal = is_literal(host)
    if literal:
        # The connector does not ask a resolver about literal addresses.
        if not private and not is_public(host):
            raise not_public(place)
    elif not _NAME.fullmatch(url.raw_host or "") or host.replace(".", "").isnumeric():
        # Resolvers read all kinds of numbers as addresses: those have one spelling here.
        raise OutsideError("ADDRESS_REFUSED", "the address is not a valid URL")
    # What is on this machine or in its network by its very name is not a proxy's to reach.
    here = host == "localhost" or (literal and not is_public(host))
    return OutgoingRoute(url, host, private, policy.proxied and not here, place, str(url.origin()))


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


def checked_headers(method: str, headers: Mapping[str, str], agent: str) -> dict[str, str]:
    """One value for each name, whatever its case (the last one given), and none that is ours to write."""
    return dict(_checked(method, tuple(headers.items()), agent))


@lru_cache(maxsize=1024)
def _checked(method: str, headers: tuple[tuple[str, str], ...], agent: str) -> tuple[tuple[str, str], ...]:
    if not _TOKEN.fullmatch(method):
        raise OutsideError("OUTSIDE_UNSENDABLE", "the method of an outgoing request cannot be sent")
    for name, value in headers:
        if not _TOKEN.fullmatch(name):
            raise OutsideError("OUTSIDE_UNSENDABLE", "an outgoing request has a header without a usable name")
        if _NO_VALUE.search(value):
            # The value is not repeated: it may be a credential.
            raise OutsideError("OUTSIDE_UNSENDABLE", f"the header {name} of an outgoing request has line breaks in it")
    fields = {"user-agent": ("User-Agent", agent), "accept": ("Accept", "*/*")}
    fields |= {name.lower(): (name, value) for name, value in headers if name.lower() not in _RESERVED}
    return (*fields.values(), ("Accept-Encoding", "gzip, deflate"))

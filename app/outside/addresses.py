"""Which addresses the process may talk to: public ones, and what an operator allowed by name.

Pure decisions on hosts and addresses. Leaves to `http`: resolving, connecting, following redirects.
"""

import ipaddress
from dataclasses import field
from typing import Final

from yarl import URL

from app.core.value import value

# Everything in the IANA registries of special-purpose addresses that is not "globally reachable", and what they
# list as globally reachable but no server lives there (anycast relays, AS112 sinks, documentation). Python's own
# `is_global` knows a part of it, a different part in each version.
_SPECIAL_V4: Final = tuple(
    ipaddress.IPv4Network(block)
    for block in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private use
        "100.64.0.0/10",  # shared, behind carriers' NAT
        "127.0.0.0/8",  # loopback
        "169.254.0.0/16",  # link-local, and the metadata services of clouds
        "172.16.0.0/12",  # private use
        "192.0.0.0/24",  # IETF protocol assignments, with 192.0.0.0/29 (DS-Lite) and the anycast addresses in it
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112 sink
        "192.52.193.0/24",  # AMT relays
        "192.88.99.0/24",  # 6to4 relays, deprecated
        "192.168.0.0/16",  # private use
        "192.175.48.0/24",  # AS112 sink
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
)
_SPECIAL_V6: Final = tuple(
    ipaddress.IPv6Network(block)
    for block in (
        "::/96",  # unspecified, loopback and the deprecated IPv4-compatible addresses
        "::ffff:0:0:0/96",  # IPv4-translated (SIIT)
        "64:ff9b:1::/48",  # NAT64 of a local network: what it embeds is local by definition
        "100::/64",  # discard
        "100:0:0:1::/64",  # dummy prefix
        "2001::/23",  # IETF protocol assignments: benchmarks, ORCHID, AMT, AS112, drones (Teredo is unwrapped)
        "2001:db8::/32",  # documentation
        "2620:4f:8000::/48",  # AS112 sink
        "3fff::/20",  # documentation
        "5f00::/16",  # segment routing identifiers
        "fc00::/7",  # unique local
        "fe80::/10",  # link-local
        "fec0::/10",  # site-local, deprecated
        "ff00::/8",  # multicast
    )
)
_GLOBAL_UNICAST: Final = ipaddress.IPv6Network("2000::/3")  # all that IANA has given out so far
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")


@value(frozen=True, slots=True)
class AddressPolicy:
    """What one request may reach. Entries are `host` or `host:port`; `*.example.org` covers subdomains."""

    private: frozenset[str] = field(default_factory=frozenset)
    """Hosts that may resolve to private, loopback or link-local addresses."""
    only: frozenset[str] | None = None
    """When set, no other host is reached, also not by a redirect."""
    proxied: bool = False
    """Whether the operator's proxy may look these hosts up and connect to them. Only for hosts that are listed."""

    def permits(self, host: str, port: int) -> bool:
        return self.only is None or _listed(self.only, host, port)

    def permits_private(self, host: str, port: int) -> bool:
        return _listed(self.private, host, port)


PUBLIC_ONLY: Final = AddressPolicy()


def normal_host(host: str) -> str:
    """One spelling per host, so that `LOCALHOST.` is found in a list that says `localhost`."""
    return host.rstrip(".").lower()


def url_refusal(url: str, policy: AddressPolicy) -> str | None:
    """Why nothing may be sent to the URL: it is none, it has a credential, or the policy does not list its host."""
    try:
        parsed = URL(url)
        host, port = normal_host(parsed.host or ""), parsed.port or 0
    except ValueError:
        return "the URL cannot be read"
    if parsed.scheme not in ("http", "https") or not host:
        return "the URL must begin with http:// or https:// and name a host"
    if parsed.user is not None or parsed.password is not None:
        return "the URL must not contain a user name or a password"
    if not policy.permits(host, port):
        return "the workspace's `outgoing.webhooks` does not list this host"
    return None


def is_public(address: str) -> bool:
    """Whether an IP address belongs to the public internet, seen through every way to embed one in IPv6."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv4Address):
        return not any(ip in block for block in _SPECIAL_V4)
    if ip.scope_id is not None:
        return False
    embedded = _embedded(ip)
    if embedded:
        return all(is_public(str(address)) for address in embedded)
    return ip in _GLOBAL_UNICAST and not any(ip in block for block in _SPECIAL_V6)


def is_literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _embedded(ip: ipaddress.IPv6Address) -> tuple[ipaddress.IPv4Address, ...]:
    """The IPv4 addresses that a packet to this one ends up at, or passes; none in an ordinary address."""
    if ip.ipv4_mapped is not None:
        return (ip.ipv4_mapped,)
    if ip.sixtofour is not None:
        return (ip.sixtofour,)
    if ip.teredo is not None:
        return ip.teredo  # its server and its client
    if ip in _NAT64:
        return (ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF),)
    return ()


def _listed(entries: frozenset[str], host: str, port: int) -> bool:
    if not entries:
        return False
    host = normal_host(host)
    if host in entries or f"{host}:{port}" in entries:
        return True
    _, dot, parent = host.partition(".")
    while dot:
        if f"*.{parent}" in entries:
            return True
        _, dot, parent = parent.partition(".")
    return False

"""Which addresses the process may talk to: public ones, and what an operator allowed by name.

Pure decisions on hosts and addresses. Leaves to `http`: resolving, connecting, following redirects.
"""

import ipaddress
from dataclasses import dataclass, field
from typing import Final

_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")


@dataclass(frozen=True, slots=True)
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


def is_public(address: str) -> bool:
    """Whether an IP address belongs to the public internet, seen through every way to embed one in IPv6."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.scope_id is not None or ip.is_site_local:
            return False
        embedded = _embedded(ip)
        if embedded is not None:
            return is_public(str(embedded))
    return ip.is_global and not (ip.is_multicast or ip.is_reserved or ip.is_unspecified)


def is_literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _embedded(ip: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    if ip.ipv4_mapped is not None:
        return ip.ipv4_mapped
    if ip.sixtofour is not None:
        return ip.sixtofour
    if ip.teredo is not None:
        return ip.teredo[1]
    if ip in _NAT64:
        return ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF)
    return None


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

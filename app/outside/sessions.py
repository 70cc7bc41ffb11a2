"""Pools of connections with pinned addresses, and what their failures mean: loaded with the first request."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from app.outside.addresses import is_public, normal_host
from app.outside.failures import OutsideError, place_of

# Long enough to spare a burst of calls the lookup, short enough to follow a provider that moves.
_DNS_CACHE_SECONDS: Final = 10
_KEEPALIVE_SECONDS: Final = 30.0

Lookup = Callable[[str, int, socket.AddressFamily], Awaitable[list[ResolveResult]]]


def open_session(lookup: Lookup | None, user_agent: str, *, private: bool) -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(
        resolver=_Resolver(lookup, refuse_private=not private),
        limit=0,  # callers bound their own concurrency, fairly between tenants
        ttl_dns_cache=_DNS_CACHE_SECONDS,
        keepalive_timeout=_KEEPALIVE_SECONDS,
    )
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),  # nothing one tenant received is sent for another
        headers={"User-Agent": user_agent},
        trust_env=False,  # a proxy from the environment would connect for us, unpinned
        raise_for_status=False,
    )


class _Resolver(AbstractResolver):
    """Resolves, checks, and hands the connector exactly the addresses that were checked."""

    def __init__(self, lookup: Lookup | None, *, refuse_private: bool) -> None:
        self._lookup = lookup or aiohttp.ThreadedResolver().resolve
        self._refuse_private = refuse_private

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._lookup(host, port, family)
        if self._refuse_private and not all(is_public(result["host"]) for result in found):
            # One private address among public ones is already an attempt to reach it by retrying.
            raise OutsideError("ADDRESS_REFUSED", f"{normal_host(host)} is not a public address")
        return found

    async def close(self) -> None:
        return None


def translated(error: Exception, url: URL) -> OutsideError | None:
    """None for what is no failure of the other side."""
    if not isinstance(error, aiohttp.ClientError | TimeoutError | OSError):
        return None
    place = place_of(url)
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return OutsideError("OUTSIDE_UNREACHABLE", f"{place} did not accept a connection in time", retryable=True)
    if isinstance(error, asyncio.TimeoutError):
        return OutsideError("OUTSIDE_TIMEOUT", f"{place} did not answer in time", retryable=True)
    if isinstance(error, aiohttp.ClientConnectorError):
        return OutsideError("OUTSIDE_UNREACHABLE", f"{place} cannot be reached", retryable=True)
    if isinstance(error, aiohttp.InvalidURL):
        return OutsideError("ADDRESS_REFUSED", "the address is not a valid URL")
    return OutsideError("OUTSIDE_CUT_OFF", f"{place} broke the connection off", retryable=True)

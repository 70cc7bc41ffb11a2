"""Connections to places: made to an address that was looked up once, checked and pinned, and kept for reuse.

Leaves to `heads`: which hosts a policy allows; to `wire`: what is said on a connection.
"""

import asyncio
import socket
import ssl
from collections.abc import Sequence
from typing import Final

from app.outside.addresses import is_literal, is_public
from app.outside.failures import OutsideError, not_public
from app.outside.heads import Key, Route
from app.outside.names import Lookup, Names
from app.outside.wire import Connection

_KEPT_SECONDS: Final = 30.0
# Of idle ones. Those in use have no bound here: callers bound their own concurrency, fairly between tenants.
_MAX_KEPT: Final = 1024
_MAX_KEPT_PER_PLACE: Final = 256


class Pool:
    def __init__(self, lookup: Lookup | None = None) -> None:
        self._names = Names(lookup)
        self._open: set[Connection] = set()
        self._kept: dict[Key, list[Connection]] = {}
        self._count = 0
        self._sweeper: asyncio.TimerHandle | None = None
        self._tls: ssl.SSLContext | None = None

    def take(self, key: Key) -> Connection | None:
        """The one that was used last, so that the others may grow old."""
        kept = self._kept.get(key)
        while kept:
            connection = kept.pop()
            self._count -= 1
            if connection.reusable and not connection.transport.is_closing():
                return connection
        return None

    def give(self, connection: Connection) -> None:
        """After an exchange. What cannot serve again is closed."""
        if not connection.finish():
            return
        kept = self._kept.setdefault(connection.route.key, [])
        if self._count >= _MAX_KEPT or len(kept) >= _MAX_KEPT_PER_PLACE:
            connection.drop()
            return
        loop = asyncio.get_running_loop()
        connection.since = loop.time()
        kept.append(connection)
        self._count += 1
        if self._sweeper is None:
            self._sweeper = loop.call_later(_KEPT_SECONDS, self._sweep)

    async def connect(self, route: Route, within: float | None) -> Connection:
        """Tries the addresses in their order. Each gets an equal share of the time that is left, so that one that
        swallows every packet does not cost the others their chance."""
        loop = asyncio.get_running_loop()
        ends = None if within is None else loop.time() + within
        failed: Exception | None = None
        try:
            async with asyncio.timeout_at(ends):
                addresses = await self._addresses(route)
            tls = self._tls_context() if route.tls else None
        except (OSError, UnicodeError) as error:
            addresses, tls, failed = (), None, error
        for at, address in enumerate(addresses):
            share = None if ends is None else (ends - loop.time()) / (len(addresses) - at)
            try:
                async with asyncio.timeout(share):
                    _, connection = await loop.create_connection(
                        lambda: Connection(route),
                        address,
                        route.port,
                        ssl=tls,
                        server_hostname=route.host if tls else None,
                        flags=socket.AI_NUMERICHOST,
                    )
            except OSError as error:  # a timeout is one
                failed = error
            else:
                return self._watched(connection)
        late = isinstance(failed, TimeoutError)
        words = "did not accept a connection in time" if late else "cannot be reached"
        raise OutsideError("OUTSIDE_UNREACHABLE", f"{route.place} {words}", retryable=True) from failed

    async def close(self) -> None:
        """Also what is in use."""
        self._kept.clear()
        self._count = 0
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        left = list(self._open)
        for connection in left:
            connection.drop()
        if left:
            await asyncio.wait([connection.gone for connection in left])

    async def _addresses(self, route: Route) -> Sequence[str]:
        if is_literal(route.host):
            addresses: Sequence[str] = [route.host]
        else:
            addresses = await self._names.addresses(route.host, route.port)
        if not route.private and not all(map(is_public, addresses)):
            # One private address among public ones is already an attempt to reach it by retrying.
            raise not_public(route.host)
        return addresses

    def _watched(self, connection: Connection) -> Connection:
        self._open.add(connection)
        connection.gone.add_done_callback(lambda _: self._open.discard(connection))
        return connection

    def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
            self._tls.set_alpn_protocols(["http/1.1"])
        return self._tls

    def _sweep(self) -> None:
        """One timer for all: closes what was idle for too long, and comes again for the next."""
        loop = asyncio.get_running_loop()
        oldest = loop.time() - _KEPT_SECONDS
        for key, kept in list(self._kept.items()):
            aged = sum(connection.since <= oldest for connection in kept)
            for connection in kept[:aged]:  # the list is in the order of last use
                connection.drop()
            del kept[:aged]
            self._count -= aged
            if not kept:
                del self._kept[key]
        self._sweeper = None
        if self._kept:
            self._sweeper = loop.call_at(
                min(kept[0].since for kept in self._kept.values()) + _KEPT_SECONDS, self._sweep
            )

"""Lists and reports from a standby of the database: a little behind, but never behind what the caller itself has done.

Stands behind the gate of a server with `HOLDFAST_DATABASE_READ_URL`, and nowhere else. After a request that may have
changed something, the caller's reads wait for nothing: they are answered by the primary until the standby has that
change too. At another server the caller says so, with the position that it was given.
"""

import contextlib
import re
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.core.principal import Principal
from app.core.recent import RecentDict
from app.events.ports import StoreError
from app.protocols.context import Standby

POSITION: Final = b"holdfast-position"
STALENESS: Final = b"holdfast-staleness"
MAX_CALLERS: Final = 50_000
"""Whose last change is remembered."""
_UNKNOWN: Final = -1
_REPORTS: Final = re.compile(
    r"/api/(?:runs|threads|interrupts|datasets|evals)|/api/(?:runs|threads)/[^/]+/"
    r"(?:events|trace|snapshot|journal|audit|usage|artifacts|transcript|messages|export|evidence|feedback)"
)
_MISSING: Final = frozenset({404, 410})
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class StandbyReads:
    def __init__(self, app: ASGIApp, standby: Standby) -> None:
        self.app, self._standby = app, standby
        self._changed = RecentDict[tuple[str, str], int](MAX_CALLERS)
        """By caller: the position of its last change, or that it is to be asked for."""
        self._sockets: dict[tuple[str, str], int] = {}
        """By caller: open ones, each of which may change something at any moment."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        who = scope.get("holdfast.principal")
        if not isinstance(who, Principal):
            await self.app(scope, receive, send)
        elif scope["type"] != "http":
            await self._socket(scope, receive, send, (who.tenant, who.id))
        elif scope["method"] not in _SAFE:
            await self._change(scope, receive, send, (who.tenant, who.id))
        elif scope["method"] != "GET" or _REPORTS.fullmatch(scope["path"]) is None:
            await self.app(scope, receive, send)
        elif await self._may_serve(scope, (who.tenant, who.id)):
            await self._report(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _change(self, scope: Scope, receive: Receive, send: Send, who: tuple[str, str]) -> None:
        position = _UNKNOWN  # also of what is answered by a stream

        async def with_position(message: Message) -> None:
            nonlocal position
            if message["type"] == "http.response.start" and message["status"] < 300:
                with contextlib.suppress(StoreError):
                    position = await self._standby.position()
                    message["headers"] = [*message.get("headers", ()), (POSITION, str(position).encode())]
                self._changed.put(who, position)
            await send(message)

        try:
            await self.app(scope, receive, with_position)
        finally:
            self._changed.put(who, position)

    async def _socket(self, scope: Scope, receive: Receive, send: Send, who: tuple[str, str]) -> None:
        self._sockets[who] = self._sockets.get(who, 0) + 1
        try:
            await self.app(scope, receive, send)
        finally:
            self._changed.put(who, _UNKNOWN)
            self._sockets[who] -= 1
            if not self._sockets[who]:
                del self._sockets[who]

    async def _may_serve(self, scope: Scope, who: tuple[str, str]) -> bool:
        try:
            wanted = _position(scope)
            if wanted is None:
                return False
            changed = _UNKNOWN if who in self._sockets else self._changed.get(who, 0)
            if changed == _UNKNOWN:
                changed = await self._standby.position()
                if self._changed.get(who) == _UNKNOWN:
                    self._changed[who] = changed
            return await self._standby.may_serve(max(wanted, changed))
        except StoreError:
            return False

    async def _report(self, scope: Scope, receive: Receive, send: Send) -> None:
        missing = False
        staleness = f"{self._standby.staleness_seconds:.2f}".encode()

        async def unless_missing(message: Message) -> None:
            nonlocal missing
            if message["type"] == "http.response.start":
                if message["status"] in _MISSING or message["status"] >= 500:
                    missing = True  # perhaps it is only too new for the standby
                else:
                    message["headers"] = [*message.get("headers", ()), (STALENESS, staleness)]
            if not missing:
                await send(message)

        again = dict(scope)  # a route notes things in its scope
        with self._standby.reading():
            await self.app(scope, receive, unless_missing)
        if missing:
            await self.app(again, receive, send)


def _position(scope: Scope) -> int | None:
    """Of the header; 0 without one, None for one that is not a position."""
    found = [value for name, value in scope["headers"] if name == POSITION]
    if not found:
        return 0
    return max(int(value) for value in found) if all(_is_number(value) for value in found) else None


def _is_number(value: bytes) -> bool:
    return value.isdigit() and len(value) <= 18

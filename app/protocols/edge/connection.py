"""The connection under a request: with bounds on what comes before the gate can see it.

Headers that never end or never come would otherwise be waited for, and kept, without limit.
"""

import asyncio
from typing import Any, Final

from app.protocols.edge.limits import MAX_HEADER_BYTES
from app.protocols.http.connection import HttpConnection

HEAD_SECONDS: Final = 10.0
"""From the connection, or the first byte of a further request, until the headers are complete."""
_MAX_HEAD_BYTES: Final = 2 * MAX_HEADER_BYTES
"""The gate answers what is over its limit; this is where even that is no longer waited for."""


class RequestConnection(HttpConnection):
    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._head_timer: asyncio.TimerHandle | None = None
        self._in_head = True
        self._head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            # Counted before it is parsed: the parser keeps an endless header to itself.
            self._head_bytes += len(data)
            if self._head_bytes > _MAX_HEAD_BYTES and self._more_than_a_head(data):
                return
        super().data_received(data)
        if self._in_head and self._head_timer is None:
            self._start_timer()  # most heads come in one piece and are waited for by nobody

    def _more_than_a_head(self, data: bytes) -> bool:
        """A large piece may hold the end of the headers and much of a body; then all is well."""
        if b"\r\n\r\n" in data[: _MAX_HEAD_BYTES + 4]:
            return False
        self._stop_timer()
        self.transport.abort()
        return True

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head_bytes = 0
        self._stop_timer()
        super().on_headers_complete()

    def _start_timer(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _too_slow(self) -> None:
        self._head_timer = None
        self.transport.abort()

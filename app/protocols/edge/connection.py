"""The connection under a request: with bounds on what comes before the gate can see it.

Headers that never end or never come would otherwise be waited for, and kept, without limit.
"""

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from app.protocols.edge.limits import MAX_HEADER_BYTES, headers_too_large
from app.protocols.http.connection import HttpConnection
from app.protocols.http.errors import answer

HEAD_SECONDS: Final = 10.0
"""From the connection, or the first byte of a further request, until the headers are complete."""
LINGER_SECONDS: Final = 2.0
"""How long what still comes is thrown away after a refusal: closing at once would destroy the answer on its way."""
_MAX_HEAD_BYTES: Final = 2 * MAX_HEADER_BYTES
"""The gate answers what is over its limit; over this, the headers are not even kept."""
_MAX_DISCARDED_BYTES: Final = 1024 * 1024
_HEAD_END: Final = b"\r\n\r\n"


class RequestConnection(HttpConnection):
    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._head_timer: asyncio.TimerHandle | None = None
        self._in_head = True
        self._head_bytes = 0
        self._head_tail = b""
        """The last bytes of the head so far: its end may be cut in two."""
        self._discarded: int | None = None
        """Bytes that came after the refusal; None before it."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._discarded is not None:
            self._discard(len(data))
            return
        if self._in_head:
            # Counted before it is parsed: the parser keeps an endless header to itself.
            self._head_bytes += len(data)
            if self._head_bytes > _MAX_HEAD_BYTES and not self._ends_in(data):
                self._refuse()
                return
            self._head_tail = (self._head_tail + data[-3:])[-3:]
        super().data_received(data)
        if self._in_head and self._head_timer is None:
            self._start_timer()  # most heads come in one piece and are waited for by nobody

    def _ends_in(self, data: bytes) -> bool:
        """A large piece may hold the end of the headers and much of a body; then all is well."""
        return _HEAD_END in self._head_tail + data[: _MAX_HEAD_BYTES + len(_HEAD_END)]

    def _refuse(self) -> None:
        """431 without reading on. Behind an answer that is still being written there is no place for another."""
        self._stop_timer()
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            self.transport.abort()
            return
        refused = answer(headers_too_large(), path=getattr(self, "url", b"").partition(b"?")[0].decode("latin-1"))
        head = b"".join(b"%b: %b\r\n" % header for header in refused.raw_headers)
        self.transport.write(b"%b%b\r\n%b" % (STATUS_LINE[refused.status_code], head, bytes(refused.body)))
        self.transport.write_eof()
        self._discarded = 0
        self._head_timer = self.loop.call_later(LINGER_SECONDS, self._too_slow)

    def _discard(self, size: int) -> None:
        assert self._discarded is not None
        self._discarded += size
        if self._discarded > _MAX_DISCARDED_BYTES:
            self._stop_timer()
            self.transport.abort()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head_bytes = 0
        self._head_tail = b""
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

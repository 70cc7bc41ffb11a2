"""One connection that speaks HTTP/1.1: writes a request, takes its answer apart, one exchange at a time.

The parser is httptools (llhttp), which is strict about framing. What an answer's body consists of is put into
`pieces` by the parser itself, without a call of ours for each chunk. Leaves to `pool`: making and keeping
connections; to `http`: what an answer means, bounds of a body, unpacking it.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser
from multidict import CIMultiDict

from app.outside.failures import OutsideError
from app.outside.heads import Route

_MAX_HEAD: Final = 64 * 1024
# How much may wait to be read before the other side is made to wait, and how much may arrive without being body.
_MAX_UNREAD: Final = 256 * 1024
# A body up to this size goes out in one write with its head; a larger one in parts, so that a deadline for silence
# counts from the last part that the other side took.
_MAX_AT_ONCE: Final = 64 * 1024
_SLOW: Final = ("OUTSIDE_TIMEOUT", "did not answer in time")


@dataclass(frozen=True, slots=True)
class Segments:
    """A body sent piece by piece, so that a large attachment is never joined into one buffer."""

    length: int
    pieces: Callable[[], Iterator[bytes]]


def _parts(body: bytes) -> Iterator[bytes]:
    return (body[at : at + _MAX_AT_ONCE] for at in range(0, len(body), _MAX_AT_ONCE))


class _Enough(Exception):
    """Stops the parser where our message ends, or cannot go on."""


class Connection(asyncio.Protocol):
    """Between two exchanges `complete` is true; whatever arrives then closes the connection."""

    __slots__ = (
        "_bodiless", "_clogged", "_loop", "_parser", "_paused", "_room", "_sent", "_timer", "_unread",
        "_until_end", "_waiter", "complete", "fault", "gone", "headers", "on_body", "pieces", "reusable", "route",
        "since", "status", "transport",
    )  # fmt: skip

    def __init__(self, route: Route) -> None:
        self.route = route
        self._loop = asyncio.get_running_loop()
        self.gone: asyncio.Future[None] = self._loop.create_future()
        self.pieces: list[bytes] = []
        self.on_body = self.pieces.append  # the same list for good: the parser keeps this method
        self.transport: asyncio.Transport
        self.status = 0
        self.headers: CIMultiDict[str] = CIMultiDict()
        self.complete, self.reusable = True, False
        self.fault: tuple[str, str] | None = None
        self.since = 0.0
        """When it was last used, for the pool."""
        self._parser = HttpResponseParser(self)
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._paused = self._clogged = self._bodiless = self._until_end = self._sent = False
        self._unread = self._room = 0

    # -- the exchange ------------------------------------------------------------------------------

    async def ask(
        self, head: bytes, body: bytes | Segments | None, *, bodiless: bool, idle: float | None, ends: float | None
    ) -> None:
        """Returns with the head of the answer; its body may still be on its way. `bodiless` is the answer to HEAD."""
        self.status, self.headers = 0, CIMultiDict()
        self.complete = self.reusable = self._until_end = False
        self._bodiless, self._sent, self._unread, self._room = bodiless, True, 0, _MAX_HEAD
        if ends is not None:
            self._timer = self._loop.call_at(ends, self.fail, *_SLOW)
        if self.transport.is_closing():
            self.fail("OUTSIDE_CUT_OFF", "broke the connection off")
        elif body is None:
            self.transport.write(head)
        elif isinstance(body, bytes) and len(body) <= _MAX_AT_ONCE:
            self.transport.write(head + body)
        else:
            self._sent = False
            await self._upload(head, body, idle)
        while not self.status:
            if self.fault is not None:
                raise self.error()
            await self.news(idle)

    async def news(self, idle: float | None) -> None:
        """Waits for a head, a piece, the end, a fault, or room to write. Whoever is cancelled here hangs up."""
        waiter = self._waiter = self._loop.create_future()
        silence = None if idle is None else self._loop.call_later(idle, self.fail, *_SLOW)
        try:
            await waiter
        except BaseException:
            self.drop()
            raise
        finally:
            self._waiter = None
            if silence is not None:
                silence.cancel()

    def take(self) -> bytes:
        """All that has arrived and was not taken yet."""
        pieces = self.pieces
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self._unread = 0
        if self._paused:
            self._paused = False
            if not self.transport.is_closing():
                self.transport.resume_reading()
        return data

    def finish(self) -> bool:
        """After the exchange: whether another one may follow. If not, the connection is gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.reusable and not (self.transport.is_closing() or self.transport.get_write_buffer_size()):
            if self.pieces:  # nobody wanted them
                self.take()
            return True
        self.drop()
        return False

    def drop(self) -> None:
        """At once, whatever is still on its way."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.reusable = self._until_end = False  # an end that we make is not the end of a body
        self.transport.abort()

    def fail(self, code: str, words: str) -> None:
        """What has arrived before can still be taken."""
        if self.fault is None and not self.complete:
            self.fault = code, words
            self.drop()
            self._wake()

    def error(self) -> OutsideError:
        code, words = self.fault or ("OUTSIDE_CUT_OFF", "broke the connection off")
        return OutsideError(code, f"{self.route.place} {words}", retryable=code != "OUTSIDE_TOO_LARGE")

    @property
    def unanswered(self) -> bool:
        """Not one byte came back."""
        return not self._unread and not self.status

    async def _upload(self, head: bytes, body: bytes | Segments, idle: float | None) -> None:
        pieces, left = (_parts(body), len(body)) if isinstance(body, bytes) else (body.pieces(), body.length)
        try:
            self.transport.write(head)
            for piece in pieces:
                left -= len(piece)
                if left < 0:
                    break
                self.transport.write(piece)
                while self._clogged and not self.status and self.fault is None:
                    await self.news(idle)
                if self.status or self.fault is not None:
                    return  # whoever answers before the end does not want the rest
            if left:
                raise ValueError("the pieces of a body are not of the length that was announced")
        except BaseException:
            self.drop()
            raise
        self._sent = True

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # -- what the transport tells ------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self.complete:
            self.drop()  # nothing was asked: what is said now is no answer
            return
        self._unread += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            self._stopped()
        if self.pieces or self.complete:
            waiter = self._waiter
            if waiter is not None and not waiter.done():
                waiter.set_result(None)
        if self._unread > _MAX_HEAD and not self.complete:
            self._hold()

    def _stopped(self) -> None:
        if self.complete:
            self.drop()  # more than our answer, or no body after all: the answer itself stands
        else:
            self.fail("OUTSIDE_CUT_OFF", "sent what is not an HTTP answer")

    def _hold(self) -> None:
        """Too much for now, or for good."""
        if not self.status:
            self.fail("OUTSIDE_TOO_LARGE", "answered with a head that is over the limit")
        elif self._unread > _MAX_UNREAD and not self._paused and self.fault is None:
            if not self.pieces:
                self.fail("OUTSIDE_CUT_OFF", "sent what is neither a body nor its end")
            else:
                self._paused = True
                self.transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone.set_result(None)
        if self._until_end and exc is None and self.fault is None:
            self.complete = True
        else:
            self.fail("OUTSIDE_CUT_OFF", "broke the connection off")
        self.reusable = False
        self._wake()
        del self._parser  # it holds our methods, and we hold it

    def pause_writing(self) -> None:
        self._clogged = True

    def resume_writing(self) -> None:
        self._clogged = False
        self._wake()

    # -- what the parser tells ---------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self.complete:
            raise _Enough  # a second answer to one request

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.status:
            return  # behind the body: nobody here reads those
        self._room -= len(name) + len(value) + 4
        if self._room < 0:
            self.fail("OUTSIDE_TOO_LARGE", "answered with a head that is over the limit")
            raise _Enough
        self.headers.add(name.decode(), value.decode("utf-8", "replace").strip())

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        headers = self.headers
        if status < 200:
            if status == 101:
                raise _Enough  # nobody asked for another protocol
            headers.clear()  # only told that there will be an answer
            return
        version, coded = self._parser.get_http_version(), "transfer-encoding" in headers
        if version != "1.1" and (version != "1.0" or coded):
            raise _Enough
        if coded and ",".join(headers.getall("transfer-encoding")).lower() != "chunked":
            raise _Enough
        self.status = status
        if self._bodiless:
            self.complete = True
            raise _Enough  # the parser cannot know that what the head announces does not follow
        self._until_end = not coded and "content-length" not in headers
        self._wake()

    def on_message_complete(self) -> None:
        if self.status:
            self.complete = True
            self.reusable = self._sent and self._parser.should_keep_alive()

"""Server-sent events: their framing, and the answer that follows threads with them.

An event's bytes are made once, however many clients get them. Leaves to others: which frames there are (a dialect),
following (`follower`), who may listen (the routes).
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.core import json
from app.core.errors import Failure, HoldfastError
from app.core.value import mutable
from app.events.envelope import Event
from app.events.follow import ReadPage
from app.events.hub import Subscription
from app.protocols.wire import follower
from app.protocols.wire.connection import HttpConnection, connection_of
from app.protocols.wire.follower import COMPLETE, End, Frames, ThreadFollower

COMMENT: Final = b": still here\n\n"
"""Keeps a connection open without being an event."""


def event_frame(event: Event) -> bytes:
    """`id` is the thread's `seq`, so that a client resumes where it stopped."""
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (event.seq, event.type.encode(), event.wire())


def named_frame(name: str, data: object) -> bytes:
    """A frame that is no event of the log: it has no id, so the client's cursor stays where it is."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), json.dumps(data))


class SseFrames(Frames, Protocol):
    def closing(self, end: End, failure: Failure | None, /) -> bytes:
        """What a client that is still there is sent when the stream ends before its frames did."""
        ...

    def close(self) -> None: ...


@mutable(slots=True)
class Following:
    """Whose events are streamed: of one thread, after a cursor."""

    subscription: Subscription
    read: ReadPage
    thread_id: str
    after: int
    live: bool = False
    """The subscription is older than the event after the cursor, so nothing has to be read."""


class _Stream(Response):
    """An answer that is written to the request's connection."""

    def __init__(self, headers: Mapping[str, str] | None = None) -> None:
        # Not the framework's: it would look for a body's length and type. What every stream says, its connection adds.
        self.status_code, self.background = 200, None
        self.raw_headers = [(name.encode(), value.encode("latin-1")) for name, value in (headers or {}).items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raise NotImplementedError


class OneFrame(_Stream):
    """A stream of one frame, when there is nothing to follow."""

    def __init__(self, frame: bytes, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(headers)
        self._frame = frame

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = connection_of(scope)
        connection.open(self.raw_headers)
        try:
            connection.write(self._frame, last=True)
        finally:
            await connection.flushed(follower.STALL_SECONDS)
            connection.unwatch()


class EventStream(_Stream):
    """Follows a thread until the frames end, the client leaves or the server stops."""

    def __init__(
        self,
        following: Following,
        frames: SseFrames,
        headers: Mapping[str, str] | None = None,
        *,
        at_once: bool = False,
        first: bytes = b"",
        on_gone: Callable[[], Awaitable[Any]] | None = None,
        keep_alive_seconds: float | None = None,
    ) -> None:
        """`at_once` sends the head before there is a frame; `first` is sent before any; `on_gone` is awaited when the
        client leaves too early."""
        super().__init__(headers)
        self._following, self._frames, self._at_once, self._on_gone = following, frames, at_once, on_gone
        self._first, self._keep_alive_seconds = first, keep_alive_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection, its = connection_of(scope), self._following
        connection.open(self.raw_headers)
        failure: Failure | None = None
        try:
            if self._at_once or self._first:
                connection.write(self._first)
            follows = ThreadFollower(
                connection,
                its.subscription,
                its.read,
                self._frames,
                {its.thread_id: its.after},
                live=its.live,
                keep_alive_seconds=self._keep_alive_seconds,
            )
            try:
                end = await follows.run()
            except HoldfastError as error:
                end, failure = End.DRAINED, error.failure
            if end is not COMPLETE:
                await self._break_off(connection, end, failure)
        finally:
            self._frames.close()
            await connection.flushed(follower.STALL_SECONDS)
            connection.unwatch()

    async def _break_off(self, connection: HttpConnection, end: End, failure: Failure | None) -> None:
        if end is End.LOST or not await connection.flushed(follower.STALL_SECONDS):
            if self._on_gone is not None:
                await self._on_gone()
        else:
            # Whose credentials ended is sent nothing more.
            connection.write(b"" if end is End.REVOKED else self._frames.closing(end, failure), last=True)

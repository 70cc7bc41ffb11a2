"""What a stream needs of its client's connection, whichever server is under it.

`uvicorn_connection` implements it by direct writes, `asgi` by plain messages. Leaves to others: what is written, and
how long a reader may take (the follower).
"""

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from starlette.types import Scope

CONNECTION: Final = "holdfast.connection"
"""The key of a request's connection in its scope, and of the server's own in `scope["extensions"]`."""
STREAM_HEADERS: Final = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)
"""Of every answer of server-sent events."""

WHOLE_BODY_BYTES: Final = 64 * 1024
"""A request's body up to this size is taken at once if it came with its head: it is below every limit."""

RawHeaders = Iterable[tuple[bytes, bytes]]


class Credentials(Protocol):
    """What the client showed when it came; asked again while its stream is open."""

    def check_after(self) -> float:
        """Seconds until they should be checked again."""
        ...

    async def still_valid(self) -> bool: ...

    def watch(self, on_change: Callable[[], None], /) -> Callable[[], None]:
        """Calls back when they may have been revoked; gives what ends that."""
        ...


class Connection(Protocol):
    """A way to one client. Nothing that is written waits: a writer that ignores `has_room` fills the memory."""

    has_room: bool
    on_room: Callable[[], None] | None
    """Called when a full buffer has room again."""
    on_lost: Callable[[], None] | None
    """Called when the client is gone; what is written then goes to nobody."""
    credentials: Credentials | None
    """None where nobody needs any."""

    @property
    def begun(self) -> bool:
        """Whether anything was written."""
        ...

    def write(self, data: bytes, *, last: bool = False) -> None: ...

    async def room(self) -> None:
        """Returns when there is room, or nobody to write to."""
        ...

    async def flushed(self, seconds: float) -> bool:
        """Waits for the peer to take what was written; one that does not within so many seconds is dropped.

        Whether the client is still there.
        """
        ...

    def drop(self) -> None:
        """For a peer that does not read: its connection ends at once."""
        ...


class HttpConnection(Connection, Protocol):
    """The connection of one HTTP request. A stream takes it with `open`, then writes until `last`.

    The head leaves with the first write, so that a client that is answered at once gets both in one piece.
    """

    lost: bool
    headers: RawHeaders
    """What the gate adds to every answer."""
    on_begun: Callable[[int], None] | None
    """Of the gate: called with the status when the head is written."""

    @property
    def has_body_part(self) -> bool:
        """Whether a part of the request's body has arrived, so that asking for it does not wait."""
        ...

    @property
    def has_whole_body(self) -> bool:
        """Whether all of a small body has arrived."""
        ...

    def take_body(self) -> bytes | None:
        """The whole of a small body that has arrived and that nobody has read of; None if it must be waited for."""
        ...

    def open(self, headers: RawHeaders) -> None:
        """The head of an event stream, with `headers` of its own."""
        ...

    def watch(self, on_lost: Callable[[], None]) -> None:
        """For an answer that is no stream: reports a client that leaves."""
        ...

    def unwatch(self) -> None:
        """The end of `watch` and of a stream."""
        ...


def connection_of(scope: Scope) -> HttpConnection:
    """The request's connection, as the gate put it there."""
    connection: HttpConnection = scope[CONNECTION]
    return connection

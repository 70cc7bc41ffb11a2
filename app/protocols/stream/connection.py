"""The connection under a websocket: uvicorn's own, with ready-made frames in and a peer that does not read dropped.

uvicorn ends a connection by letting its buffer run out, which a peer that never reads prevents for ever. Whether a
reader is too slow is decided elsewhere (the hub's bounded queues); here it only loses its connection.
"""

from collections.abc import Callable
from typing import Final, Protocol, cast

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

EXTENSION: Final = "holdfast.connection"
"""Under this name in the scope's extensions a route finds its connection."""


class Wire(Protocol):
    """What a socket writes ready-made frames to."""

    on_room: Callable[[], None] | None
    """Called when a full buffer has room again."""

    has_room: bool

    def write(self, frames: bytes) -> None:
        """Never waits: who writes without room fills the memory."""
        ...

    async def room(self) -> None: ...


class StreamConnection(WebSocketsSansIOProtocol):
    on_room: Callable[[], None] | None = None
    has_room = True

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if not self.handshake_complete:  # it was not refused, and its task has not begun
            cast("dict[str, object]", self.scope["extensions"])[EXTENSION] = self

    # -- ready-made frames ---------------------------------------------------------------------------

    def write(self, frames: bytes) -> None:
        if self.disconnected:
            raise ClientDisconnected
        if not (self.close_sent or self.transport.is_closing()):
            self.transport.write(frames)

    async def room(self) -> None:
        await self.writable.wait()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.has_room = False

    def resume_writing(self) -> None:
        super().resume_writing()
        self.has_room = True
        if self.on_room is not None:
            self.on_room()

    # -- peers that do not read ----------------------------------------------------------------------

    async def run_asgi(self) -> None:
        await super().run_asgi()
        self.on_room = None
        self._drop_if_stuck()

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self._drop_if_stuck()

    def shutdown(self) -> None:
        super().shutdown()
        self._drop_if_stuck()

    def _drop_if_stuck(self) -> None:
        # Writable means that the buffer is as good as empty: the peer gets the closing frame in the ordinary way.
        if not self.writable.is_set():
            self.transport.abort()

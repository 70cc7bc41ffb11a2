"""The connection under a websocket: uvicorn's own, except that a peer that does not read is dropped.

uvicorn ends a connection by letting its buffer run out, which a peer that never reads prevents for ever. Whether a
reader is too slow is decided elsewhere (the hub's bounded queues); here it only loses its connection.
"""

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol


class StreamConnection(WebSocketsSansIOProtocol):
    async def run_asgi(self) -> None:
        await super().run_asgi()
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

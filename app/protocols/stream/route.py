"""The route of `/api/stream`: who may open a socket, and what all sockets share."""

from typing import Final

from fastapi import APIRouter, WebSocket

from app.core.clock import SystemClock
from app.protocols.context import Server
from app.protocols.http.caller import Caller
from app.protocols.stream.knowledge import Knowledge
from app.protocols.stream.press import Press
from app.protocols.stream.socket import Socket

_QUERY: Final = ("threadId", "afterSeq", "afterPart", "types")


def routes(server: Server) -> APIRouter:
    router = APIRouter()
    press = Press(Knowledge(server.reader, SystemClock()))

    @router.websocket("/api/stream")
    async def stream(websocket: WebSocket, caller: Caller) -> None:
        await websocket.accept()
        query = {name: websocket.query_params.getlist(name) for name in _QUERY}
        await Socket(server, press, caller, websocket).serve(query)

    return router

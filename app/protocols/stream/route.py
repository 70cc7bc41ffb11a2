"""The route of `/api/stream`: who may open a socket, and what all sockets share."""

from functools import cache
from typing import Final

from fastapi import APIRouter, Response, WebSocket

from app.core import json
from app.core.clock import SystemClock
from app.protocols.auth.shown import SUBPROTOCOL
from app.protocols.context import Server
from app.protocols.http.caller import Caller
from app.protocols.stream import asyncapi
from app.protocols.stream.knowledge import Knowledge
from app.protocols.stream.press import Press
from app.protocols.stream.socket import NO_LONGER_WELCOME, Socket

_QUERY: Final = ("threadId", "afterSeq", "afterPart", "types")


def routes(server: Server) -> APIRouter:
    router = APIRouter()
    knowledge = Knowledge(server.reader, SystemClock())
    press, watch = Press(knowledge), server.metrics.watch
    watch("titles_remembered", "Titles of threads that the stream knows.", lambda: knowledge.titles)
    watch("stories_remembered", "Threads whose plan and tokens the stream knows.", lambda: knowledge.stories)
    watch("frames_in_the_making", "Events whose frames wait for the store.", lambda: press.making)
    described = cache(lambda: json.dumps(asyncapi.document()))

    @router.get("/asyncapi.json", include_in_schema=False)
    async def describe(_caller: Caller) -> Response:
        return Response(described(), media_type="application/json")

    @router.websocket("/api/stream")
    async def stream(websocket: WebSocket, caller: Caller) -> None:
        await websocket.accept(SUBPROTOCOL if SUBPROTOCOL in websocket.scope["subprotocols"] else None)
        query = {name: websocket.query_params.getlist(name) for name in _QUERY}
        socket = Socket(server, press, caller, websocket)
        with server.access.watching(caller, lambda: socket.end(NO_LONGER_WELCOME)):
            await socket.serve(query)

    return router

"""The route of `/api/stream`: who may open a socket, and what all sockets share."""

from functools import cache
from typing import Final

from fastapi import APIRouter, Response, WebSocket

from app.core import json
from app.core.clock import SystemClock
from app.protocols.auth.shown import SUBPROTOCOL
from app.protocols.context import ServerContext
from app.protocols.http.caller import Caller
from app.protocols.http.deferred_route import DeferredRoute
from app.protocols.http.lineages import Lineages
from app.protocols.stream import asyncapi
from app.protocols.stream.event_context import EventContexts
from app.protocols.stream.frame_cache import FrameCache
from app.protocols.stream.socket import DIALECTS, DialectSocketFrames, Socket, SocketFrames

_QUERY: Final = ("threadId", "afterSeq", "afterPart", "types")


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(route_class=DeferredRoute)
    contexts = EventContexts(server.reader, SystemClock())
    frames, watch = FrameCache(contexts), server.metrics.watch
    watch("titles_remembered", "Titles of threads that the stream knows.", lambda: contexts.titles)
    watch("stories_remembered", "Threads whose plan and tokens the stream knows.", lambda: contexts.stories)
    watch("frames_in_the_making", "Events whose frames wait for the store.", lambda: frames.in_progress)
    lineages = Lineages(server.reader)
    described = cache(lambda: json.dumps(asyncapi.document()))

    @router.get("/asyncapi.json", include_in_schema=False)
    async def describe(_caller: Caller) -> Response:
        return Response(described(), media_type="application/json")

    @router.websocket("/api/stream")
    async def stream(websocket: WebSocket, caller: Caller) -> None:
        await websocket.accept(SUBPROTOCOL if SUBPROTOCOL in websocket.scope["subprotocols"] else None)
        query = {name: websocket.query_params.getlist(name) for name in _QUERY}
        name = websocket.query_params.get("dialect", "native")
        spell = DIALECTS.get(name)
        spelled = SocketFrames(frames) if spell is None else DialectSocketFrames(frames, lineages, spell)
        known = spell is not None or name == "native"
        await Socket(server, spelled, caller, websocket).serve(query, valid=known)

    return router

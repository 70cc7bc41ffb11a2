"""/mcp: the address of MCP over streamable HTTP. A message comes in by POST; GET resumes a stream that was cut.

Leaves to `exchange` what is answered; it is imported at the first request.
"""

from typing import Final

from fastapi import APIRouter, Request, Response

from app.protocols.context import ServerContext
from app.protocols.http.caller import Caller
from app.protocols.http.late_import import loaded
from app.protocols.http.straight import Handler, StraightRoute, straight

_EXCHANGE: Final = "app.protocols.mcp.exchange"


class McpRoute(StraightRoute):
    """Every failure is a JSON-RPC error."""

    def answering(self, handle: Handler) -> Handler:
        async def answered(request: Request) -> Response:
            try:
                return await handle(request)
            except Exception as error:
                await loaded(_EXCHANGE)
                from app.protocols.mcp import exchange

                refused = exchange.refusal_of(error)
                if refused is None:
                    raise
                return refused

        return answered


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(prefix="/mcp", tags=["mcp"], route_class=McpRoute, include_in_schema=False)

    @router.post("")
    @straight
    async def post(request: Request, caller: Caller) -> Response:
        await loaded(_EXCHANGE)
        from app.protocols.mcp import exchange

        return await exchange.take_message(server, caller, request)

    @router.get("")
    async def resume(request: Request, caller: Caller) -> Response:
        """The stream of a call, after the event that `Last-Event-ID` names."""
        await loaded(_EXCHANGE)
        from app.protocols.mcp import exchange

        return await exchange.resume_stream(server, caller, request)

    return router

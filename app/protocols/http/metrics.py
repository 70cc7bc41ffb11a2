"""/metrics: what Prometheus reads."""

from fastapi import APIRouter, Response

from app.core.metrics import CONTENT_TYPE
from app.protocols.context import ServerContext
from app.protocols.http.caller import Caller
from app.protocols.http.deferred_route import DeferredRoute
from app.protocols.http.documents import streams


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(route_class=DeferredRoute, tags=["operation"])

    @router.get(
        "/metrics",
        response_class=Response,
        summary="Metrics in Prometheus' text format",
        responses=streams("text/plain", "One line per value."),
    )
    async def metrics(_caller: Caller) -> Response:
        return Response(await server.metrics.scraped(), media_type=CONTENT_TYPE)

    return router

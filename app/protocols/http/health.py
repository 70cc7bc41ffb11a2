"""Is the process alive, and may it be sent work?"""

from fastapi import APIRouter, Response

from app.core import json
from app.events.ports import StoreError
from app.protocols.context import ServerContext
from app.protocols.http.deferred_route import DeferredRoute
from app.protocols.http.late_shapes import shapes


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(route_class=DeferredRoute, tags=["operation"])

    @router.get("/healthz", response_model=shapes.HealthShape, summary="The process is alive")
    async def healthz() -> Response:
        return Response(b'{"status":"ok"}', 200, None, "application/json")

    @router.get(
        "/readyz",
        response_model=shapes.Readiness,
        summary="The server takes work",
        responses={503: {"model": shapes.Readiness, "description": "not now"}},
    )
    async def readyz() -> Response:
        try:
            await server.ping()
        except StoreError as error:
            return _not_ready(error.code)
        if server.lifecycle.draining:
            return _not_ready("NOT_READY")
        if server.workspace.unavailable is not None:
            return _not_ready("WORKSPACE_UNAVAILABLE")
        ready = {"status": "ready", "sandbox": server.sandbox()}
        if (bus := server.bus()) is not None:
            ready["bus"] = bus
        return Response(json.dumps(ready), 200, None, "application/json")

    return router


def _not_ready(code: str) -> Response:
    return Response(json.dumps({"status": "not ready", "code": code}), 503, {"retry-after": "1"}, "application/json")

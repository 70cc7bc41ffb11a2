"""`GET /`: leads a person to the console, and says to a program where to go on. Served to anybody."""

from typing import Final

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from app import __version__
from app.core import json
from app.protocols.http.deferred_route import DeferredRoute

_LINKS: Final = {
    "console": "/console/",
    "docs": "/docs",
    "openapi": "/openapi.json",
    "ready": "/readyz",
    "health": "/healthz",
    "api": "/api",
    "stream": "/api/stream",
    "openai": "/v1",
    "metrics": "/metrics",
}
_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "vary": "accept",
}


def routes() -> APIRouter:
    router = APIRouter(route_class=DeferredRoute, include_in_schema=False)
    document = json.dumps({"name": "Holdfast", "version": __version__, "links": _LINKS})

    @router.get("/")
    async def home(request: Request) -> Response:
        if "text/html" in request.headers.get("accept", ""):
            return RedirectResponse("/console/", 307, headers=_HEADERS)
        return Response(document, headers=_HEADERS, media_type="application/json")

    return router

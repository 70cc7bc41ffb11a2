"""`GET /`: what this server is and where to go on. Served to anybody, so it says nothing about what is on it."""

from html import escape
from typing import Final

from fastapi import APIRouter, Request, Response

from app import __version__
from app.core import json
from app.protocols.http.deferred_route import DeferredRoute

_LINKS: Final = {
    "docs": "/docs",
    "openapi": "/openapi.json",
    "ready": "/readyz",
    "health": "/healthz",
    "api": "/api",
    "stream": "/api/stream",
    "openai": "/v1",
    "metrics": "/metrics",
}
_PAGES: Final = ("docs", "openapi", "ready", "health")
_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "vary": "accept",
}


def routes() -> APIRouter:
    router = APIRouter(route_class=DeferredRoute, include_in_schema=False)
    document = json.dumps({"name": "Holdfast", "version": __version__, "links": _LINKS})
    page = _page().encode()

    @router.get("/")
    async def home(request: Request) -> Response:
        if "text/html" in request.headers.get("accept", ""):
            return Response(page, headers=_HEADERS, media_type="text/html")
        return Response(document, headers=_HEADERS, media_type="application/json")

    return router


def _page() -> str:
    links = "".join(f'<li><a href="{escape(_LINKS[name])}">{escape(_LINKS[name])}</a></li>' for name in _PAGES)
    title = f"Holdfast {escape(__version__)}"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><h1>{title}</h1>'
        f"<p>A server that runs AI agents for other programs.</p><ul>{links}</ul></html>"
    )

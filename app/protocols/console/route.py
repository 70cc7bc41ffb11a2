"""`GET /console`: the page and its files, served to anybody; what they show comes from the API and needs credentials.

The policy lets the page run its own files only: no inline script or style, nothing from elsewhere, no text that is
turned into markup.
"""

from typing import Final

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from app.core.errors import Failure
from app.protocols.console.assets import PAGE, assets
from app.protocols.http.deferred_route import DeferredRoute
from app.protocols.http.errors import HttpProblem

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "media-src 'self' blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
_HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-cache",
    "vary": "accept-encoding",
}


def routes() -> APIRouter:
    router = APIRouter(route_class=DeferredRoute, include_in_schema=False)

    @router.get("/console")
    async def console() -> Response:
        return RedirectResponse("/console/", 308)

    @router.get("/console/{name:path}")
    async def file(request: Request, name: str) -> Response:
        return _answer(request, name or PAGE)

    return router


def _answer(request: Request, name: str) -> Response:
    asset = assets().get(name)
    if asset is None:
        raise HttpProblem(Failure("NOT_FOUND", "There is nothing at this address."))
    headers = _HEADERS | {"etag": asset.etag}
    if request.query_params.get("v") == asset.version:
        headers["cache-control"] = "public, max-age=31536000, immutable"
    if request.headers.get("if-none-match") == asset.etag:
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(asset.compressed, headers=headers | {"content-encoding": "gzip"}, media_type=asset.media_type)
    return Response(asset.content, headers=headers, media_type=asset.media_type)

"""/api/me, /api/sign-in and /api/sign-out: who calls, and the session of a browser in place of a key.

Leaves to others: what the cookie holds and when it counts (`auth.browser_sessions`).
"""

from dataclasses import replace
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response

from app import __version__
from app.core.clock import iso
from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.principal import Principal
from app.events.catalog.ledger import TenantEntered
from app.protocols.auth.browser_sessions import SESSION_MS, cookie_name, token_of
from app.protocols.context import ServerContext
from app.protocols.http.answers import json_answer
from app.protocols.http.caller import Caller, refusal
from app.protocols.http.correlation import HEADERS_KEY
from app.protocols.http.deferred_route import DeferredRoute
from app.protocols.http.documents import may_answer
from app.protocols.http.errors import HttpProblem
from app.protocols.http.late_shapes import shapes
from app.protocols.http.parameters import Limit

_UNCACHED: Final = {"cache-control": "no-store"}
_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
Tenant = Annotated[str | None, Query(pattern=_NAME, description="the tenant in which the session acts")]
TenantCursor = Annotated[str, Query(max_length=64)]


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(route_class=DeferredRoute, prefix="/api", tags=["access"])

    @router.get("/me", response_model=shapes.Me, summary="Who the caller is, and what it may do")
    async def me(request: Request, caller: Caller) -> Response:
        """With the cookie of a browser session also its CSRF token, which every change has to show."""
        token = token_of(request.scope[HEADERS_KEY])
        browsers = server.access.browsers
        csrf = browsers.csrf_of(token) if token and browsers is not None and _by_cookie(request) else None
        return _shown(server, caller, csrf)

    @router.post(
        "/sign-in",
        response_model=shapes.Me,
        summary="Open a browser session for the key that the request shows",
        responses=may_answer("SIGN_IN_REFUSED"),
    )
    async def sign_in(request: Request, caller: Caller, tenant: Tenant = None) -> Response:
        """Sets an HttpOnly, SameSite=Strict cookie that counts for 12 hours, or as long as the key or token does. A
        server without authentication, and one behind a proxy that names the caller, needs no session and sets none.

        With `tenant` the session acts in that tenant: for a key that may manage all of them, or with its session. It is
        recorded in the ledger of that tenant."""
        if tenant is not None and tenant != caller.tenant and not caller.may("tenants:manage"):
            raise refusal(request, caller, "tenants:manage")
        if not server.access.enabled or (_by_cookie(request) and tenant is None):
            return _shown(server, caller, None)
        session = None if server.access.browsers is None else server.access.browsers.open(caller, tenant)
        if session is None:
            raise HttpProblem(Failure("SIGN_IN_REFUSED", "These credentials cannot open a browser session."))
        if tenant is not None and tenant != caller.tenant:
            entered = TenantEntered(principal=caller.id, from_tenant=caller.tenant)
            await server.ledger.record(tenant, entered, actor=caller.actor)
            caller = replace(caller, tenant=tenant)
        answer = _shown(server, caller, session.csrf, session.expires_at)
        _set_cookie(answer, request, session.token, SESSION_MS // 1000)
        return answer

    @router.get("/tenants", response_model=shapes.TenantPage, summary="The tenants that have keys")
    async def tenants(_caller: Caller, after: TenantCursor = "", limit: Limit = 100) -> Response:
        """By name. A tenant that is only named by tokens or a proxy has no key and is not listed."""
        found = await server.keys.tenants(after, limit)
        return json_answer({"items": found, "nextCursor": found[-1] if len(found) == limit else None})

    @router.post("/sign-out", status_code=204, response_class=Response, summary="End the browser session")
    async def sign_out(request: Request, _caller: Caller) -> Response:
        answer = Response(status_code=204)
        _set_cookie(answer, request, "", 0)
        return answer

    return router


def _by_cookie(request: Request) -> bool:
    headers = request.scope[HEADERS_KEY]
    return b"authorization" not in headers and b"x-api-key" not in headers


def _set_cookie(answer: Response, request: Request, value: str, seconds: int) -> None:
    """Secure wherever the page came over TLS; the browser's own word for that holds behind a proxy too."""
    headers = request.scope[HEADERS_KEY]
    secure = headers.get(b"origin", b"").startswith(b"https:") or request.url.scheme == "https"
    answer.set_cookie(cookie_name(headers), value, seconds, secure=secure, httponly=True, samesite="strict")


def _shown(server: ServerContext, caller: Principal, csrf: str | None, expires_at: int | None = None) -> Response:
    ends = caller.expires_at if expires_at is None else expires_at
    shown: JsonObject = {
        "id": caller.id,
        "tenant": caller.tenant,
        "roles": sorted(caller.roles),
        "scopes": sorted(caller.scopes),
        "authentication": server.access.enabled,
        "csrfToken": csrf,
        "expiresAt": None if ends is None else iso(ends),
        "version": __version__,
    }
    answer = json_answer(shown)
    answer.headers.update(_UNCACHED)
    return answer

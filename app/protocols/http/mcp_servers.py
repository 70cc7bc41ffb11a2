"""/api/mcp-servers/{server}/login: log a tenant in to a remote MCP server, and out again.

Tokens are in no answer. Leaves to others: the list of servers (`sessions.discovery`), and the steps of OAuth.
"""

from typing import Annotated
from urllib.parse import urlsplit

from fastapi import APIRouter, Response
from fastapi import Request as HttpRequest
from pydantic import Field

from app.core.clock import iso
from app.core.errors import Failure
from app.protocols.context import ServerContext
from app.protocols.http.answers import json_answer
from app.protocols.http.body import read_model
from app.protocols.http.caller import Caller
from app.protocols.http.deferred_route import DeferredRoute
from app.protocols.http.documents import may_answer, takes
from app.protocols.http.errors import HttpProblem
from app.protocols.http.late_shapes import shapes
from app.protocols.http.submission import Request

_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_Code = Annotated[str, Field(min_length=1, max_length=4000)]


class BeginMcpLogin(Request):
    """Where the person's browser is sent back to: an address of a loopback interface, or an https one."""

    redirect_uri: Annotated[str, Field(min_length=1, max_length=500, pattern=r"^https?://[!-~]+$")]


class FinishMcpLogin(Request):
    """The ticket of the first step, and what the browser brought back."""

    ticket: Annotated[str, Field(min_length=1, max_length=20_000, pattern=r"^[A-Za-z0-9_=-]+$")]
    code: _Code
    state: _Code
    iss: _Code | None = None


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(route_class=DeferredRoute, prefix="/api/mcp-servers/{name}/login", tags=["mcp servers"])
    refusals = "MCP_SERVER_NOT_FOUND", "MCP_OAUTH_NOT_DECLARED"

    @router.post(
        "",
        response_model=shapes.McpLoginBegun,
        summary="Begin a login to a remote MCP server",
        openapi_extra=takes(BeginMcpLogin),
        responses=may_answer(*refusals, "MCP_LOGIN_FAILED"),
    )
    async def begin(name: str, request: HttpRequest, caller: Caller) -> Response:
        """A person opens `authorizationUrl`; the second step takes what their browser is sent back with."""
        body, _ = await read_model(request, BeginMcpLogin)
        parts = urlsplit(body.redirect_uri)
        if parts.fragment or not (parts.scheme == "https" or parts.hostname in _LOOPBACK):
            message = "RedirectUri must be https, or http on a loopback address, without a fragment."
            raise HttpProblem(Failure("INVALID_REQUEST", message))
        begun = await server.mcp_logins.begin(caller, name, body.redirect_uri)
        if isinstance(begun, Failure):
            raise HttpProblem(begun)
        return json_answer(begun | {"expiresAt": iso(begun["expiresAt"])})

    @router.post(
        "/complete",
        response_model=shapes.McpLoginShape,
        summary="Finish a login to a remote MCP server",
        openapi_extra=takes(FinishMcpLogin),
        responses=may_answer(*refusals, "MCP_LOGIN_FAILED", "STORAGE_FULL"),
    )
    async def complete(name: str, request: HttpRequest, caller: Caller) -> Response:
        """From here on calls of the tenant's runs use the login. The tokens are stored encrypted."""
        given, _ = await read_model(request, FinishMcpLogin)
        made = await server.mcp_logins.finish(caller, name, given.ticket, given.code, given.state, given.iss)
        if isinstance(made, Failure):
            raise HttpProblem(made)
        ends = None if made.expires_at is None else iso(made.expires_at)
        shown = {"server": name, "issuer": made.issuer, "scope": made.scope, "expiresAt": ends}
        return json_answer(shown | {"renewable": made.refresh_token is not None})

    @router.delete(
        "", status_code=204, summary="Log out of a remote MCP server", responses=may_answer(*refusals, "STORAGE_FULL")
    )
    async def end(name: str, caller: Caller) -> Response:
        """Forgets the tokens of the tenant. Idempotent."""
        failure = await server.mcp_logins.end(caller, name)
        if failure is not None:
            raise HttpProblem(failure)
        return Response(status_code=204)

    return router

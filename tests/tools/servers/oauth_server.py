"""A real authorization server with a real MCP server behind it, over HTTP on one port, for tests of logins.

Registers clients, grants codes with PKCE, rotates refresh tokens and ends a login whose refresh token is used twice.
"""

import asyncio
import base64
import contextlib
import hashlib
import secrets
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode

import uvicorn
from mcp.server.mcpserver import MCPServer
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

CLIENT, SECRET = "unattended", "the secret of the unattended client"


@dataclass
class OAuthServer:
    """Its state is open: tests read and change it."""

    url: str
    codes: dict[str, dict[str, Any]] = field(default_factory=dict)
    clients: dict[str, dict[str, Any]] = field(default_factory=dict)
    access: dict[str, str] = field(default_factory=dict)
    """Valid access tokens, each with its login."""
    refresh: dict[str, str] = field(default_factory=dict)
    spent: dict[str, str] = field(default_factory=dict)
    """Refresh tokens that were used, each with its login."""
    logins: int = 0
    renewals: int = 0
    lifetime: int = 3600
    other_issuer: str | None = None
    """What the metadata claim to be, when they lie."""
    calls: list[str] = field(default_factory=list)
    """The login of each request to the MCP server."""

    def expire(self) -> None:
        self.access.clear()

    def revoke(self, login: str) -> None:
        for tokens in (self.access, self.refresh):
            for token in [one for one, owner in tokens.items() if owner == login]:
                del tokens[token]

    # -- the authorization server --------------------------------------------------------------------

    async def answer(self, request: Request) -> Response:
        match request.url.path:
            case "/.well-known/oauth-protected-resource/mcp":
                return JSONResponse({"resource": f"{self.url}/mcp", "authorization_servers": [self.url]})
            case "/.well-known/oauth-authorization-server":
                return JSONResponse(
                    {
                        "issuer": self.other_issuer or self.url,
                        "authorization_endpoint": f"{self.url}/authorize",
                        "token_endpoint": f"{self.url}/token",
                        "registration_endpoint": f"{self.url}/register",
                        "response_types_supported": ["code"],
                        "code_challenge_methods_supported": ["S256"],
                        "authorization_response_iss_parameter_supported": True,
                        "scopes_supported": ["files"],
                    }
                )
            case "/register":
                client = await request.json()
                client |= {"client_id": secrets.token_hex(8), "client_secret": secrets.token_hex(16)}
                client["token_endpoint_auth_method"] = "client_secret_post"
                self.clients[client["client_id"]] = client
                return JSONResponse(client, 201)
            case "/authorize":
                return self._authorize(dict(request.query_params))
            case "/token":
                form = {name: found[0] for name, found in parse_qs((await request.body()).decode()).items()}
                return self._token(form, request.headers.get("authorization", ""))
        return JSONResponse({}, 404)

    def _authorize(self, asked: dict[str, str]) -> Response:
        """Everybody agrees."""
        assert asked["redirect_uri"] in self.clients[asked["client_id"]]["redirect_uris"]
        assert asked["resource"] == f"{self.url}/mcp" and asked["code_challenge_method"] == "S256"
        code = secrets.token_hex(8)
        self.codes[code] = asked
        back = {"code": code, "state": asked["state"], "iss": self.url}
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(back)}", 302)

    def _token(self, form: dict[str, str], basic: str) -> Response:
        match form.get("grant_type"):
            case "client_credentials":
                given = base64.b64decode(basic.removeprefix("Basic ")).decode() if basic else ""
                if given != f"{CLIENT}:{SECRET.replace(' ', '%20')}":
                    return JSONResponse({"error": "invalid_client"}, 401)
                return self._granted(CLIENT, renewable=False)
            case "authorization_code":
                asked = self.codes.pop(form["code"], None)
                proof = base64.urlsafe_b64encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
                if asked is None or proof.decode().rstrip("=") != asked["code_challenge"]:
                    return JSONResponse({"error": "invalid_grant"}, 400)
                client = self.clients[asked["client_id"]]
                if form.get("client_secret") != client["client_secret"]:
                    return JSONResponse({"error": "invalid_client"}, 401)
                self.logins += 1
                return self._granted(f"login-{self.logins}")
            case "refresh_token":
                return self._renewed(form["refresh_token"])
        return JSONResponse({"error": "unsupported_grant_type"}, 400)

    def _renewed(self, token: str) -> Response:
        if (stolen := self.spent.get(token)) is not None:
            self.revoke(stolen)
        login = self.refresh.pop(token, None)
        if login is None:
            return JSONResponse({"error": "invalid_grant"}, 400)
        self.spent[token] = login
        self.renewals += 1
        return self._granted(login)

    def _granted(self, login: str, *, renewable: bool = True) -> Response:
        access, refresh = f"access-{secrets.token_hex(16)}", f"refresh-{secrets.token_hex(16)}"
        self.access[access] = login
        body: dict[str, Any] = {"access_token": access, "token_type": "bearer", "expires_in": self.lifetime}
        if renewable:
            self.refresh[refresh] = login
            body["refresh_token"] = refresh
        return JSONResponse(body)


@contextlib.asynccontextmanager
async def oauth_server() -> AsyncIterator[OAuthServer]:
    server = MCPServer("files")

    @server.tool(description="Reads a file.")
    def read(path: str) -> str:
        return f"content of {path}"

    inner = server.streamable_http_app()
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(128)  # whoever connects before it serves waits
    state = OAuthServer(f"http://127.0.0.1:{listener.getsockname()[1]}")

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await inner(scope, receive, send)
        request = Request(scope, receive)
        if request.url.path != "/mcp":
            return await (await state.answer(request))(scope, receive, send)
        login = state.access.get(request.headers.get("authorization", "").removeprefix("Bearer "))
        if login is None:
            named = f'Bearer resource_metadata="{state.url}/.well-known/oauth-protected-resource/mcp"'
            return await Response(status_code=401, headers={"www-authenticate": named})(scope, receive, send)
        state.calls.append(login)
        return await inner(scope, receive, send)

    web = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1))
    serving = asyncio.create_task(web.serve([listener]))
    try:
        yield state
    finally:
        web.should_exit = True
        await serving
        listener.close()

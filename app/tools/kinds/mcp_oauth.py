"""OAuth 2.1 with a remote MCP server: discovery, registration, authorization code with PKCE, renewal.

The official client's pieces are used for what they do in one step; they are not used as a whole, because a login here
is two requests that different processes may serve. Leaves to others: storing grants (`tools.grants`), sending tokens
(`mcp_tokens`), and who may log in.
"""

import asyncio
import base64
import importlib
import re
import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode, urlsplit

from app.core import json
from app.core.errors import Failure, HoldfastError
from app.core.json import JsonObject
from app.core.value import value
from app.outside.addresses import AddressPolicy, normal_host
from app.outside.http import HttpClient
from app.tools.grants import McpGrant
from app.tools.kinds.mcp_endpoint import McpEndpoint
from app.tools.rendering import Rendering, RenderingError, Secret
from app.workspace.specs.tool import McpOAuth
from app.workspace.templates import tolerant_template

if TYPE_CHECKING:  # the packages are imported when a server is first used
    import httpx2
    from mcp.shared.auth import OAuthMetadata, ProtectedResourceMetadata

SECONDS: Final = 30.0
"""For all requests of one step together."""
_EARLY_MS: Final = 30_000
"""How long before its end a token is renewed."""
_ERROR: Final = re.compile(r"[a-z_]{1,40}")


class OAuthRefused(Exception):
    """A step that failed. `final` says that the authorization server refused, so that trying again is of no use."""

    def __init__(self, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.message, self.final = message, final


@value(frozen=True, slots=True)
class _Discovered:
    metadata: "OAuthMetadata"
    resource: str | None
    scope: str | None


class McpOAuthFlow:
    """The steps with one server. All raise OAuthRefused."""

    def __init__(self, server: McpEndpoint, http: HttpClient, secret: Secret, now_ms: Callable[[], int]) -> None:
        assert server.oauth is not None and server.url is not None
        self._server, self._http, self._secret, self._now_ms = server, http, secret, now_ms
        self._oauth: McpOAuth = server.oauth

    @property
    def url(self) -> str:
        return self._text(self._server.url or "")

    @property
    def unattended(self) -> bool:
        return self._oauth.grant == "clientCredentials"

    async def begin(self, redirect_uri: str) -> tuple[str, JsonObject]:
        """The address that a person opens, and what `finish` needs; the latter holds secrets."""
        async with asyncio.timeout(SECONDS), await self._client() as client:
            from mcp.client.auth.oauth2 import PKCEParameters

            found = await self._discover(client)
            methods = found.metadata.code_challenge_methods_supported
            if methods is not None and "S256" not in methods:
                raise OAuthRefused("the authorization server does not support PKCE with S256", final=True)
            registered = await self._register(client, found, redirect_uri)
            pkce, state = PKCEParameters.generate(), secrets.token_urlsafe(32)
            asked = {
                "response_type": "code",
                "client_id": registered["client_id"],
                "redirect_uri": redirect_uri,
                "state": state,
                "code_challenge": pkce.code_challenge,
                "code_challenge_method": "S256",
                **({"resource": found.resource} if found.resource else {}),
                **({"scope": found.scope} if found.scope else {}),
                **({"prompt": "consent"} if "offline_access" in (found.scope or "").split() else {}),
            }
            endpoint = self._safe(found.metadata.authorization_endpoint)
            address = f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(asked)}"
            begun = {
                **registered,
                "url": self.url,
                "state": state,
                "verifier": pkce.code_verifier,
                "redirect_uri": redirect_uri,
                "issuer": str(found.metadata.issuer),
                "names_issuer": bool(found.metadata.authorization_response_iss_parameter_supported),
                "token_endpoint": self._safe(found.metadata.token_endpoint),
                "scope": found.scope,
                "resource": found.resource,
            }
            return address, begun

    async def finish(self, begun: JsonObject, code: str, state: str, issuer: str | None) -> McpGrant:
        """What the person was sent back with, turned into tokens."""
        if begun["url"] != self.url:
            raise OAuthRefused("the server's address has changed since the login began", final=True)
        if not secrets.compare_digest(state.encode(), begun["state"].encode()):
            raise OAuthRefused("the answer belongs to another login", final=True)
        if issuer != begun["issuer"] and (issuer is not None or begun["names_issuer"]):
            raise OAuthRefused("the answer comes from another authorization server", final=True)
        grant = McpGrant(
            begun["url"],
            begun["issuer"],
            begun["token_endpoint"],
            begun["client_id"],
            begun["client_secret"],
            begun["auth_method"],
            access_token="",
            scope=begun["scope"],
            resource=begun["resource"],
        )
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": begun["redirect_uri"]}
        return await self._tokens(grant, form | {"code_verifier": begun["verifier"]})

    async def renew(self, grant: McpGrant) -> McpGrant:
        assert grant.refresh_token is not None
        return await self._tokens(grant, {"grant_type": "refresh_token", "refresh_token": grant.refresh_token})

    async def by_credentials(self) -> McpGrant:
        """Tokens for Holdfast itself, by the credentials that the document names."""
        async with asyncio.timeout(SECONDS), await self._client() as client:
            found = await self._discover(client)
        endpoint, given = self._safe(found.metadata.token_endpoint), self._given()
        grant = McpGrant(
            self.url,
            str(found.metadata.issuer),
            endpoint,
            given["client_id"] or "",
            given["client_secret"],
            given["auth_method"],
            access_token="",
            scope=found.scope,
            resource=found.resource,
        )
        return await self._tokens(grant, {"grant_type": "client_credentials"}, scope=found.scope)

    # -- steps ---------------------------------------------------------------------------------------

    async def _discover(self, client: "httpx2.AsyncClient") -> _Discovered:
        from mcp.client.auth import utils
        from mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url

        url = self.url
        async with client.stream("GET", url, headers={"accept": "text/event-stream"}) as challenge:
            named, scope = None, None
            if challenge.status_code in (401, 403):
                named = utils.extract_resource_metadata_from_www_auth(challenge)
                scope = utils.extract_scope_from_www_auth(challenge)
        described: ProtectedResourceMetadata | None = None
        for address in utils.build_protected_resource_metadata_discovery_urls(named, url):
            answer = await client.send(utils.create_oauth_metadata_request(address))
            if (described := await utils.handle_protected_resource_response(answer)) is not None:
                break
        resource = resource_url_from_server_url(url)
        if described is not None:
            if not check_resource_allowed(resource, str(described.resource)):
                raise OAuthRefused("the server's metadata are those of another address", final=True)
            resource = str(described.resource)
        metadata = await self._metadata(client, described)
        kinds = ["client_credentials"] if self.unattended else ["authorization_code", "refresh_token"]
        wanted = " ".join(self._oauth.scopes) or utils.get_client_metadata_scopes(scope, described, metadata, kinds)
        return _Discovered(metadata, resource if described is not None else None, wanted)

    async def _metadata(
        self, client: "httpx2.AsyncClient", described: "ProtectedResourceMetadata | None"
    ) -> "OAuthMetadata":
        from mcp.client.auth import utils

        pinned = None if self._oauth.issuer is None else self._text(self._oauth.issuer)
        named = [str(one) for one in described.authorization_servers] if described is not None else []
        chosen = named[0] if named else None
        if pinned is not None and named:
            chosen = next((one for one in named if utils.issuers_match(one, pinned)), None)
            if chosen is None:
                raise OAuthRefused("the server names other authorization servers than `issuer`", final=True)
        parts = urlsplit(self.url)
        expected = chosen or pinned or f"{parts.scheme}://{parts.netloc}"
        for address in utils.build_oauth_authorization_server_metadata_discovery_urls(chosen or pinned, self.url):
            ok, metadata = await utils.handle_auth_metadata_response(
                await client.send(utils.create_oauth_metadata_request(address))
            )
            if metadata is not None and utils.issuers_match(str(metadata.issuer), expected):
                return metadata
            if not ok:
                break
        raise OAuthRefused("no authorization server was found for it", final=True)

    async def _register(
        self, client: "httpx2.AsyncClient", found: _Discovered, redirect_uri: str
    ) -> dict[str, str | None]:
        from mcp.client.auth import utils
        from mcp.client.auth.exceptions import OAuthRegistrationError
        from mcp.client.auth.oauth2 import check_registration_usable
        from mcp.shared.auth import OAuthClientMetadata
        from pydantic import AnyUrl

        if self._oauth.client_id is not None:
            return self._given()
        if found.metadata.registration_endpoint is None:
            raise OAuthRefused("the authorization server registers no clients by itself: set `clientId`", final=True)
        self._safe(found.metadata.registration_endpoint)
        about = OAuthClientMetadata(redirect_uris=[AnyUrl(redirect_uri)], client_name="Holdfast", scope=found.scope)
        try:
            answer = await client.send(utils.create_client_registration_request(found.metadata, about, self.url))
            made = await utils.handle_registration_response(answer)
            check_registration_usable(made)
        except OAuthRegistrationError:
            raise OAuthRefused("the authorization server did not register Holdfast as a client", final=True) from None
        return {
            "client_id": made.client_id,
            "client_secret": made.client_secret,
            "auth_method": made.token_endpoint_auth_method or ("client_secret_basic" if made.client_secret else "none"),
        }

    async def _tokens(self, grant: McpGrant, form: dict[str, str], *, scope: str | None = None) -> McpGrant:
        form = form | {"client_id": grant.client_id}
        form |= {name: value for name, value in (("resource", grant.resource), ("scope", scope)) if value}
        headers = {"accept": "application/json"}
        if grant.auth_method == "client_secret_basic" and grant.client_secret:
            pair = f"{quote(grant.client_id, safe='')}:{quote(grant.client_secret, safe='')}"
            headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        elif grant.auth_method == "client_secret_post" and grant.client_secret:
            form["client_secret"] = grant.client_secret
        async with asyncio.timeout(SECONDS), await self._client() as client:
            answer = await client.post(grant.token_endpoint, data=form, headers=headers)
            body = await answer.aread()
        if answer.status_code not in (200, 201):
            raise OAuthRefused(
                f"the authorization server refused: {_error_of(body) or f'HTTP {answer.status_code}'}",
                final=400 <= answer.status_code < 500 and answer.status_code not in (408, 429),
            )
        return self._granted(grant, body)

    def _granted(self, grant: McpGrant, body: bytes) -> McpGrant:
        from mcp.shared.auth import OAuthToken
        from pydantic import ValidationError

        try:
            given = OAuthToken.model_validate_json(body)
        except ValidationError:
            raise OAuthRefused("the authorization server's answer cannot be read") from None
        expires = None if given.expires_in is None else self._now_ms() + given.expires_in * 1000
        return replace(
            grant,
            access_token=given.access_token,
            refresh_token=given.refresh_token or grant.refresh_token,
            expires_at=expires,
            scope=given.scope or grant.scope,
        )

    def expired(self, grant: McpGrant) -> bool:
        return grant.expires_at is not None and self._now_ms() >= grant.expires_at - _EARLY_MS

    # -- what they need ------------------------------------------------------------------------------

    async def _client(self) -> "httpx2.AsyncClient":
        await asyncio.to_thread(_import_oauth)
        import httpx2

        from app.outside.httpx_transport import PinnedTransport

        policy = AddressPolicy(self._server.private, self._server.only, proxied=True)
        return httpx2.AsyncClient(
            transport=PinnedTransport(self._http, policy), timeout=self._server.connect_seconds, trust_env=False
        )

    def _given(self) -> dict[str, str | None]:
        secret = None if self._oauth.client_secret is None else self._text(self._oauth.client_secret)
        method = "none" if secret is None else "client_secret_basic"
        return {"client_id": self._text(self._oauth.client_id or ""), "client_secret": secret, "auth_method": method}

    def _safe(self, address: Any) -> str:
        """Codes and tokens go over TLS; without it only to hosts that the workspace calls private."""
        parts = urlsplit(str(address))
        if parts.scheme != "https" and normal_host(parts.hostname or "") not in self._server.private:
            raise OAuthRefused("the authorization server's addresses are not https", final=True)
        return str(address)

    def _text(self, template: str) -> str:
        try:
            return Rendering({}, self._secret).text(tolerant_template(template, ()))
        except RenderingError as error:
            raise OAuthRefused(error.failure.message, final=True) from None


async def attempted(step: Any) -> Any:
    """The step's result, with whatever went wrong on the way as OAuthRefused."""
    import httpx2
    from pydantic import ValidationError

    try:
        return await step
    except (httpx2.HTTPError, TimeoutError) as error:
        cause = error.__cause__
        why = f" ({cause.failure.message})" if isinstance(cause, HoldfastError) else ""
        raise OAuthRefused(f"the authorization server or the MCP server cannot be reached{why}") from error
    except (ValidationError, ValueError) as error:
        raise OAuthRefused("the authorization server's answer cannot be read") from error


def login_failure(server: str, refused: OAuthRefused) -> Failure:
    message = f"Logging in to the MCP server {server} failed: {refused.message}."
    return Failure("MCP_LOGIN_FAILED", message, retryable=not refused.final)


def _error_of(body: bytes) -> str | None:
    """The error's code, if it is one: a text of a stranger is not repeated."""
    try:
        found = json.loads(body)
    except json.JsonError:
        return None
    code = found.get("error") if isinstance(found, dict) else None
    return code if isinstance(code, str) and _ERROR.fullmatch(code) else None


def _import_oauth() -> None:
    for name in ("httpx2", "mcp.client.auth", "mcp.client.auth.utils", "mcp.shared.auth", "mcp.shared.auth_utils"):
        importlib.import_module(name)

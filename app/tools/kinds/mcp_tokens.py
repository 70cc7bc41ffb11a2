"""The access token of a tenant at a remote MCP server: added to each request, renewed when it is due or refused.

Leaves to others: the steps of OAuth (`mcp_oauth`) and storing grants (`tools.grants`).
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Final

import httpx2

from app.core.clock import Clock
from app.core.errors import Failure
from app.tools.grants import RENEWAL_MS, GrantVault, McpGrant
from app.tools.kinds.mcp_oauth import McpOAuthFlow, OAuthRefused, attempted
from app.tools.rendering import SecretRedaction

_LOOK_SECONDS: Final = 0.1
"""Between two looks at a grant that another session or server renews."""


class TenantTokens:
    def __init__(
        self, name: str, tenant: str, flow: McpOAuthFlow, vault: GrantVault, clock: Clock, secrets: SecretRedaction
    ) -> None:
        self._name, self._tenant, self._flow, self._vault = name, tenant, flow, vault
        self._clock, self._secrets = clock, secrets

    async def token(self, refused: str | None = None) -> str | Failure:
        """The token to send. `refused` is one that the server did not accept."""
        grant = await self._vault.find(self._tenant, self._name, self._flow.url)
        if grant is None or grant.access_token == refused or self._flow.expired(grant):
            found = await self._renewed(grant)
            if isinstance(found, Failure):
                return found
            grant = found
        self._secrets.renew(f"{self._tenant} access", grant.access_token)
        self._secrets.renew(f"{self._tenant} refresh", grant.refresh_token or "")
        return grant.access_token

    def refusal(self, why: str) -> Failure:
        message = f"The MCP server {self._name} {why}. Run `holdfast mcp login {self._name}`."
        if self._flow.unattended:
            message = f"The MCP server {self._name} {why}. Check `oauth` of its document."
        return Failure("MCP_LOGIN_REQUIRED", message)

    async def _renewed(self, grant: McpGrant | None) -> McpGrant | Failure:
        try:
            if self._flow.unattended:
                made: McpGrant = await attempted(self._flow.by_credentials())
                await self._vault.put(self._tenant, self._name, made)
                return made
            if grant is None:
                return self.refusal("asks for a login")
            if grant.refresh_token is None:
                return self.refusal("no longer accepts the login, which cannot be renewed")
            if self._vault.read_only:
                return self._unavailable("is reached with a token that has expired; the server renews it when needed")
            return await self._renewed_once(grant)
        except OAuthRefused as refused:
            if refused.final:
                return self.refusal(f"no longer accepts the login: {refused.message}")
            return self._unavailable(f"cannot be used: {refused.message}")

    async def _renewed_once(self, grant: McpGrant) -> McpGrant:
        """By one session of one server at a time: a refresh token that is used twice may end the whole login."""
        table = self._vault.table
        for _ in range(round(RENEWAL_MS / 1000 / _LOOK_SECONDS) + 1):
            now = self._clock.now_ms()
            mine = await table.claim(self._tenant, self._name, now, now + RENEWAL_MS)
            current = await self._vault.find(self._tenant, self._name, self._flow.url)
            if current is None:
                raise OAuthRefused("somebody logged out", final=True)
            if current.access_token != grant.access_token:
                if mine:
                    await table.release(self._tenant, self._name)
                return current
            if mine:
                try:
                    made: McpGrant = await attempted(self._flow.renew(current))
                    await self._vault.replace(self._tenant, self._name, made)
                    return made
                except BaseException:
                    await table.release(self._tenant, self._name)
                    raise
            await asyncio.sleep(_LOOK_SECONDS)
        raise OAuthRefused("renewing the login takes too long")

    def _unavailable(self, what: str) -> Failure:
        return Failure("TOOL_UNAVAILABLE", f"The MCP server {self._name} {what}.", retryable=True)


class TokenRefused(Exception):
    """Ends a request that has no token; the failure was reported before."""


class TokenAuth(httpx2.Auth):
    """`refused` is called with the reason before a request fails."""

    def __init__(self, tokens: TenantTokens, refused: Callable[[Failure], None]) -> None:
        self._tokens, self._refused = tokens, refused

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        token = await self._given(None)
        request.headers["authorization"] = f"Bearer {token}"
        response = yield request
        if response.status_code == 401:
            token = await self._given(token)
            request.headers["authorization"] = f"Bearer {token}"
            response = yield request
            if response.status_code == 401:
                self._refused(self._tokens.refusal("does not accept the tokens of its own authorization server"))

    async def _given(self, refused: str | None) -> str:
        token = await self._tokens.token(refused)
        if isinstance(token, Failure):
            self._refused(token)
            raise TokenRefused
        return token

"""Logins of tenants to remote MCP servers: begun, finished, ended. Each end is an entry in the tenant's ledger.

Nothing is kept between the two steps: what the second one needs is sealed and handed to the client. Leaves to others:
the steps of OAuth (passed in), using the tokens (the tools), and who may ask (the protocols).
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from typing import Final, Protocol

from app.core import json
from app.core.clock import Clock
from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.principal import Principal
from app.core.signing import Signer
from app.events.catalog.ledger import McpOAuthCompleted, McpOAuthEnded
from app.events.ports import McpGrantStored
from app.runtime.intake.ledger import Ledger
from app.tools.grants import GrantVault, McpGrant
from app.workspace.compiled import CompiledWorkspace

TICKET_MS: Final = 10 * 60 * 1000
"""How long a person may take to log in."""
_PURPOSE: Final = "mcp login"


class LoginSteps(Protocol):
    """The two steps at one MCP server; failures are values."""

    async def begin(self, redirect_uri: str) -> tuple[str, JsonObject] | Failure: ...

    async def finish(self, begun: JsonObject, code: str, state: str, issuer: str | None) -> McpGrant | Failure: ...


class McpLogins:
    def __init__(
        self,
        ledger: Ledger,
        vault: GrantVault,
        signer: Signer,
        clock: Clock,
        workspace: Callable[[], CompiledWorkspace],
        steps: Callable[[CompiledWorkspace, str], LoginSteps],
    ) -> None:
        self._ledger, self.vault, self._signer, self._clock = ledger, vault, signer, clock
        self._workspace, self._steps = workspace, steps

    async def begin(self, who: Principal, name: str, redirect_uri: str) -> JsonObject | Failure:
        if (refused := self._undeclared(name)) is not None:
            return refused
        begun = await self._steps(self._workspace(), name).begin(redirect_uri)
        if isinstance(begun, Failure):
            return begun
        address, kept = begun
        until = self._clock.now_ms() + TICKET_MS
        ticket = {"tenant": who.tenant, "server": name, "until": until, "kept": kept}
        sealed = self._signer.seal(_PURPOSE, json.dumps(ticket))
        return {"authorizationUrl": address, "ticket": urlsafe_b64encode(sealed).decode(), "expiresAt": until}

    async def finish(
        self, who: Principal, name: str, ticket: str, code: str, state: str, issuer: str | None
    ) -> McpGrant | Failure:
        if (refused := self._undeclared(name)) is not None:
            return refused
        kept = self._opened(who, name, ticket)
        if kept is None:
            return Failure("MCP_LOGIN_FAILED", "The ticket is none of this login's, or older than ten minutes.")
        made = await self._steps(self._workspace(), name).finish(kept, code, state, issuer)
        if isinstance(made, Failure):
            failed = McpOAuthCompleted(server=name, success=False, error=made.message)
            await self._ledger.record(who.tenant, failed, actor=who.actor)
            return made
        done = McpOAuthCompleted(server=name, success=True, issuer=made.issuer, scope=made.scope)
        stored = McpGrantStored(name, self.vault.seal(who.tenant, name, made))
        await self._ledger.record(who.tenant, done, actor=who.actor, conditions=[stored])
        return made

    async def end(self, who: Principal, name: str) -> Failure | None:
        """The tokens are forgotten here; the authorization server is not asked to revoke them."""
        if (refused := self._undeclared(name)) is not None:
            return refused
        ended = McpOAuthEnded(server=name)
        await self._ledger.record(who.tenant, ended, actor=who.actor, conditions=[McpGrantStored(name, None)])
        return None

    def _undeclared(self, name: str) -> Failure | None:
        named = self._workspace().mcp_servers.get(name)
        if named is None:
            return Failure("MCP_SERVER_NOT_FOUND", "The workspace has no such MCP server.")
        if named.spec.oauth is None or named.spec.oauth.grant != "authorizationCode":
            return Failure("MCP_OAUTH_NOT_DECLARED", f"McpServer/{name} does not ask for a person's login.")
        return None

    def _opened(self, who: Principal, name: str, ticket: str) -> JsonObject | None:
        try:
            sealed = urlsafe_b64decode(ticket.encode())
        except ValueError:
            return None
        opened = self._signer.unseal(_PURPOSE, sealed)
        found = {} if opened is None else json.loads(opened)
        fits = found.get("tenant") == who.tenant and found.get("server") == name
        kept: JsonObject | None = found["kept"] if fits and found["until"] > self._clock.now_ms() else None
        return kept

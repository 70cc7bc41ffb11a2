"""OAuth grants for remote MCP servers, one for each tenant and server, encrypted at rest with the server's secret.

Leaves to others: how a grant is obtained and renewed (`kinds.mcp_oauth`), and the table.
"""

from dataclasses import asdict
from typing import Final, Protocol

from app.core import json
from app.core.signing import Signer
from app.core.value import value

RENEWAL_MS: Final = 15_000
"""How long one server may take to renew a grant before another one tries."""


@value(frozen=True, slots=True)
class McpGrant:
    """Tokens, and what is needed to renew them."""

    url: str
    """The MCP server that the tokens are for; they are sent nowhere else, also when its document changes."""
    issuer: str
    token_endpoint: str
    client_id: str
    client_secret: str | None
    auth_method: str | None
    access_token: str
    refresh_token: str | None = None
    expires_at: int | None = None
    """Milliseconds; None when the server did not say."""
    scope: str | None = None
    resource: str | None = None


class GrantTable(Protocol):
    async def find(self, tenant: str, server: str) -> bytes | None: ...

    async def put(self, tenant: str, server: str, sealed: bytes) -> None: ...

    async def replace(self, tenant: str, server: str, sealed: bytes) -> None:
        """Nothing happens when there is none any more."""
        ...

    async def claim(self, tenant: str, server: str, now: int, until: int) -> bool:
        """Whether the caller is the one who renews it until then."""
        ...

    async def release(self, tenant: str, server: str) -> None: ...

    async def of_tenant(self, tenant: str) -> list[str]: ...

    async def tenants_of(self, server: str) -> list[str]: ...


class GrantVault:
    def __init__(self, table: GrantTable, signer: Signer, *, read_only: bool = False) -> None:
        self.table, self._signer, self.read_only = table, signer, read_only

    async def find(self, tenant: str, server: str, url: str) -> McpGrant | None:
        """None also for one that was given for another address, or sealed with a secret that is gone."""
        sealed = await self.table.find(tenant, server)
        opened = None if sealed is None else self._signer.unseal(_purpose(tenant, server), sealed)
        grant = None if opened is None else McpGrant(**json.loads(opened))
        return grant if grant is not None and grant.url == url else None

    async def put(self, tenant: str, server: str, grant: McpGrant) -> None:
        if not self.read_only:
            await self.table.put(tenant, server, self.seal(tenant, server, grant))

    async def replace(self, tenant: str, server: str, grant: McpGrant) -> None:
        await self.table.replace(tenant, server, self.seal(tenant, server, grant))

    def seal(self, tenant: str, server: str, grant: McpGrant) -> bytes:
        return self._signer.seal(_purpose(tenant, server), json.dumps(asdict(grant)))


def _purpose(tenant: str, server: str) -> str:
    """In the key of the cipher: what is stored for one tenant cannot be opened as another's."""
    return f"mcp grant {tenant} {server}"

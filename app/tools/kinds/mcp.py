"""Tools of MCP servers: the kind itself. The tools are in `mcp_tools`, the connections in `mcp_sessions`.

Both are imported when a workspace first declares such a server: most declare none, and the start is quicker for it.
"""

import asyncio
import importlib
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Final

from app.core.clock import Clock
from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.value import value
from app.outside.http import HttpClient
from app.tools.contract import Tool
from app.tools.grants import GrantVault, McpGrant
from app.tools.kind import Discovered, ToolDeps, ToolKind
from app.tools.rendering import Secret
from app.workspace.compiled import CompiledTool, CompiledWorkspace

if TYPE_CHECKING:
    from app.tools.kinds.mcp_endpoint import McpEndpoint
    from app.tools.kinds.mcp_oauth import McpOAuthFlow
    from app.tools.kinds.mcp_sessions import Sessions

_KEY: Final = "mcp"


async def make(declared: CompiledTool, workspace: CompiledWorkspace, deps: ToolDeps) -> Tool | Failure:
    """All servers that the workspace names are asked at once for what they offer, when the first tool is made."""
    await asyncio.to_thread(importlib.import_module, "app.tools.kinds.mcp_tools")
    from app.tools.kinds.mcp_tools import make_mcp, offers_of

    sessions = {name: _sessions(name, workspace, deps) for name in workspace.mcp_servers}
    if _KEY not in deps.build:
        deps.build[_KEY] = await offers_of(workspace, sessions)
    return make_mcp(declared, workspace, sessions, deps.build[_KEY])


def _sessions(name: str, workspace: CompiledWorkspace, deps: ToolDeps) -> "Sessions":
    """Tools that are made again for the same workspace use the same sessions."""
    key = f"{_KEY}:{workspace.digest}:{name}"
    if key not in deps.kept:
        deps.kept[key] = open_sessions(workspace, name, deps.client, deps.secret, deps.grants, deps.clock)
    found: Sessions = deps.kept[key]
    return found


def open_sessions(
    workspace: CompiledWorkspace,
    name: str,
    client: HttpClient,
    secret: Secret,
    grants: GrantVault | None = None,
    clock: Clock | None = None,
) -> "Sessions":
    from app.tools.kinds.mcp_sessions import Sessions

    return Sessions(_endpoint(workspace, name), client, secret, grants, clock)


def _endpoint(workspace: CompiledWorkspace, name: str) -> "McpEndpoint":
    from app.tools.kinds.mcp_tools import server_of

    outgoing = workspace.runtime.outgoing
    return server_of(workspace.mcp_servers[name], frozenset(outgoing.private), frozenset(outgoing.hosts))


@value(frozen=True, slots=True)
class McpLogin:
    """The two steps of a login to one server, for whoever keeps logins."""

    workspace: CompiledWorkspace
    name: str
    client: HttpClient
    secret: Secret
    clock: Clock

    async def begin(self, redirect_uri: str) -> tuple[str, JsonObject] | Failure:
        flow = await self._flow()
        begun: tuple[str, JsonObject] | Failure = await self._outcome(flow.begin(redirect_uri))
        return begun

    async def finish(self, begun: JsonObject, code: str, state: str, issuer: str | None) -> McpGrant | Failure:
        flow = await self._flow()
        made: McpGrant | Failure = await self._outcome(flow.finish(begun, code, state, issuer))
        return made

    async def _flow(self) -> "McpOAuthFlow":
        await asyncio.to_thread(importlib.import_module, "app.tools.kinds.mcp_oauth")
        from app.tools.kinds.mcp_oauth import McpOAuthFlow

        return McpOAuthFlow(_endpoint(self.workspace, self.name), self.client, self.secret, self.clock.now_ms)

    async def _outcome(self, step: Awaitable[Any]) -> Any:
        from app.tools.kinds.mcp_oauth import OAuthRefused, attempted, login_failure

        try:
            return await attempted(step)
        except OAuthRefused as refused:
            return login_failure(self.name, refused)


async def list_tools(
    workspace: CompiledWorkspace, name: str, client: HttpClient, secret: Secret, grants: GrantVault | None = None
) -> list[str] | Failure:
    """The tools that a server offers now, for `holdfast check --connect` and `holdfast doctor`."""
    from app.tools.kinds.mcp_tools import McpServer

    sessions = open_sessions(workspace, name, client, secret, grants)
    try:
        offers = await McpServer(sessions).offers()
    finally:
        await sessions.close()
    return offers if isinstance(offers, Failure) else [offer.name for offer in offers]


async def discover(workspace: CompiledWorkspace, deps: ToolDeps) -> Discovered:
    """What servers offer that agents name as a whole; one that does not answer is left out, with the reason."""
    await asyncio.to_thread(importlib.import_module, "app.tools.kinds.mcp_selections")
    from app.tools.kinds.mcp_selections import selected_tools
    from app.tools.kinds.mcp_tools import offers_of

    sessions = {name: _sessions(name, workspace, deps) for name in workspace.mcp_servers}
    if _KEY not in deps.build:
        deps.build[_KEY] = await offers_of(workspace, sessions)
    return selected_tools(workspace, deps.build[_KEY])


KIND: Final = ToolKind(name="mcp", make=make, discover=discover, remote=True)

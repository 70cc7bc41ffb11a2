"""Tools of MCP servers: the kind itself. The tools are in `mcp_tools`, the connections in `mcp_sessions`.

Both are imported when a workspace first declares such a server: most declare none, and the start is quicker for it.
"""

import asyncio
import importlib
from typing import TYPE_CHECKING, Final

from app.core.errors import Failure
from app.outside.http import HttpClient
from app.tools.contract import Tool
from app.tools.kind import ToolDeps, ToolKind
from app.tools.rendering import Secret
from app.workspace.compiled import CompiledTool, CompiledWorkspace

if TYPE_CHECKING:
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
        deps.kept[key] = open_sessions(workspace, name, deps.client, deps.secret)
    found: Sessions = deps.kept[key]
    return found


def open_sessions(workspace: CompiledWorkspace, name: str, client: HttpClient, secret: Secret) -> "Sessions":
    from app.tools.kinds.mcp_sessions import Sessions
    from app.tools.kinds.mcp_tools import server_of

    outgoing = workspace.runtime.outgoing
    server = server_of(workspace.mcp_servers[name], frozenset(outgoing.private), frozenset(outgoing.hosts))
    return Sessions(server, client, secret)


async def list_tools(
    workspace: CompiledWorkspace, name: str, client: HttpClient, secret: Secret
) -> list[str] | Failure:
    """The tools that a server offers now, for `holdfast check --connect` and `holdfast doctor`."""
    from app.tools.kinds.mcp_tools import McpServer

    sessions = open_sessions(workspace, name, client, secret)
    try:
        offers = await McpServer(sessions).offers()
    finally:
        await sessions.close()
    return offers if isinstance(offers, Failure) else [offer.name for offer in offers]


KIND: Final = ToolKind(name="mcp", make=make, remote=True)

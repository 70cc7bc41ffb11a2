"""Tries the MCP servers of a workspace: whether each can be reached now, and how many tools it offers.

For `holdfast doctor` and whoever else looks from outside of a running server. Calls no tool.
"""

import asyncio
from collections.abc import Mapping

from app.core.errors import Failure
from app.outside.http import HttpClient
from app.tools.kinds.mcp import McpServer, server_of
from app.tools.kinds.mcp_sessions import Sessions
from app.tools.rendering import Secret
from app.workspace.compiled import CompiledWorkspace


async def probe_servers(workspace: CompiledWorkspace, secret: Secret) -> Mapping[str, int | Failure]:
    """The number of tools that each server offers, or why it cannot be used; all at once, each within its own time."""
    client = HttpClient()
    private = frozenset(workspace.runtime.outgoing.private)
    sessions = {
        name: Sessions(server_of(named, private), client, secret)
        for name, named in sorted(workspace.mcp_servers.items())
    }
    try:
        offers = await asyncio.gather(*(McpServer(one).offers() for one in sessions.values()))
    finally:
        await asyncio.gather(*(one.close() for one in sessions.values()))
        await client.close()
    found = zip(sessions, offers, strict=True)
    return {name: offered if isinstance(offered, Failure) else len(offered) for name, offered in found}

"""Where an MCP server is, how it is reached, and within which bounds: what its document says.

Leaves to others: connecting (`mcp_connect`) and sessions (`mcp_sessions`).
"""

from collections.abc import Mapping
from dataclasses import field

from app.core.value import value
from app.workspace.specs.tool import McpOAuth


@value(frozen=True, slots=True)
class McpEndpoint:
    """Where a server is: a command (stdio) or a URL (streamable HTTP). From workspace files only."""

    name: str
    command: tuple[str, ...] = ()
    url: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    private: frozenset[str] = frozenset()
    """Hosts that may be private addresses."""
    connect_seconds: float = 10.0
    call_seconds: float = 60.0
    sessions: int = 4
    """Of one tenant."""
    shared: bool = False
    """Whether all tenants use the same sessions."""
    only: frozenset[str] | None = None
    """When set, the only hosts that it may be reached at."""
    protocol: str | None = None
    """When set, the only version of the protocol that may be agreed on with it."""
    oauth: McpOAuth | None = None
    """How a tenant is authorised there."""

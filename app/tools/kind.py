"""How a kind of tool describes itself, and what it may use to make its tools."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.core.clock import Clock
from app.core.errors import Failure
from app.core.value import contract_value
from app.outside.http import HttpClient
from app.tools.contract import Tool
from app.tools.grants import GrantVault
from app.tools.memory_tools import MemoryActions
from app.tools.rendering import Secret
from app.workspace.catalog import Kind
from app.workspace.compiled import CompiledTool, CompiledWorkspace
from app.workspace.specs.agent import McpSelection


@contract_value(frozen=True, slots=True)
class ToolDeps:
    client: HttpClient
    secret: Secret
    clock: Clock
    folder: Path
    """The workspace's files."""
    files: Path
    """Where tools keep files of their own."""
    data: Path | None = None
    """The server's data folder, which no program may read."""
    kept: dict[str, Any] = field(default_factory=dict)
    """What a kind keeps as long as the server runs; a value with `close` is closed at the end."""
    memory: MemoryActions | None = None
    """What the tools of memory act on."""
    grants: GrantVault | None = None
    """Logins of tenants to remote MCP servers."""
    build: dict[str, Any] = field(default_factory=dict)
    """What a kind keeps while the tools of one workspace are made."""


@contract_value(frozen=True, slots=True)
class Discovered:
    """Tools without a document, as documents would declare them; who selected them; and what could not be asked."""

    tools: dict[str, CompiledTool] = field(default_factory=dict)
    selected: dict[McpSelection, frozenset[str]] = field(default_factory=dict)
    unavailable: dict[str, Failure] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ToolKind(Kind):
    make: Callable[[CompiledTool, CompiledWorkspace, ToolDeps], Tool | Failure | Awaitable[Tool | Failure]]
    """Makes the tool of one Tool document. A Failure is recorded with its message."""
    discover: Callable[[CompiledWorkspace, ToolDeps], Awaitable["Discovered"]] | None = None
    """Finds tools that have no document, for agents that name a server."""
    remote: bool = False
    """Whether its tools are at a server of their own: one that fails is left out, and the workspace is served."""

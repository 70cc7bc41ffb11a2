"""Tools of MCP servers that agents have by naming the server: declared here as a Tool document would declare them.

Leaves to `mcp_tools`: making them, pinning them by their schema, and calling them.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from app.core.errors import Failure
from app.tools.kind import Discovered
from app.tools.kinds.mcp_tools import Offer
from app.workspace.compiled import CompiledTool, CompiledWorkspace
from app.workspace.names import matches
from app.workspace.specs.agent import McpSelection
from app.workspace.specs.tool import McpTarget, ToolSpec

MAX_SELECTED: Final = 500
"""Tools of one server that are taken: models are sent each of them."""
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST: Final = 64


def selected_tools(workspace: CompiledWorkspace, offered: Mapping[str, list[Offer] | Failure]) -> Discovered:
    """A tool that has a document of its own keeps it; of two with one name the later is named after its server too."""
    found = Discovered()
    owners: dict[str, tuple[str, str, McpSelection]] = {}
    for selection in {one: None for agent in workspace.agents.values() for one in agent.mcp_selections}:
        offers = offered.get(selection.mcp)
        if offers is None or isinstance(offers, Failure):
            missing = Failure("TOOL_UNAVAILABLE", f"The MCP server {selection.mcp} was not asked.")
            found.unavailable[f"{selection.mcp}:{selection.match}"] = offers or missing
            continue
        names: set[str] = set()
        for offer in [one for one in offers if matches(one.name, (selection.match,))][:MAX_SELECTED]:
            name = _name(workspace, owners, selection, offer.name)
            owners[name] = (selection.mcp, offer.name, selection)
            found.tools.setdefault(name, _declared(name, selection, offer.name))
            names.add(name)
        found.selected[selection] = frozenset(names)
    return found


def _name(
    workspace: CompiledWorkspace,
    owners: Mapping[str, tuple[str, str, McpSelection]],
    selection: McpSelection,
    remote: str,
) -> str:
    for name in (remote, f"{selection.mcp}_{remote}", f"{selection.mcp}_{selection.effect}_{remote}"):
        fit = _UNFIT.sub("_", name)[:_LONGEST]
        owner = owners.get(fit)
        same = owner is not None and owner[:2] == (selection.mcp, remote) and _alike(owner[2], selection)
        if same or (owner is None and fit not in workspace.tools and fit not in workspace.agents):
            return fit
    return _UNFIT.sub("_", f"{selection.mcp}_{selection.approval}_{selection.effect}_{remote}")[:_LONGEST]


def _alike(one: McpSelection, other: McpSelection) -> bool:
    return (one.effect, one.approval) == (other.effect, other.approval)


def _declared(name: str, selection: McpSelection, remote: str) -> CompiledTool:
    spec = ToolSpec(
        kind="mcp",
        effect=selection.effect,
        approval=selection.approval,
        mcp=McpTarget(server=selection.mcp, tool=remote),
    )
    empty: Mapping[str, str] = MappingProxyType({})
    return CompiledTool(name, "", empty, spec, None, None, selection.approval, (), MappingProxyType({}), empty)

"""The tools of an undo: those of the workspace, and those by which a tool takes its own calls back."""

from collections.abc import Iterable

from app.events.catalog.artifact import UNDO_TOOL
from app.tools.contract import Tool
from app.tools.registry import Registered, Registry


def undo_tool(registry: Registry, name: str) -> Tool | Registered | None:
    """The tool that an action of an undo calls."""
    if not name.startswith(UNDO_TOOL):
        return registry.find(name)
    original = registry.find(name.removeprefix(UNDO_TOOL))
    if original is None or original.definition.compensation is None:
        return None
    return original.definition.compensation.own_tool(original.definition)


def undo_registry(registry: Registry, names: Iterable[str]) -> Registry:
    """What the actions of one undo may call; a tool that is gone is found by none of them."""
    own = {name: undo_tool(registry, name) for name in names if name.startswith(UNDO_TOOL)}
    return Registry.extended(registry, [tool for tool in own.values() if tool is not None])

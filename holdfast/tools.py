"""For a kind of tool of your own: a class with `definition` and `invoke`, and its `ToolKind` as an entry point of
`holdfast.tools`."""

from app.tools.contract import Result, Tool, ToolDefinition
from app.tools.declared import define
from app.tools.kind import ToolDeps, ToolKind
from app.workspace.compiled import CompiledTool, CompiledWorkspace

__all__ = [
    "CompiledTool",
    "CompiledWorkspace",
    "Result",
    "Tool",
    "ToolDefinition",
    "ToolDeps",
    "ToolKind",
    "define",
]

"""Python functions as tools. Trusted code of the workspace; `app.tools.functions` calls them."""

from collections.abc import Callable
from typing import Any, Final

from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.value import value
from app.tools.contract import Result, ToolContext, ToolDefinition
from app.tools.declared import define
from app.tools.decorator import FunctionTool, tool
from app.tools.functions import call_function
from app.tools.kind import ToolDeps, ToolKind
from app.workspace.compiled import CompiledTool, CompiledWorkspace
from app.workspace.entry_loader import load_entry


@value(frozen=True, slots=True)
class PythonTool:
    definition: ToolDefinition
    function: Callable[..., Any]

    @classmethod
    def of(cls, decorated: FunctionTool[Any, Any]) -> "PythonTool":
        return cls(decorated.definition, decorated.function)

    async def invoke(self, arguments: JsonObject, ctx: ToolContext) -> Result | Failure:
        return await call_function(self.function, arguments, ctx)


def make(declared: CompiledTool, workspace: CompiledWorkspace, _deps: ToolDeps) -> PythonTool | Failure:
    """The function that `entry` names, with the schema of the document or else of its hints."""
    spec = declared.spec
    loaded = load_entry(spec.entry or "", workspace.files, own=declared.module_file is not None)
    if isinstance(loaded, Failure):
        return loaded
    if not isinstance(loaded, FunctionTool):
        if not callable(loaded):
            return Failure("TOOL_INVALID", f"{declared.name}: {spec.entry} is not a function")
        if spec.input is not None:
            return PythonTool(define(declared), loaded)
        loaded = tool(name=declared.name)(loaded)
    return PythonTool(define(declared, loaded.definition), loaded.function)


KIND: Final = ToolKind(name="python", make=make)

"""Python functions, async ones on the loop and plain ones in a thread. Trusted code of the workspace.

A thread cannot be ended: a plain function that overruns goes on until it returns, and its result is dropped.
"""

import inspect
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from app.core.errors import Failure
from app.core.json import JsonObject
from app.outside.threads import in_thread
from app.tools.contract import (
    BytesResult,
    FileResult,
    JsonResult,
    Result,
    TextResult,
    ToolContext,
    ToolDefinition,
)
from app.tools.declared import define
from app.tools.decorator import CONTEXT, FunctionTool, tool
from app.tools.kind import ToolDeps, ToolKind
from app.workspace.compiled import CompiledTool, CompiledWorkspace
from app.workspace.entry_loader import load_entry


@dataclass(frozen=True, slots=True)
class PythonTool:
    definition: ToolDefinition
    function: Callable[..., Any]

    @classmethod
    def of(cls, decorated: FunctionTool[Any, Any]) -> "PythonTool":
        return cls(decorated.definition, decorated.function)

    async def invoke(self, arguments: JsonObject, ctx: ToolContext) -> Result | Failure:
        extra = {CONTEXT: ctx} if CONTEXT in inspect.signature(self.function).parameters else {}
        if inspect.iscoroutinefunction(self.function):
            return as_result(await self.function(**arguments, **extra))
        call = partial(copy_context().run, self.function, **arguments, **extra)
        return as_result(await in_thread(call, f"tool-{self.definition.name}"))


def as_result(value: Any) -> Result | Failure:
    """What a function may return: one of the results, a failure, text, bytes, a path to a file, or JSON."""
    match value:
        case JsonResult() | TextResult() | BytesResult() | FileResult() | Failure():
            return value
        case str():
            return TextResult(value)
        case bytes():
            return BytesResult(value)
        case Path():
            return FileResult(value)
        case BaseModel():
            return JsonResult(value.model_dump(mode="json", by_alias=True))
        case _:
            return JsonResult(value)


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

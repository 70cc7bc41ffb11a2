"""Calls Python functions for tools: async ones on the loop and plain ones in a thread. Trusted code of the workspace.

A thread cannot be ended: a plain function that overruns goes on until it returns, and its result is dropped.
"""

import inspect
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from app.core.errors import Failure
from app.core.json import JsonObject
from app.outside.threads import in_thread
from app.tools.contract import BytesResult, FileResult, JsonResult, Result, TextResult, ToolContext

CONTEXT: Final = "ctx"
"""A parameter of this name gets the ToolContext."""


async def call_function(function: Callable[..., Any], arguments: JsonObject, ctx: ToolContext) -> Result | Failure:
    extra = {CONTEXT: ctx} if CONTEXT in inspect.signature(function).parameters else {}
    if inspect.iscoroutinefunction(function):
        return as_result(await function(**arguments, **extra))
    call = partial(copy_context().run, function, **arguments, **extra)
    return as_result(await in_thread(call, f"tool-{ctx.tool}"))


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

"""A plain Python function as a tool: its schema from type hints, its descriptions from the docstring.

    @tool(effect="readonly")
    def weather(city: str, days: int = 1) -> dict[str, float]:
        '''Forecast for a city.

        city: where, in English
        days: how many days, from today
        '''

`undo` is the function that takes a call back: it is called with `arguments` and `result` of the call.
A parameter named `ctx` gets the ToolContext and is no argument. Trusted code: it runs in this process.
"""

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from types import UnionType
from typing import Any, Final, Generic, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, TypeAdapter, create_model
from pydantic.errors import PydanticSchemaGenerationError
from pydantic.fields import FieldInfo

from app.core.errors import Failure
from app.core.value import contract_value
from app.events.catalog.values import Effect
from app.tools.compensation import FunctionCompensation
from app.tools.contract import (
    DEFAULT_MAX_OUTPUT,
    DEFAULT_TIMEOUT,
    BytesResult,
    FileResult,
    JsonResult,
    TextResult,
    ToolDefinition,
)
from app.tools.functions import CONTEXT
from app.tools.guard import ToolInvalid

P = ParamSpec("P")
R = TypeVar("R")

_PARAMETER_LINE: Final = re.compile(r"^\s*(?::param\s+)?(\w+)\s*(?:\([^)]*\))?\s*:\s+(\S.*)$")
# What a function may return that is not a JSON value of its own type.
_NOT_JSON: Final = (JsonResult, TextResult, BytesResult, FileResult, Failure, bytes, Path)


@contract_value(frozen=True, slots=True)
class FunctionTool(Generic[P, R]):
    """The function, still callable as before, with the definition that was derived from it."""

    function: Callable[P, R]
    definition: ToolDefinition

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)


def tool(
    *,
    name: str | None = None,
    effect: Effect = "unsafe",
    timeout_seconds: float = DEFAULT_TIMEOUT,
    max_output_bytes: int = DEFAULT_MAX_OUTPUT,
    undo: Callable[..., Any] | None = None,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]:
    def decorate(function: Callable[P, R]) -> FunctionTool[P, R]:
        summary, descriptions = _docstring(function)
        called: str = name or str(getattr(function, "__name__", "tool"))
        definition = ToolDefinition(
            name=called,
            description=summary,
            input=input_schema(function, descriptions, called),
            output=_output_schema(function),
            effect=effect,
            timeout_seconds=timeout_seconds,
            max_output_bytes=max_output_bytes,
            compensation=None if undo is None else FunctionCompensation(undo),
        )
        return FunctionTool(function, definition)

    return decorate


def input_schema(function: Callable[..., Any], descriptions: dict[str, str], name: str) -> dict[str, Any]:
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == CONTEXT:
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise ToolInvalid(name, f"the parameter {parameter.name!r} cannot be passed by name")
        if parameter.name not in hints:
            raise ToolInvalid(name, f"the parameter {parameter.name!r} has no type hint")
        default = ... if parameter.default is parameter.empty else parameter.default
        info = FieldInfo(default=default, description=descriptions.get(parameter.name))
        fields[parameter.name] = (hints[parameter.name], info)
    try:
        model = create_model(name, __config__=ConfigDict(extra="forbid"), **fields)
        schema = model.model_json_schema()
    except (PydanticSchemaGenerationError, TypeError, ValueError) as error:
        raise ToolInvalid(name, "a type hint has no JSON Schema") from error
    untitled: dict[str, Any] = _untitled(schema)
    return untitled


def _output_schema(function: Callable[..., Any]) -> dict[str, Any] | None:
    """What the function promises to return, where that is JSON with a schema."""
    returned = get_type_hints(function).get("return", inspect.Signature.empty)
    parts = get_args(returned) if get_origin(returned) in (Union, UnionType) else (returned,)
    # "or nothing" is fine next to a JSON type; nothing alone, or anything at all, promises nothing.
    if returned is inspect.Signature.empty or returned in (Any, type(None)) or any(p in _NOT_JSON for p in parts):
        return None
    try:
        schema: dict[str, Any] = _untitled(TypeAdapter(returned).json_schema(mode="serialization"))
        return schema
    except Exception:  # pydantic has many ways to say that a type is not for JSON; then nothing is promised
        return None


def _docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The first paragraph, and `name: text` lines after it (also as `:param name:` or below `Args:`)."""
    summary, _, rest = (inspect.getdoc(function) or "").partition("\n\n")
    names = set(inspect.signature(function).parameters)
    described: dict[str, str] = {}
    for line in rest.splitlines():
        found = _PARAMETER_LINE.match(line)
        if found is not None and found[1] in names:
            described[found[1]] = found[2].strip()
    return " ".join(summary.split()), described


def _untitled(schema: Any) -> Any:
    """Without the titles that pydantic derives from names: they only cost tokens."""
    if isinstance(schema, dict):
        return {
            key: _untitled(value) for key, value in schema.items() if not (key == "title" and isinstance(value, str))
        }
    return [_untitled(item) for item in schema] if isinstance(schema, list) else schema

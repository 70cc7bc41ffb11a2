"""How the effects of tools are taken back: by another tool of the workspace, by a function, or by the tool itself.

Each answers with a call that goes through the gateway like any other. Leaves to others: which calls a run made and in
which order they are taken back (the runtime), and whether a call may be made (the gateway).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from app.core import json
from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.value import value
from app.events.catalog.artifact import UNDO_TOOL
from app.tools.contract import (
    Condition,
    PastCall,
    Result,
    Tool,
    ToolContext,
    ToolDefinition,
    UndoCall,
)
from app.tools.functions import call_function
from app.workspace.templates import Template

_REDACTED: Final = b"[REDACTED:"
_MISSING: Final = "UNDO_VALUES_MISSING"


@value(frozen=True, slots=True)
class ToolCompensation:
    """By another tool of the workspace, whose arguments come from the call and its result."""

    tool: str
    arguments: Mapping[str, Any]

    def undo(self, call: PastCall) -> UndoCall | Failure:
        values = {"args": call.arguments, "result": call.result}
        made: JsonObject = {}
        for name, template in self.arguments.items():
            if not call.exact and _uses_arguments(template):
                return Failure(_MISSING, f"The log has the arguments of the call only redacted; {name} needs them.")
            value = _filled(template, values)
            if isinstance(value, Failure):
                return Failure(_MISSING, f"The argument {name} of {self.tool}: {value.message}")
            made[name] = value
        if _REDACTED in json.canonical(made):
            return Failure(_MISSING, f"The log has a value that {self.tool} needs only redacted.")
        return UndoCall(self.tool, made)

    async def conflict(self, undo: UndoCall, tenant: str, world: dict[str, str]) -> Failure | None:
        return None

    def own_tool(self, definition: ToolDefinition) -> Tool | None:
        return None


@value(frozen=True, slots=True)
class FunctionCompensation:
    """By a Python function of the workspace, which must do nothing when it is called again with the same key."""

    function: Callable[..., Any]

    def undo(self, call: PastCall) -> UndoCall | Failure:
        arguments = {"arguments": call.arguments, "result": call.result}
        if not call.exact or _REDACTED in json.canonical(arguments):
            return Failure(_MISSING, "The log has the call or its result only redacted.")
        return UndoCall(UNDO_TOOL + call.tool, arguments)

    async def conflict(self, undo: UndoCall, tenant: str, world: dict[str, str]) -> Failure | None:
        return None

    def own_tool(self, definition: ToolDefinition) -> Tool | None:
        schema: JsonObject = {
            "type": "object",
            "required": ["arguments"],
            "properties": {"arguments": {"type": "object"}, "result": {}},
        }
        return _FunctionTool(undo_definition(definition, schema, ("arguments",)), self.function)


@value(frozen=True, slots=True)
class _FunctionTool:
    definition: ToolDefinition
    function: Callable[..., Any]

    async def invoke(self, arguments: JsonObject, ctx: ToolContext) -> Result | Failure:
        given = {"arguments": arguments["arguments"], "result": arguments.get("result")}
        return await call_function(self.function, given, ctx)


def undo_definition(definition: ToolDefinition, schema: JsonObject, call: tuple[str, ...] = ()) -> ToolDefinition:
    """A tool that takes calls of another back: it may be repeated, and whoever had to approve the call approves this.

    `call` is where in its arguments those of the call are, for rules that look at them.
    """
    approval = definition.approval
    return replace(
        definition,
        name=UNDO_TOOL + definition.name,
        description=f"Undo a call of {definition.name}.",
        input=schema,
        output=None,
        effect="keyed",
        approval=approval if isinstance(approval, str) else _ApprovalOfCall(approval, call),
        rules=(),
        paths=(),
        pin=None,
        sandbox=None,
        compensation=None,
        closed=True,
    )


@value(frozen=True, slots=True)
class _ApprovalOfCall:
    """The rule of the tool whose call is taken back, asked about the arguments of that call."""

    rule: Condition
    path: tuple[str, ...]

    def evaluate(self, values: Mapping[str, Any]) -> bool | Failure:
        arguments = values["args"]
        for step in self.path:
            arguments = arguments[step]
        return self.rule.evaluate({**values, "args": arguments})


def _filled(template: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(template, Template):
        return template.value(values)
    if isinstance(template, Mapping):
        made = {key: _filled(item, values) for key, item in template.items()}
        return next((item for item in made.values() if isinstance(item, Failure)), made)
    if isinstance(template, list | tuple):
        items = [_filled(item, values) for item in template]
        return next((item for item in items if isinstance(item, Failure)), items)
    return template


def _uses_arguments(template: Any) -> bool:
    if isinstance(template, Template):
        return any(place[0] == "args" for place in template.places)
    if isinstance(template, Mapping):
        return any(map(_uses_arguments, template.values()))
    return isinstance(template, list | tuple) and any(map(_uses_arguments, template))

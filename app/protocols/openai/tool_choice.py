"""The client's own functions, and which of them the model may or must call.

Pure: a wrong one raises `Refusal` with the place, never the value. Leaves to others: whether the agent takes tools of a
client at all (the runtime), how a provider gets the choice (`models`).
"""

from collections.abc import Sequence
from typing import Any, Final, Literal

from app.core.json import JsonObject
from app.protocols.openai.errors import Refusal

Choice = Literal["none", "required"] | dict[str, str]
"""`none` and `required`, or `{name}` of the one function that must be called."""

MAX_TOOLS: Final = 128
_WORDS: Final = frozenset({"auto", "none", "required"})


def chosen_tools(body: JsonObject, *, nested: bool) -> tuple[tuple[JsonObject, ...], Choice | None]:
    """(functions in our words, choice). `nested` is the spelling of chat completions: `{type, function: {...}}`."""
    if "tools" not in body and "tool_choice" not in body:
        return (), None
    given, choice = body.get("tools"), body.get("tool_choice")
    if not given:
        if choice not in (None, "auto", "none"):
            raise Refusal("INVALID_REQUEST", "tool_choice needs tools to choose from", param="tool_choice")
        return (), "none" if choice == "none" else None
    if not isinstance(given, list):
        raise Refusal("INVALID_REQUEST", "tools must be a list", param="tools")
    if len(given) > MAX_TOOLS:
        raise Refusal("INVALID_REQUEST", f"tools may be at most {MAX_TOOLS}", param="tools")
    if choice == "none":
        return (), "none"
    tools = tuple(_tool(tool, f"tools.{index}", nested) for index, tool in enumerate(given))
    match choice:
        case None | "auto":
            return tools, None
        case "required":
            return tools, "required"
        case {"type": "function"}:
            return tools, {"name": _named(choice, tools, nested)}
        case {"type": "allowed_tools"}:
            return _allowed(choice, tools, nested)
    message = "the choice may be auto, none, required, a function or allowed_tools"
    raise Refusal("INVALID_REQUEST", message, param="tool_choice")


def _allowed(
    choice: JsonObject, tools: Sequence[JsonObject], nested: bool
) -> tuple[tuple[JsonObject, ...], Choice | None]:
    """Those that are not allowed are not offered at all."""
    allowed = choice.get("allowed_tools") if nested else choice
    mode = allowed.get("mode") if isinstance(allowed, dict) else None
    listed = allowed.get("tools") if isinstance(allowed, dict) else None
    if mode not in ("auto", "required") or not isinstance(listed, list) or not 0 < len(listed) <= MAX_TOOLS:
        raise Refusal("INVALID_REQUEST", "allowed_tools needs a mode and tools", param="tool_choice")
    names = {_named(one, tools, nested) for one in listed}
    return tuple(tool for tool in tools if tool["name"] in names), "required" if mode == "required" else None


def _named(chosen: Any, tools: Sequence[JsonObject], nested: bool) -> str:
    function = (chosen.get("function") if nested else chosen) if isinstance(chosen, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str) or name in _WORDS or all(tool["name"] != name for tool in tools):
        raise Refusal("INVALID_REQUEST", "the chosen function is not among the tools", param="tool_choice")
    return name


def _tool(tool: Any, where: str, nested: bool) -> JsonObject:
    if not isinstance(tool, dict) or tool.get("type") != "function":
        raise Refusal("INVALID_REQUEST", "only tools of type function are supported", param=f"{where}.type")
    function = tool.get("function") if nested else tool
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(function, dict) or not isinstance(name, str) or not name:
        raise Refusal("INVALID_REQUEST", "a function needs a name", param=where)
    parameters = function.get("parameters")
    if parameters is not None and not isinstance(parameters, dict):
        raise Refusal("INVALID_REQUEST", "parameters must be a JSON Schema", param=f"{where}.parameters")
    description = function.get("description")
    return {
        "name": name,
        "description": description if isinstance(description, str) else "",
        "input": parameters or {"type": "object"},
    }

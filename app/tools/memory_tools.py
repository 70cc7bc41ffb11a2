"""The tools by which a model uses memory itself: remember, recall, forget. Definitions and the port behind them.

They pass the gate like any tool. Leaves to whoever implements the port: which memory is meant, and what may be stored.
"""

from typing import Final, Protocol

from app.core.errors import Failure
from app.core.json import JsonObject
from app.tools.contract import Result, ToolContext, ToolDefinition
from app.workspace.compiled import CompiledWorkspace

NAMES: Final = frozenset({"remember", "recall", "forget"})

_MEMORY: Final = {"type": "string", "maxLength": 200, "description": "one of the agent's memories; usually left out"}
_TEXT: Final = {"type": "string", "minLength": 1, "maxLength": 4000}

REMEMBER: Final = ToolDefinition(
    "remember",
    "Propose something to remember in later conversations. A person may have to accept it first.",
    {
        "type": "object",
        "required": ["text"],
        "properties": {
            "text": {**_TEXT, "description": "one fact, in a sentence that can be understood alone"},
            "about": {
                "type": "string",
                "maxLength": 200,
                "description": "what it is about; replaces older facts about it",
            },
            "confidence": {"type": "number", "minimum": 0, "maximum": 1},
            "memory": _MEMORY,
        },
    },
    {
        "type": "object",
        "required": ["outcome"],
        "properties": {"outcome": {"type": "string"}, "reason": {"type": "string"}, "id": {"type": "string"}},
    },
    "keyed",
)
RECALL: Final = ToolDefinition(
    "recall",
    "Search what is remembered from earlier conversations.",
    {
        "type": "object",
        "required": ["query"],
        "properties": {"query": _TEXT, "limit": {"type": "integer", "minimum": 1, "maximum": 20}, "memory": _MEMORY},
    },
    {
        "type": "object",
        "required": ["records"],
        "properties": {"records": {"type": "array", "items": {"type": "object"}}},
    },
    "readonly",
)
FORGET: Final = ToolDefinition(
    "forget",
    "Forget records of this memory by their ids, as `recall` gives them. Their text is deleted.",
    {
        "type": "object",
        "required": ["ids"],
        "properties": {
            "ids": {"type": "array", "minItems": 1, "maxItems": 20, "items": {"type": "string", "maxLength": 100}},
            "memory": _MEMORY,
        },
    },
    {
        "type": "object",
        "required": ["forgotten"],
        "properties": {"forgotten": {"type": "array", "items": {"type": "string"}}},
    },
    "keyed",
)


class MemoryActions(Protocol):
    async def remember(self, arguments: JsonObject, ctx: ToolContext) -> Result | Failure: ...

    async def recall(self, arguments: JsonObject, ctx: ToolContext) -> Result | Failure: ...

    async def forget(self, arguments: JsonObject, ctx: ToolContext) -> Result | Failure: ...


class NoMemoryActions:
    """Where there is no memory, such as for a check of a workspace."""

    async def remember(self, arguments: JsonObject, ctx: ToolContext) -> Result | Failure:
        return _none()

    async def recall(self, arguments: JsonObject, ctx: ToolContext) -> Result | Failure:
        return _none()

    async def forget(self, arguments: JsonObject, ctx: ToolContext) -> Result | Failure:
        return _none()


def _none() -> Failure:
    return Failure("MEMORY_NOT_AVAILABLE", "There is no memory here.")


def memory_tools_of(workspace: CompiledWorkspace) -> frozenset[str]:
    """The workspace's names of these tools. What they answer was governed when it was stored; another tool that only
    has such a name is not among them."""
    return frozenset(
        tool.name
        for tool in workspace.tools.values()
        if tool.spec.kind == "builtin" and (tool.spec.entry or str(tool.spec.config.get("builtin", tool.name))) in NAMES
    )

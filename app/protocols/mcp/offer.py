"""What the workspace offers to MCP clients as tools: agents, workflows and chosen tools, each with its schema.

The Runtime document says which (`mcp`). Leaves to others: calling them (`calls`).
"""

from typing import Any, Final

from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.value import value
from app.protocols.context import ServerContext
from app.tools.contract import ToolDefinition
from app.workspace.compiled import CompiledAgent, CompiledWorkspace
from app.workspace.names import matches

AGENT: Final = "agent_"
WORKFLOW: Final = "workflow_"
TOOL: Final = "tool_"
"""Before a tool's name only where it would be the name of something else."""

_HINTS: Final[dict[str, JsonObject]] = {
    "readonly": {"readOnlyHint": True},
    "keyed": {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True},
    "unsafe": {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False},
}
_THREAD: Final = {
    "type": "string",
    "minLength": 1,
    "maxLength": 200,
    "description": "The conversation to continue: `threadId` of an earlier result.",
}
_RUN_OUTPUT: Final = {
    "type": "object",
    "properties": {"output": {}, "runId": {"type": "string"}, "threadId": {"type": "string"}},
    "required": ["output", "runId", "threadId"],
}


@value(frozen=True, slots=True)
class Offered:
    """One tool of the MCP server: what runs, and how it is described."""

    name: str
    description: str
    input: JsonObject
    effect: str = "unsafe"
    output: JsonObject | None = None
    agent: str | None = None
    workflow: str | None = None
    tool: str | None = None
    takes_message: bool = False
    """Whether the arguments are `{message, threadId?}`; else they are the run's input as they are."""

    @property
    def scope(self) -> str:
        return "tools:invoke" if self.tool is not None else "runs:write"

    def described(self) -> JsonObject:
        hints = {**_HINTS[self.effect], "openWorldHint": self.tool is None}
        shown: JsonObject = {
            "name": self.name,
            "title": self.agent or self.workflow or self.tool,
            "description": self.description,
            "inputSchema": self.input,
            "annotations": hints,
        }
        return shown if self.output is None else shown | {"outputSchema": self.output}


async def offered(server: ServerContext) -> dict[str, Offered]:
    """By name, in their order."""
    workspace = server.workspace.current
    toolset = await server.toolsets.of(workspace)
    known: dict[str, ToolDefinition] = {}
    if not isinstance(toolset, Failure):
        known = {definition.name: definition for definition in toolset.gateway.registry.definitions()}
    found: dict[str, Offered] = {}
    which = workspace.runtime.mcp
    for name, agent in workspace.agents.items():
        if matches(name, which.agents):
            _add(found, _agent(workspace, known, name, agent))
    for name in workspace.workflows:
        if matches(name, which.workflows):
            _add(found, _workflow(workspace, known, name))
    for name in workspace.tools:
        # One that cannot be made now is not offered: nobody knows what it takes.
        if matches(name, which.tools) and (definition := known.get(name)) is not None:
            _add(found, _tool(definition, TOOL + name if name in found else name))
    return dict(sorted(found.items()))


def _add(found: dict[str, Offered], one: Offered) -> None:
    found[one.name] = one


def _agent(workspace: CompiledWorkspace, known: dict[str, ToolDefinition], name: str, agent: CompiledAgent) -> Offered:
    message = {"type": "string", "minLength": 1, "description": "What the agent is asked."}
    schema = {
        "type": "object",
        "properties": {"message": message, "threadId": _THREAD},
        "required": ["message"],
        "additionalProperties": False,
    }
    return Offered(
        AGENT + name,
        agent.description or f"Ask the agent {name}.",
        schema,
        _effect(workspace, known, agent),
        _RUN_OUTPUT,
        agent=name,
        takes_message=True,
    )


def _workflow(workspace: CompiledWorkspace, known: dict[str, ToolDefinition], name: str) -> Offered:
    flow = workspace.workflows[name]
    declared: Any = flow.spec.input
    takes_message = not (isinstance(declared, dict) and declared.get("type") == "object")
    schema = (
        {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]}
        if takes_message
        else dict(declared)
    )
    effect = _effect(workspace, known, flow.agent)
    if any(node.unsafe for node in flow.nodes.values()):
        effect = "unsafe"
    return Offered(
        WORKFLOW + name,
        flow.description or f"Run the workflow {name}.",
        schema,
        effect,
        _RUN_OUTPUT,
        workflow=name,
        takes_message=takes_message,
    )


def _tool(definition: ToolDefinition, name: str) -> Offered:
    output = definition.output
    structured = dict(output) if isinstance(output, dict) and output.get("type") == "object" else None
    return Offered(
        name, definition.description, dict(definition.input), definition.effect, structured, tool=definition.name
    )


def _effect(workspace: CompiledWorkspace, known: dict[str, ToolDefinition], agent: CompiledAgent) -> str:
    """The worst that the agent may do, with those it may call."""
    seen: set[str] = set()
    waiting = [agent]
    effects = {"readonly"}
    while waiting:
        one = waiting.pop()
        seen.add(one.name)
        for tool in one.tools:
            definition = known.get(tool)
            effects.add("unsafe" if definition is None else definition.effect)
        waiting += [workspace.agents[name] for name in one.subagents if name in workspace.agents and name not in seen]
    return next(effect for effect in ("unsafe", "keyed", "readonly") if effect in effects)

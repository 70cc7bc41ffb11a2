"""Tools that a graph runs itself, such as DeepAgents' file tools: each call is a recorded step of the run.

The result is recorded and given back on re-entry without running the tool again, together with what the tool wrote into
the graph's state on the side. Hooks are asked as for any tool. `task`, which only runs another agent of the graph, is
left as it is: everything that agent does is recorded by itself.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import ToolMessage
from langgraph._internal._constants import CONFIG_KEY_SEND
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.pregel import Pregel
from langgraph.types import Command

from app.backends.bridge import Bridge, current_bridge
from app.backends.contract import StepFailed
from app.backends.kinds.langgraph.chat import GateTool
from app.backends.kinds.langgraph.state import NotJsonError, read, written
from app.core.errors import Failure
from app.core.json import JsonObject
from app.events.catalog.values import Effect

Handler = Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]

RUNS_AGENTS: Final = frozenset({"task"})
READS: Final = frozenset({"ls", "read_file", "glob", "grep"})
KEEPS_STATE: Final = frozenset({"write_file", "edit_file", "delete", "write_todos"})
"""Change the graph's state and nothing else, unless the agent has a file backend of its own."""
_REPORTED: Final = frozenset({"TOOL_FAILED", "GATE_DENIED", "TOOL_TIMEOUT"})
"""What the model is sent when a step failed; every other failure ends the run."""

in_step: ContextVar[bool] = ContextVar("holdfast_in_step", default=False)


class RecordedTools(AgentMiddleware[Any, Any]):
    """For agents that are built with middleware. `outside` says that files are not part of the graph's state."""

    def __init__(self, *, outside: bool = False) -> None:
        super().__init__()
        self._outside = outside

    async def awrap_tool_call(self, request: ToolCallRequest, handler: Handler) -> ToolMessage | Command[Any]:
        return await recorded(request, handler, outside=self._outside)


def record_tools(graph: Pregel[Any, Any, Any, Any]) -> None:
    """The same for a graph that is built already: for each of its nodes that runs tools."""
    for node in graph.nodes.values():
        bound = getattr(node, "bound", None)
        if isinstance(bound, ToolNode) and not getattr(bound, "_holdfast", False):
            bound._awrap_tool_call = _around(bound._awrap_tool_call)
            bound._holdfast = True


def _around(inner: Any) -> Any:
    async def wrap(request: ToolCallRequest, handler: Handler) -> ToolMessage | Command[Any]:
        async def run(changed: ToolCallRequest) -> ToolMessage | Command[Any]:
            return await recorded(changed, handler, outside=True)

        return await (run(request) if inner is None else inner(request, run))

    return wrap


async def recorded(request: ToolCallRequest, handler: Handler, *, outside: bool) -> ToolMessage | Command[Any]:
    name = request.tool_call["name"]
    if in_step.get() or isinstance(request.tool, GateTool) or name in RUNS_AGENTS or request.tool is None:
        return await handler(request)
    bridge, call_id = current_bridge(), request.tool_call["id"] or ""
    written_aside: list[Any] = []
    send = _tap(request, written_aside)

    async def run() -> JsonObject:
        token = in_step.set(True)
        try:
            return {"result": _document(await handler(request)), "writes": written(written_aside)}
        except NotJsonError as error:
            raise RuntimeError(f"The result of {name} cannot be recorded.") from error
        finally:
            in_step.reset(token)

    effect: Effect = "readonly" if name in READS else "keyed" if name in KEEPS_STATE and not outside else "unsafe"
    stored = await bridge.shielded(_step(bridge, call_id, effect, run, name, request.tool_call["args"]))
    if isinstance(stored, Failure):
        text = f"{stored.code}: {stored.message}"
        return ToolMessage(text, tool_call_id=call_id, name=name, status="error")
    if not written_aside and stored["writes"] and send is not None:
        send([(channel, value) for channel, value in read(stored["writes"])])
    return _result(stored["result"])


async def _step(
    bridge: Bridge, key: str, effect: Effect, run: Any, name: str, args: Mapping[str, Any]
) -> JsonObject | Failure:
    try:
        found: JsonObject = await bridge.ctx.step(key, effect, run, tool=name, args=dict(args))
        return found
    except StepFailed as failed:
        if failed.failure.code in _REPORTED:
            return failed.failure
        raise


def _tap(request: ToolCallRequest, seen: list[Any]) -> Callable[[Any], None] | None:
    """Notes what the tool writes into the graph's state past its result. The settings are this call's own copy."""
    runtime = getattr(request, "runtime", None)
    settings = runtime.config.get("configurable", {}) if runtime is not None else {}
    send: Callable[[Any], None] | None = settings.get(CONFIG_KEY_SEND)
    if send is None:
        return None

    def noting(writes: Any) -> None:
        seen.extend([channel, value] for channel, value in writes)
        send(writes)

    settings[CONFIG_KEY_SEND] = noting
    return send


def _document(result: ToolMessage | Command[Any]) -> JsonObject:
    if isinstance(result, Command):
        if result.goto or result.resume is not None:
            raise NotJsonError
        return {"update": written(result.update), "graph": result.graph}
    return {"message": written(result)}


def _result(document: JsonObject) -> ToolMessage | Command[Any]:
    if "message" in document:
        found: ToolMessage = read(document["message"])
        return found
    return Command(update=read(document["update"]), graph=document["graph"])

"""The graph that an agent's `edges` describe: each tool, skill and subagent is a node, each router a choice of labels.

LangGraph owns how the graph is executed; a node's work is done by its handler: one that the agent names for the node or
its kind, else the default of its kind, which goes through the context. A condition is only ever a label.
"""

import inspect
import operator
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Final, TypedDict

from langchain_core.messages import BaseMessage
from langgraph.graph import END, START, StateGraph
from langgraph.pregel import Pregel

from app.backends.bridge import Bridge, current_bridge
from app.backends.contract import CallOptions, StepFailed
from app.core import json
from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.value import value
from app.views.history import user_message
from app.workspace.compiled import CompiledRoute
from app.workspace.entry_loader import load_nearest

FAILED: Final = "failed"
"""The label of the edge that a failed node takes."""


def _merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    return {**old, **new}


def _counted(old: Mapping[str, int], new: Mapping[str, int]) -> dict[str, int]:
    return {**old, **{name: old.get(name, 0) + times for name, times in new.items()}}


class EdgeState(TypedDict, total=False):
    messages: list[BaseMessage]
    nodes: Annotated[dict[str, Any], _merged]
    """By node: `output`, or `error`."""
    visits: Annotated[dict[str, int], _counted]
    order: Annotated[list[str], operator.add]
    answer: str


@value(frozen=True, slots=True)
class GraphNode:
    """A node as its handler sees it."""

    id: str
    kind: str
    """`tools`, `skills` or `agents`."""
    name: str
    visit: int


Handler = Callable[[GraphNode, Any, EdgeState], Awaitable[Any] | Any]
"""Takes the node, what it is given and the state; returns the node's output."""


class NodeFailure(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def edge_graph(bridge: Bridge) -> Pregel[Any, Any, Any, Any]:
    return _EdgeGraph(bridge).compiled()


class _EdgeGraph:
    def __init__(self, bridge: Bridge) -> None:
        ctx = bridge.ctx
        self._ctx = ctx
        self._edges = ctx.definition.spec.edges
        self._routers = ctx.definition.routers
        self._before = {edge.to: [e.from_ for e in self._edges if e.to == edge.to] for edge in self._edges}
        self._max_visits = ctx.config.get("maxVisits") or 1
        self._nodes = list(dict.fromkeys(n for e in self._edges for n in (e.from_, e.to) if n not in ("START", "END")))

    def compiled(self) -> Pregel[Any, Any, Any, Any]:
        graph = StateGraph(EdgeState)
        for name in self._nodes:
            graph.add_node(name, self._node(name))
        joined = self._joined()
        for target, sources in joined.items():
            graph.add_edge(sources, target)
        for start in ("START", *self._nodes):
            self._connect(graph, start, joined)
        return graph.compile()

    def _joined(self) -> dict[str, list[str]]:
        """Nodes that wait for all before them. Where a router chooses, or nodes run again, LangGraph's rule holds:
        a node runs when one before it has ended."""
        if self._max_visits > 1 or any(edge.condition is not None for edge in self._edges):
            return {}
        several = {to: before for to, before in self._before.items() if len(before) > 1 and to != "END"}
        return {to: before for to, before in several.items() if "START" not in before}

    def _connect(self, graph: Any, start: str, joined: Mapping[str, list[str]]) -> None:
        source = START if start == "START" else start
        always = [edge.to for edge in self._edges if edge.from_ == start and edge.condition is None]
        labels = {edge.condition: edge.to for edge in self._edges if edge.from_ == start and edge.condition}
        if not labels:
            for target in always:
                if target not in joined:
                    graph.add_edge(source, _place(target))
            return

        def route(state: EdgeState) -> list[str]:
            done = state.get("nodes", {}).get(start, {})
            if "error" in done:
                return [_place(labels[FAILED])]
            chosen = self._label(start, state)
            return [_place(target) for target in (*always, *([labels[chosen]] if chosen in labels else ()))] or [END]

        graph.add_conditional_edges(source, route, sorted({_place(t) for t in (*always, *labels.values())} | {END}))

    def _label(self, start: str, state: EdgeState) -> str | None:
        """First match wins; a router that fails or matches nothing fails the run."""
        routes: tuple[CompiledRoute, ...] = self._routers.get(start, ())
        if not routes:
            return None
        outputs = state.get("nodes", {})
        values = {"input": self._ctx.input, "nodes": plain_nodes(outputs), "visits": dict(state.get("visits", {}))}
        for route in routes:
            matches = True if route.when is None else route.when.evaluate(values)
            if isinstance(matches, Failure):
                message = f"The router of {start} could not evaluate its rule for {route.label!r}: {matches.message}."
                raise current_bridge().fail(StepFailed(Failure("ROUTER_FAILED", message)))
            if matches:
                return route.label
        message = f"No rule of the router of {start} matched."
        raise current_bridge().fail(StepFailed(Failure("ROUTER_FAILED", message)))

    # -- nodes ---------------------------------------------------------------------------------------

    def _node(self, name: str) -> Callable[[EdgeState], Awaitable[JsonObject]]:
        kind, _, item = name.partition(".")
        handler = self._handler(name, kind)
        may_fail = any(edge.from_ == name and edge.condition == FAILED for edge in self._edges)

        async def work(state: EdgeState) -> JsonObject:
            visit = state.get("visits", {}).get(name, 0) + 1
            if visit > self._max_visits:
                message = f"The node {name} would run for the {visit}th time; `maxVisits` is {self._max_visits}."
                raise current_bridge().fail(StepFailed(Failure("NODE_VISITS_EXCEEDED", message)))
            node = GraphNode(name, kind, item, visit)
            done: JsonObject
            try:
                output = handler(node, self._given(name, state), state)
                done = {"output": await output if inspect.isawaitable(output) else output}
            except NodeFailure as failed:
                if not may_fail:
                    raise current_bridge().fail(StepFailed(failed.failure)) from None
                done = {"error": {"code": failed.failure.code, "message": failed.failure.message}}
            answer = _text(done["output"]) if "output" in done else done["error"]["message"]
            return {"nodes": {name: done}, "visits": {name: 1}, "order": [name], "answer": answer}

        return work

    def _given(self, name: str, state: EdgeState) -> Any:
        """The output of the node before, else the input."""
        done = state.get("nodes", {})
        for before in reversed(state.get("order", [])):
            if before in self._before.get(name, ()) and "output" in done.get(before, {}):
                return done[before]["output"]
        return self._ctx.input

    def _handler(self, name: str, kind: str) -> Handler:
        entry = self._ctx.config.get("handlers", {}).get(name) or self._ctx.config.get("resolvers", {}).get(kind)
        if entry is None:
            return {"tools": _call_tool, "skills": _use_skill, "agents": _ask_agent}[kind]
        found = load_nearest(entry, self._ctx.workspace.files)
        if isinstance(found, Failure):
            raise StepFailed(found)
        handler: Handler = found
        return handler


def plain_nodes(nodes: Mapping[str, Any]) -> dict[str, Any]:
    """By node as a router sees them: `nodes['tools.lookup'].output`."""
    return {name: dict(done) for name, done in nodes.items()}


def _place(name: str) -> str:
    return END if name == "END" else name


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.canonical(value).decode()


async def _call_tool(node: GraphNode, given: Any, _state: EdgeState) -> Any:
    """An object is the tool's arguments; anything else is its `input`."""
    args = given if isinstance(given, dict) else {"input": given}
    result = await current_bridge().tool(f"{node.id}.{node.visit}", node.name, args)
    if not result.ok:
        code, _, message = result.content.partition(": ")
        raise NodeFailure(Failure(code if message else "TOOL_FAILED", message or result.content))
    return result.output


async def _ask_agent(node: GraphNode, given: Any, _state: EdgeState) -> Any:
    bridge = current_bridge()
    answer = await bridge.shielded(bridge.ctx.call_agent(node.name, given, f"{node.id}.{node.visit}"))
    if not answer.ok:
        raise NodeFailure(Failure("SUBAGENT_FAILED", answer.text))
    return answer.text


async def _use_skill(node: GraphNode, given: Any, _state: EdgeState) -> Any:
    """The agent's model follows the skill, with the tools that the skill allows."""
    bridge = current_bridge()
    skill = bridge.ctx.workspace.skills[node.name]
    allowed = frozenset(skill.allowed_tools) & bridge.ctx.tools
    system = "\n\n".join(text for text in (bridge.ctx.instructions, skill.body) if text)
    messages: list[JsonObject] = [{"role": "system", "content": system}, user_message(given)]
    while True:
        answer = await bridge.model(messages, CallOptions(tools=allowed))
        if not answer.calls:
            return answer.text
        results = await bridge.calls(answer.calls, allowed)
        messages += [answer.message, *(bridge.tool_message(r.call_id, r.name, r.content) for r in results)]

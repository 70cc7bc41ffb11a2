"""Checks an agent's `edges` and compiles its `routers`: a graph of its tools, skills and subagents."""

from collections.abc import Mapping
from typing import Final

from app.core.expressions import ExpressionProblem, VariableType, compile_expression
from app.workspace.compiled import CompiledRoute
from app.workspace.diagnostics import DocPath
from app.workspace.names import did_you_mean
from app.workspace.report import DocumentPlace, Report
from app.workspace.resolve import check_edges, find_cycles
from app.workspace.specs.agent import AgentSpec

FAILED: Final = "failed"
"""The label of an edge that a failed node takes; no router chooses it."""
_VARIABLES: Final[Mapping[str, VariableType]] = {"input": "any", "nodes": "map", "visits": "map"}


class AgentGraph:
    """`cycles` says whether the agent allows a node to run more than once."""

    def __init__(self, spec: AgentSpec, place: DocumentPlace, report: Report, *, cycles: bool) -> None:
        self._spec, self._place, self._report, self._cycles = spec, place, report, cycles
        self._nodes = {f"tools.{name}" for name in spec.tool_names} | {f"skills.{name}" for name in spec.skills}
        self._nodes |= {f"agents.{name}" for name in spec.subagent_names}

    def compile(self) -> Mapping[str, tuple[CompiledRoute, ...]]:
        spec = self._spec
        if not spec.edges:
            if spec.routers:
                message = "the agent has no `edges`, so there is nothing to choose between"
                self._report.error("ROUTE_INVALID", self._place, ("spec", "routers"), message, key=True)
            return {}
        edges = [(number, edge.from_, edge.to) for number, edge in enumerate(spec.edges)]
        check_edges(edges, self._nodes | {"START", "END"}, self._place, self._report)
        self._check_ends()
        self._check_labels()
        self._check_cycles()
        return {source: self._routes(source) for source in spec.routers}

    def _check_ends(self) -> None:
        edges = self._spec.edges
        for number, edge in enumerate(edges):
            for field, name, wrong in (("from", edge.from_, "END"), ("to", edge.to, "START")):
                if name == wrong:
                    message = f"no edge can go {field} {wrong}"
                    self._report.error("NODE_UNKNOWN", self._place, ("spec", "edges", number, field), message)
        reached, waiting = {"START"}, ["START"]
        while waiting:
            source = waiting.pop()
            new = {edge.to for edge in edges if edge.from_ == source} - reached
            reached |= new
            waiting += new
        for number, edge in enumerate(edges):
            if edge.from_ in self._nodes and edge.from_ not in reached:
                path: DocPath = ("spec", "edges", number, "from")
                message = f"no edge leads from START to {edge.from_!r}, so it never runs"
                self._report.error("NODE_UNREACHABLE", self._place, path, message)

    def _check_labels(self) -> None:
        edges, routers = self._spec.edges, self._spec.routers
        seen: set[tuple[str, str]] = set()
        for number, edge in enumerate(edges):
            path: DocPath = ("spec", "edges", number, "condition")
            if edge.condition is None:
                continue
            if (edge.from_, edge.condition) in seen:
                message = f"two edges from {edge.from_!r} have the label {edge.condition!r}"
                self._report.error("ROUTE_INVALID", self._place, path, message)
            seen.add((edge.from_, edge.condition))
            labels = [route.label for route in routers.get(edge.from_, ())]
            if edge.condition != FAILED and edge.condition not in labels:
                hint = did_you_mean(self._report.suggest.nearest(edge.condition, labels))
                message = f"no router of {edge.from_!r} chooses the label {edge.condition!r}"
                wanted = f"add `routers: {{{edge.from_}: [{{label: {edge.condition}}}]}}`"
                self._report.error("ROUTE_INVALID", self._place, path, message, hint=hint or wanted)
        for source, routes in routers.items():
            labels = [edge.condition for edge in edges if edge.from_ == source and edge.condition]
            for number, route in enumerate(routes):
                if route.label not in labels or route.label == FAILED:
                    hint = did_you_mean(self._report.suggest.nearest(route.label, labels))
                    message = f"no edge from {source!r} has the label {route.label!r}"
                    where: DocPath = ("spec", "routers", source, number, "label")
                    self._report.error("ROUTE_INVALID", self._place, where, message, hint=hint)

    def _check_cycles(self) -> None:
        if self._cycles:
            return
        edges = self._spec.edges
        following: dict[str, list[str]] = {}
        for edge in edges:
            following.setdefault(edge.from_, []).append(edge.to)
        for name, chain in find_cycles(following):
            number = next(n for n, edge in enumerate(edges) if (edge.from_, edge.to) == (name, chain[1]))
            message = f"the edges lead in a circle: {' -> '.join(chain)}"
            hint = "set `config.langgraph.maxVisits` to allow it, with how often a node may run"
            self._report.error("EDGE_CYCLE", self._place, ("spec", "edges", number, "to"), message, hint=hint)

    def _routes(self, source: str) -> tuple[CompiledRoute, ...]:
        made: list[CompiledRoute] = []
        for number, route in enumerate(self._spec.routers[source]):
            if route.when is None:
                made.append(CompiledRoute(route.label, None))
                continue
            compiled = compile_expression(route.when, _VARIABLES)
            if isinstance(compiled, ExpressionProblem):
                message = f"{compiled.message[:300]} (line {compiled.line}, column {compiled.column} of the expression)"
                path: DocPath = ("spec", "routers", source, number, "when")
                hint = "compare `input`, `nodes` or `visits`, such as `nodes['tools.lookup'].output.found`"
                expected = "a CEL expression that gives a bool"
                self._report.error("EXPRESSION_INVALID", self._place, path, message, expected=expected, hint=hint)
            else:
                made.append(CompiledRoute(route.label, compiled))
        return tuple(made)

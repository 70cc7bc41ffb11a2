"""Checks the graph of a workflow: that every step can be reached, every label has its edge, and the end is near.

Leaves to `workflows`: what a step runs; to `workflow_types`: the values that its templates read.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from app.workspace.compiled import CompiledWorkflow
from app.workspace.diagnostics import DocPath
from app.workspace.flow_graph import END, FAILED, START, FlowGraph
from app.workspace.names import did_you_mean
from app.workspace.parse import ParsedDocument
from app.workspace.report import DocumentPlace, Report
from app.workspace.resolve import check_edges, find_cycles
from app.workspace.specs.workflow import WorkflowSpec

_SHOWN: Final = 5
"""Nodes of a circle that a message names."""


class GraphChecks:
    def __init__(self, spec: WorkflowSpec, graph: FlowGraph, place: DocumentPlace, report: Report) -> None:
        self._spec, self._graph, self._place, self._report = spec, graph, place, report

    def check(self) -> None:
        spec = self._spec
        if not spec.nodes:
            return
        edges = [(number, edge.from_, edge.to) for number, edge in enumerate(spec.edges)]
        check_edges(edges, {*self._graph.nodes, START, END}, self._place, self._report)
        self._check_ends()
        self._check_labels()
        self._check_routers()
        known = self._graph.nodes.keys()
        if all(edge.source in known | {START} and edge.target in known | {END} for edge in self._graph.edges):
            self._check_reach()
            self._check_cycles()

    def _error(self, code: str, path: DocPath, message: str, hint: str | None = None) -> None:
        self._report.error(code, self._place, path, message, hint=hint)

    def _check_ends(self) -> None:
        seen: set[tuple[str, str, str | None]] = set()
        for number, edge in enumerate(self._spec.edges):
            for field, name, wrong in (("from", edge.from_, END), ("to", edge.to, START)):
                if name == wrong:
                    self._error("NODE_UNKNOWN", ("spec", "edges", number, field), f"no edge can go {field} {wrong}")
            if (edge.from_, edge.to, edge.condition) in seen:
                message = f"the edge from {edge.from_!r} to {edge.to!r} is listed twice"
                self._error("REFERENCE_DUPLICATE", ("spec", "edges", number), message, "remove one of them")
            seen.add((edge.from_, edge.to, edge.condition))

    def _check_labels(self) -> None:
        seen: set[tuple[str, str]] = set()
        for number, edge in enumerate(self._spec.edges):
            label, path = edge.condition, ("spec", "edges", number, "condition")
            if label is None:
                continue
            if (edge.from_, label) in seen:
                self._error("ROUTE_INVALID", path, f"two edges from {edge.from_!r} have the label {label!r}")
            seen.add((edge.from_, label))
            labels = [route.label for route in self._spec.routers.get(edge.from_, ())]
            if label != FAILED and label not in labels:
                near = did_you_mean(self._report.suggest.nearest(label, labels))
                message = f"no router of {edge.from_!r} chooses the label {label!r}"
                wanted = f"add `routers: {{{edge.from_}: [{{label: {label}}}]}}`"
                self._error("ROUTE_INVALID", path, message, near or wanted)
            if label == FAILED and edge.from_ == START:
                self._error("ROUTE_INVALID", path, "START never fails", "remove the edge")

    def _check_routers(self) -> None:
        for source, routes in self._spec.routers.items():
            path: DocPath = ("spec", "routers", source)
            if source != START and source not in self._graph.nodes:
                hint = did_you_mean(self._report.suggest.nearest(source, self._graph.nodes))
                self._report.error(
                    "NODE_UNKNOWN", self._place, path, f"there is no node {source!r}", hint=hint, key=True
                )
                continue
            labels = [edge.condition for edge in self._spec.edges if edge.from_ == source and edge.condition]
            for number, route in enumerate(routes):
                if route.label == FAILED:
                    message = "`failed` is the label of the edge that a failed step takes; no router chooses it"
                    self._error("ROUTE_INVALID", (*path, number, "label"), message, "use another label")
                elif route.label not in labels:
                    hint = did_you_mean(self._report.suggest.nearest(route.label, labels))
                    message = f"no edge from {source!r} has the label {route.label!r}"
                    self._error("ROUTE_INVALID", (*path, number, "label"), message, hint)
                if route.when is None and number < len(routes) - 1:
                    message = "the rules after this one are never asked, because it has no `when`"
                    self._error("ROUTE_INVALID", (*path, number), message, "move it to the end")

    def _check_reach(self) -> None:
        graph = self._graph
        numbers = {node.id: number for number, node in enumerate(self._spec.nodes)}
        reached = _walk({START}, {name: [edge.target for edge in edges] for name, edges in graph.outgoing.items()})
        for name in graph.nodes:
            if name not in reached:
                message = f"no edge leads from START to {name!r}, so it never runs"
                hint = f"add `{{from: START, to: {name}}}` or another edge to it"
                self._error("NODE_UNREACHABLE", ("spec", "nodes", numbers[name], "id"), message, hint)
        # A step without edges of its own ends its branch.
        ends = {END, *(name for name in graph.nodes if not graph.outgoing.get(name))}
        ending = _walk(ends, {name: [edge.source for edge in edges] for name, edges in graph.incoming.items()})
        stuck = [name for name in graph.nodes if name in reached and name not in ending]
        if stuck:
            message = f"no edge leads out of the circle of {', '.join(stuck[:_SHOWN])}, so the workflow never ends"
            self._error("WORKFLOW_ENDLESS", ("spec", "nodes", numbers[stuck[0]], "id"), message, "add an edge to END")

    def _check_cycles(self) -> None:
        if self._spec.cycles is not None:
            return
        following = {name: [edge.target for edge in edges] for name, edges in self._graph.outgoing.items()}
        numbers = {(edge.from_, edge.to): number for number, edge in reversed(list(enumerate(self._spec.edges)))}
        for _, chain in find_cycles(following):
            last = numbers.get((chain[-2], chain[-1]), 0)
            shown = chain if len(chain) <= _SHOWN + 1 else [*chain[:_SHOWN], "...", chain[-1]]
            message = f"the edges lead in a circle: {' -> '.join(shown)}"
            hint = "set `cycles: {maxVisits: N}` to allow it, with how often a step may run"
            self._error("EDGE_CYCLE", ("spec", "edges", last, "to"), message, hint)


def check_nesting(
    documents: Mapping[str, ParsedDocument], made: Mapping[str, CompiledWorkflow], report: Report
) -> None:
    """Subworkflows are asked for with `subworkflows`, never lead back, and are no deeper than it says."""
    calls = {
        name: [node.target for node in flow.nodes.values() if node.kind == "workflow" and node.target in made]
        for name, flow in made.items()
    }
    for name, flow in made.items():
        place = documents[name].place
        if flow.spec.subworkflows is None:
            for path, ref in _references(flow):
                if ref.startswith("workflows."):
                    message = "a workflow that runs other workflows must say how deep they may nest"
                    report.error("SUBWORKFLOW_DENIED", place, path, message, hint="add `subworkflows: {maxDepth: 3}`")
    circles = find_cycles(calls)
    for name, chain in circles:
        path = _call_of(made[name], chain[1])
        message = f"workflows run each other in a circle: {' -> '.join(chain[: _SHOWN + 1])}"
        report.error("SUBWORKFLOW_CYCLE", documents[name].place, path, message, hint="use `cycles` in one workflow")
    if not circles:
        _check_depth(documents, made, calls, report)


def _check_depth(
    documents: Mapping[str, ParsedDocument],
    made: Mapping[str, CompiledWorkflow],
    calls: Mapping[str, list[str]],
    report: Report,
) -> None:
    depths: dict[str, int] = {}
    for start in calls:
        # Iterative: a chain may be as long as the workspace has workflows.
        waiting = [start]
        while waiting:
            name = waiting[-1]
            missing = [called for called in calls[name] if called not in depths]
            if name not in depths and missing:
                waiting += missing
                continue
            depths[name] = max((depths[called] + 1 for called in calls[name]), default=0)
            waiting.pop()
    for name, flow in made.items():
        allowed = flow.spec.subworkflows
        if allowed is not None and depths[name] > allowed.max_depth:
            deepest = max(calls[name], key=lambda called: depths[called])
            path = _call_of(flow, deepest)
            message = f"its workflows nest {depths[name]} levels deep; `subworkflows.maxDepth` is {allowed.max_depth}"
            hint = "run fewer workflows within workflows, or raise `maxDepth` (at most 4)"
            report.error("SUBWORKFLOW_TOO_DEEP", documents[name].place, path, message, hint=hint)


def _call_of(flow: CompiledWorkflow, called: str) -> DocPath:
    return next(path for path, ref in _references(flow) if ref == f"workflows.{called}")


def _references(flow: CompiledWorkflow) -> Iterator[tuple[DocPath, str]]:
    """What its steps or its phases run, each with its place."""
    refs = (("nodes", [node.ref for node in flow.spec.nodes]), ("phases", [phase.ref for phase in flow.spec.phases]))
    for section, named in refs:
        for number, ref in enumerate(named):
            if ref is not None:
                yield ("spec", section, number, "ref"), ref


def _walk(begin: set[str], following: Mapping[str, list[str]]) -> set[str]:
    reached, waiting = set(begin), list(begin)
    while waiting:
        for name in following.get(waiting.pop(), ()):
            if name not in reached:
                reached.add(name)
                waiting.append(name)
    return reached

"""The workflow adapter `langgraph`: compiles a Workflow document to a StateGraph and lets LangGraph walk it.

Steps are nodes, routers are conditional edges, and a step with several edges into it is a deferred node. What a step
does, its retries and its record are the request's, as with `native`; so are questions and timers. Differences: branches
advance in supersteps, a deferred node waits for every other branch, and `join: any` begins with the first branch but
lets the others run to their end.
"""

import operator
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, TypedDict

from langgraph.graph import END as GRAPH_END
from langgraph.graph import START as GRAPH_START
from langgraph.graph import StateGraph
from langgraph.pregel import Pregel

from app.backends.contract import StepFailed
from app.backends.workflow_contract import (
    FlowValues,
    NodeRecord,
    Visit,
    Waiting,
    WorkflowRequest,
    failure_of,
    visits_exceeded,
)
from app.core.suspend import Suspended
from app.workspace.flow_graph import END, FAILED, START

_STEPS_BEYOND: Final = 10
"""Supersteps that a walk may take besides one per visit."""


class FlowState(TypedDict, total=False):
    records: Annotated[list[NodeRecord], operator.add]
    """How each visit ended, in order."""


class LangGraphAdapter:
    kind = "langgraph"

    async def run(self, request: WorkflowRequest) -> FlowValues:
        walk = _GraphWalk(request)
        graph = walk.compiled()
        limit = len(request.graph.nodes) * request.graph.max_visits + _STEPS_BEYOND
        await graph.ainvoke({"records": []}, {"recursion_limit": limit})
        if walk.open:
            raise await request.suspend(walk.open)
        return walk.values


class _GraphWalk:
    def __init__(self, request: WorkflowRequest) -> None:
        self._request, self._graph = request, request.graph
        self._recorded = {record.visit: record for record in request.recorded}
        self.values = FlowValues(request.input)
        self._waiting: dict[str, tuple[Visit, str]] = {}
        """By node: what waits, and for which interrupt."""
        self._blocked = 0
        """The nodes that wait, as bits: whatever is reached from them waits as well."""
        self._late: set[str] = set()
        """Nodes with `join: any` that a later branch has just reached."""
        self._suspended: list[str] = []

    @property
    def open(self) -> list[str]:
        """The interrupts that branches wait for."""
        return [*(interrupt for _, interrupt in self._waiting.values()), *self._suspended]

    def compiled(self) -> Pregel[Any, Any, Any, Any]:
        graph = StateGraph(FlowState)
        for name, node in self._graph.nodes.items():
            several = len(self._graph.incoming.get(name, ())) > 1
            graph.add_node(name, self._node(name), defer=several and node.join == "all")
        for source in (START, *self._graph.nodes):
            self._connect(graph, source)
        return graph.compile()

    def _connect(self, graph: Any, source: str) -> None:
        edges = self._graph.outgoing.get(source, ())
        places = sorted({_place(edge.target) for edge in edges} | {GRAPH_END})

        def follow(state: FlowState) -> list[str]:
            if source == START:
                targets = self._graph.targets(START, self._request.start_label(self.values))
            else:
                targets = self._following(source, state)
            return targets or [GRAPH_END]

        graph.add_conditional_edges(GRAPH_START if source == START else source, follow, places)

    def _following(self, source: str, state: FlowState) -> list[str]:
        """Where a node's newest visit leads; nowhere while it waits."""
        if self._blocked & self._graph.bit(source) or source in self._late:
            self._late.discard(source)
            return []
        records = state.get("records", [])
        record = next((one for one in reversed(records) if one.visit.node == source), None)
        if record is None:
            return []
        if record.failed:
            return self._graph.failed_targets(source) or []
        return [target for target in self._graph.targets(source, record.label) if record.label != FAILED]

    def _node(self, name: str) -> Callable[[FlowState], Awaitable[FlowState]]:
        async def work(state: FlowState) -> FlowState:
            visit = Visit(name, sum(one.visit.node == name for one in state.get("records", [])) + 1)
            if self._waits(visit):
                return {}
            losing = self._losing(name)
            record = self._recorded.get(visit)
            if record is None:
                done = await self._work(visit)
                if done is None:
                    return {}
                record = (await self._request.record([done], losing))[0]
            self.values.note(record)
            if record.failed and self._graph.failed_targets(name) is None:
                raise StepFailed(failure_of(record))
            return {"records": [record]}

        return work

    def _waits(self, visit: Visit) -> bool:
        """Whether a branch that leads here waits, or the visit is one too many."""
        node, graph = self._graph.nodes[visit.node], self._graph
        if visit.number > graph.max_visits:
            if node.join == "any":
                self._late.add(visit.node)
                return True
            raise StepFailed(visits_exceeded(visit.node, graph.max_visits))
        waiting = node.join == "all" and bool(self._blocked & graph.reached_by[visit.node] & ~graph.bit(visit.node))
        if self._suspended or waiting:
            self._blocked |= graph.bit(visit.node)
            return True
        self._blocked &= ~graph.bit(visit.node)
        return False

    def _losing(self, name: str) -> list[Visit]:
        """What waits on the way to a node that begins with any branch, and is not needed now."""
        if self._graph.nodes[name].join != "any":
            return []
        before = self._graph.reached_by[name]
        found = [other for other in self._waiting if before & self._graph.bit(other)]
        for other in found:
            self._blocked &= ~self._graph.bit(other)
        return [self._waiting.pop(other)[0] for other in found]

    async def _work(self, visit: Visit) -> NodeRecord | None:
        """None if the visit waits: LangGraph would end the other branches, so it does not learn of it."""
        try:
            return await self._request.work(visit, self.values)
        except Waiting as waiting:
            self._waiting[visit.node] = visit, waiting.interrupt_id
        except Suspended as suspended:
            self._suspended.append(suspended.interrupt_id)
        self._blocked |= self._graph.bit(visit.node)
        return None


def _place(name: str) -> str:
    return GRAPH_END if name == END else name

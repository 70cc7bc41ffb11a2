"""Where the walk through a graph stands: a pure function of the visits that have ended, in their order.

Fed with the same records in the same order it gives the same answers, so that a run which is entered again comes to
where it was. Knows nothing of tasks, of the log, or of what a node does.

A node with several edges into it and `join: all` waits until no node is under way from which a path leads to it; if
nodes wait for each other in a circle, the one that was reached first begins. With `join: any` it begins at once, and
whatever is under way to it is cancelled.
"""

from dataclasses import field

from app.backends.contract import StepFailed
from app.backends.workflow_contract import NodeRecord, Visit, failure_of, visits_exceeded
from app.core.value import mutable
from app.workspace.flow_graph import START, FlowGraph


@mutable(slots=True)
class Moves:
    """What follows from the end of a visit."""

    started: list[Visit] = field(default_factory=list)
    cancelled: list[Visit] = field(default_factory=list)


class GraphState:
    def __init__(self, graph: FlowGraph) -> None:
        self._graph = graph
        self._visits: dict[str, int] = {}
        self.active: dict[str, Visit] = {}
        """Under way, in the order in which they began."""
        self._reached: dict[str, None] = {}
        """Nodes that an edge has led to and that have not begun, in order."""
        self._busy = 0
        """The nodes that are active or reached, as bits."""

    def start(self, label: str | None) -> Moves:
        return self._advance(self._graph.targets(START, label))

    def complete(self, record: NodeRecord) -> Moves:
        """Raises `StepFailed` if the record ends the run."""
        node = record.visit.node
        assert self.active.get(node) == record.visit, f"{record.visit.key} is not under way"
        del self.active[node]
        if node not in self._reached:
            self._busy &= ~self._graph.bit(node)
        if not record.failed:
            return self._advance(self._graph.targets(node, record.label))
        targets = self._graph.failed_targets(node)
        if targets is None:
            raise StepFailed(failure_of(record))
        return self._advance(targets)

    def _advance(self, targets: list[str]) -> Moves:
        moves = Moves()
        for target in targets:
            self._reached.setdefault(target)
            self._busy |= self._graph.bit(target)
        for target in [name for name in self._reached if self._graph.nodes[name].join == "any"]:
            self._cancel_the_rest(target, moves)
        ready = [name for name in self._reached if self._may_begin(name)]
        if not ready and not self.active and self._reached:
            ready = [next(iter(self._reached))]
        moves.started += [self._begin(name) for name in ready]
        return moves

    def _may_begin(self, name: str) -> bool:
        if name in self.active:
            return False
        if self._graph.nodes[name].join == "any" or len(self._graph.incoming.get(name, ())) < 2:
            return True
        return not self._busy & self._graph.reached_by[name] & ~self._graph.bit(name)

    def _begin(self, name: str) -> Visit:
        number = self._visits.get(name, 0) + 1
        if number > self._graph.max_visits:
            raise StepFailed(visits_exceeded(name, self._graph.max_visits))
        del self._reached[name]
        self._visits[name] = number
        visit = self.active[name] = Visit(name, number)
        return visit

    def _cancel_the_rest(self, target: str, moves: Moves) -> None:
        if target in self.active:
            return
        before = self._graph.reached_by[target]
        for name in [name for name in self.active if before & self._graph.bit(name)]:
            moves.cancelled.append(self.active.pop(name))
            self._busy &= ~self._graph.bit(name)
        for name in [name for name in self._reached if name != target and before & self._graph.bit(name)]:
            del self._reached[name]
            self._busy &= ~self._graph.bit(name)

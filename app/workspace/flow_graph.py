"""A graph of steps as it is executed, whatever document it came from: nodes, labelled edges, joins and limits.

Values only, with the indexes that an executor needs, made once. Leaves to others: what a node does, and which label its
router chooses.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal

from app.core.value import value

START: Final = "START"
END: Final = "END"
FAILED: Final = "failed"
"""The label of the edge that a failed node takes; no router chooses it."""


@value(frozen=True, slots=True)
class FlowNode:
    id: str
    join: Literal["all", "any"] = "all"
    """`all` waits until no branch that could still arrive is under way; `any` starts with the first and cancels the
    others."""
    attempts: int = 1
    backoff_seconds: float = 0.0
    """Before the second attempt; doubled before each further one."""
    timeout_seconds: float | None = None
    """Of one attempt."""


@value(frozen=True, slots=True)
class FlowEdge:
    source: str
    target: str
    label: str | None = None


@dataclass(frozen=True)
class FlowGraph:
    nodes: Mapping[str, FlowNode]
    edges: tuple[FlowEdge, ...]
    max_visits: int = 1
    """How often each node may run."""
    _bits: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_bits", {name: 1 << number for number, name in enumerate(self.nodes)})

    def bit(self, node: str) -> int:
        """The node in a set of nodes that is kept as the bits of a number."""
        return self._bits[node]

    @cached_property
    def outgoing(self) -> Mapping[str, tuple[FlowEdge, ...]]:
        return _grouped(self.edges, lambda edge: edge.source)

    @cached_property
    def incoming(self) -> Mapping[str, tuple[FlowEdge, ...]]:
        return _grouped(self.edges, lambda edge: edge.target)

    @cached_property
    def reached_by(self) -> Mapping[str, int]:
        """By node: the nodes from which a path leads to it."""
        reached = dict.fromkeys(self.nodes, 0)
        waiting = list(self.nodes)
        while waiting:
            again: dict[str, None] = {}
            for name in waiting:
                passed_on = reached[name] | self._bits[name]
                for edge in self.outgoing.get(name, ()):
                    if edge.target in reached and reached[edge.target] | passed_on != reached[edge.target]:
                        reached[edge.target] |= passed_on
                        again[edge.target] = None
            waiting = list(again)
        return reached

    def targets(self, source: str, label: str | None) -> list[str]:
        """Where the edges lead: those without a label, and those with this one. END is left out."""
        return [
            edge.target
            for edge in self.outgoing.get(source, ())
            if edge.target != END and (edge.label is None or edge.label == label)
        ]

    def failed_targets(self, source: str) -> list[str] | None:
        """Where the edges for a failure lead; None if the node has none, so that its failure is the run's."""
        edges = [edge for edge in self.outgoing.get(source, ()) if edge.label == FAILED]
        return [edge.target for edge in edges if edge.target != END] if edges else None


def _grouped(edges: Iterable[FlowEdge], key: Callable[[FlowEdge], str]) -> Mapping[str, tuple[FlowEdge, ...]]:
    found: dict[str, list[FlowEdge]] = {}
    for edge in edges:
        found.setdefault(key(edge), []).append(edge)
    return {name: tuple(listed) for name, listed in found.items()}

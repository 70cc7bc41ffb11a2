"""The phases of a cycle as the graph that an adapter walks: the visit of a phase says which one is next."""

from types import MappingProxyType
from typing import Final

from app.workspace.compiled_cycles import CompiledCycle
from app.workspace.flow_graph import END, START, FlowEdge, FlowGraph, FlowNode

END_LABEL: Final = "end"
"""What a phase that ends the cycle chooses."""


def cycle_graph(cycle: CompiledCycle) -> FlowGraph:
    """From each phase a way to each: a hook may send a cycle to any of its phases."""
    nodes = {phase: FlowNode(phase, join="any") for phase in cycle.phases}
    edges = [FlowEdge(START, cycle.entry)]
    for phase in cycle.phases:
        edges += [FlowEdge(phase, other, other) for other in cycle.phases]
        edges.append(FlowEdge(phase, END, END_LABEL))
    # A phase runs at most once in a generation.
    return FlowGraph(MappingProxyType(nodes), tuple(edges), cycle.bounds.max_generations + 1)

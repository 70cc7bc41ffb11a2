"""Cycles as workflows: a cycle's id is a workflow's name, and a Workflow document may give a cycle hooks and limits.

The graph made here is what people see: the sequence, and the ways back. The runtime makes the one that is walked.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from app.workspace.compiled import CompiledAgent, CompiledNode, CompiledWorkflow
from app.workspace.compiled_cycles import CompiledCycle, WorkflowUnits
from app.workspace.flow_graph import END, START, FlowEdge, FlowGraph, FlowNode
from app.workspace.specs.agent import AgentSpec
from app.workspace.specs.workflow import WorkflowNode, WorkflowSpec


def with_cycles(workflows: Mapping[str, CompiledWorkflow], units: WorkflowUnits) -> Mapping[str, CompiledWorkflow]:
    made = dict(workflows)
    for name, flow in workflows.items():
        cycle = units.cycles.get(flow.spec.cycle or "")
        if cycle is not None:
            agent = replace(flow.agent, subagents=_asked(cycle, units))
            made[name] = replace(flow, graph=shown_graph(cycle), nodes=_shown_nodes(cycle, units), agent=agent)
    for cycle in units.cycles.values():
        made.setdefault(cycle.id, _workflow(cycle, units))
    return MappingProxyType(made)


def _workflow(cycle: CompiledCycle, units: WorkflowUnits) -> CompiledWorkflow:
    spec = WorkflowSpec.model_validate({"cycle": cycle.id})
    asked = _asked(cycle, units)
    acting = AgentSpec.model_validate({"backend": spec.adapter})
    labels: Mapping[str, str] = MappingProxyType({})
    agent = CompiledAgent(f"workflow:{cycle.id}", cycle.description, labels, acting, "", None, (), (), asked, None)
    return CompiledWorkflow(
        name=cycle.id,
        description=cycle.description,
        labels=labels,
        spec=spec,
        graph=shown_graph(cycle),
        nodes=_shown_nodes(cycle, units),
        routers=MappingProxyType({}),
        result=None,
        input_validator=None,
        output_validator=None,
        agent=agent,
    )


def _asked(cycle: CompiledCycle, units: WorkflowUnits) -> tuple[str, ...]:
    """The agents whose runs its phases are made of."""
    invoked = (agent.agent for phase in cycle.phases for agent in units.phases[phase].invoked)
    return tuple(dict.fromkeys(invoked))


def _shown_nodes(cycle: CompiledCycle, units: WorkflowUnits) -> Mapping[str, CompiledNode]:
    made: dict[str, CompiledNode] = {}
    for phase in cycle.phases:
        asked = ", ".join(agent.id for agent in units.phases[phase].invoked)
        made[phase] = CompiledNode(phase, "phase", WorkflowNode.model_construct(id=phase), asked)
    return MappingProxyType(made)


def shown_graph(cycle: CompiledCycle) -> FlowGraph:
    nodes = {phase: FlowNode(phase) for phase in cycle.phases}
    edges = [FlowEdge(START, cycle.entry)]
    for phase in cycle.phases:
        following = cycle.after(phase)
        edges.append(FlowEdge(phase, following or END, "advance" if following else "done"))
        edges.append(FlowEdge(phase, phase, "stay"))
    if cycle.done is not None:
        edges.append(FlowEdge(cycle.phases[-1], cycle.entry, "again"))
    return FlowGraph(MappingProxyType(nodes), tuple(edges), cycle.bounds.max_generations)

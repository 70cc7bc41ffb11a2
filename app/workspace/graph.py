"""Who uses what: the references of a compiled workspace, as edges and as a tree in text."""

from collections.abc import Iterator
from itertools import chain
from typing import Any

from app.core.value import value
from app.workspace.compiled import CompiledAgent, CompiledWorkspace
from app.workspace.diagnostics import printable


@value(frozen=True, slots=True)
class GraphEdge:
    start: str
    end: str
    label: str


def edges(workspace: CompiledWorkspace) -> tuple[GraphEdge, ...]:
    """Nodes are `kind/name`, as in `agent/assistant`; the order is that of the names."""
    found = list(_runtime_edges(workspace))
    for agent in workspace.agents.values():
        found += _agent_edges(agent)
    for name, model in workspace.models.items():
        found += [GraphEdge(f"model/{name}", f"model/{other}", "fallback") for other in model.spec.fallbacks]
    for name, tool in workspace.tools.items():
        if tool.spec.mcp is not None:
            found.append(GraphEdge(f"tool/{name}", f"mcp/{tool.spec.mcp.server}", "server"))
        if tool.spec.compensation is not None and tool.spec.compensation.tool is not None:
            found.append(GraphEdge(f"tool/{name}", f"tool/{tool.spec.compensation.tool}", "undo"))
    for name, skill in workspace.skills.items():
        found += [GraphEdge(f"skill/{name}", f"tool/{tool}", "allows") for tool in skill.allowed_tools]
    return tuple(sorted(found, key=lambda edge: (edge.start, edge.label, edge.end)))


def as_json(workspace: CompiledWorkspace) -> list[dict[str, Any]]:
    return [{"from": edge.start, "to": edge.end, "label": edge.label} for edge in edges(workspace)]


def as_text(workspace: CompiledWorkspace) -> str:
    """One block for everything that uses something, its uses grouped by label."""
    blocks: dict[str, dict[str, list[str]]] = {}
    for edge in edges(workspace):
        blocks.setdefault(edge.start, {}).setdefault(edge.label, []).append(edge.end)
    lines = []
    for start, uses in blocks.items():
        lines.append(start)
        for number, (label, ends) in enumerate(uses.items(), start=1):
            branch = "└─" if number == len(uses) else "├─"
            lines.append(f"{branch} {label}: {', '.join(ends)}")
    unused = sorted(set(_nodes(workspace)) - {edge.end for edge in edges(workspace)} - set(blocks))
    if unused:
        lines += ["used by nothing", f"└─ {', '.join(unused)}"]
    return printable_lines(lines)


def printable_lines(lines: list[str]) -> str:
    return "\n".join(printable(line) for line in lines)


def _nodes(workspace: CompiledWorkspace) -> Iterator[str]:
    for kind, names in (
        ("agent", workspace.agents),
        ("model", workspace.models),
        ("tool", workspace.tools),
        ("skill", workspace.skills),
        ("mcp", workspace.mcp_servers),
        ("memory", workspace.memories),
        ("hook", workspace.hooks),
        ("guardrail", workspace.guardrails),
        ("evaluator", workspace.evaluators),
    ):
        yield from (f"{kind}/{name}" for name in names)


def _runtime_edges(workspace: CompiledWorkspace) -> Iterator[GraphEdge]:
    runtime = workspace.runtime
    if workspace.default_agent is not None:
        yield GraphEdge("runtime", f"agent/{workspace.default_agent}", "default")
    for route, target in runtime.routes.items():
        end = f"agent/{target.agent}" if target.agent is not None else f"workflow/{target.workflow}"
        yield GraphEdge("runtime", end, f"route {route}")
    yield from (GraphEdge("runtime", f"hook/{name}", "hooks") for name in runtime.hooks)


def _agent_edges(agent: CompiledAgent) -> Iterator[GraphEdge]:
    start, spec = f"agent/{agent.name}", agent.spec
    if agent.model_plan is not None:
        yield GraphEdge(start, f"model/{agent.model_plan.primary}", "model")
        yield from (GraphEdge(start, f"model/{name}", "fallback") for name in agent.model_plan.fallbacks)
    for kind, label, names in (
        ("tool", "tools", agent.tools),
        ("skill", "skills", agent.skills),
        ("agent", "subagents", agent.subagents),
        ("memory", "memory", spec.memory),
        ("hook", "hooks", spec.hooks),
        ("guardrail", "guardrails", tuple(dict.fromkeys(chain.from_iterable(spec.guardrails.stages.values())))),
        ("evaluator", "gates", tuple(dict.fromkeys(gate.evaluator for gate in spec.gates))),
    ):
        yield from (GraphEdge(start, f"{kind}/{name}", label) for name in names)

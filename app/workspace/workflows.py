"""Compiles Workflow documents: what each step runs, its templates, the routers, and the graph that is executed.

Leaves to `workflow_checks` whether the graph makes sense, and to `workflow_types` what the values of templates are.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final

from app.core.expressions import ExpressionProblem, VariableType, compile_expression
from app.core.schemas import SchemaRegistry
from app.workspace.compiled import (
    CompiledAgent,
    CompiledNode,
    CompiledRoute,
    CompiledSkill,
    CompiledWorkflow,
    NodeKind,
)
from app.workspace.diagnostics import DocPath
from app.workspace.flow_graph import END, START, FlowEdge, FlowGraph, FlowNode
from app.workspace.index import check_repeats
from app.workspace.kind_checks import check_config
from app.workspace.names import did_you_mean
from app.workspace.parse import ParsedDocument
from app.workspace.report import DocumentPlace
from app.workspace.resolve import Resolver, spec_of
from app.workspace.spec_phases import SpecPhaseCompiler
from app.workspace.specs.agent import AgentSpec
from app.workspace.specs.workflow import WorkflowNode, WorkflowSpec
from app.workspace.templates import Template, TemplateProblem, compile_template
from app.workspace.tools import MakeValidator, compile_schema
from app.workspace.value_template import MisplacedText, ValueTemplate, compile_value
from app.workspace.workflow_checks import GraphChecks, check_nesting
from app.workspace.workflow_types import WorkflowTypes

_KINDS: Final[Mapping[str, tuple[NodeKind, str]]] = {
    "agents": ("agent", "Agent"),
    "tools": ("tool", "Tool"),
    "workflows": ("workflow", "Workflow"),
}
_VARIABLES: Final[Mapping[str, VariableType]] = {
    "input": "any",
    "nodes": "map",
    "answer": "any",
    "item": "any",
    "visits": "map",
}
_OF_A_NODE: Final = re.compile(r"\bnodes\s*(?:\.\s*([A-Za-z_]\w*)|\[\s*['\"]([^'\"\]]+)['\"]\s*\])")
_VISITS: Final = re.compile(r"\bvisits\b")
_NODES: Final = re.compile(r"\bnodes\b")
STEP_ROOTS: Final = frozenset({"input", "nodes", "visits"})
ITEM_ROOTS: Final = STEP_ROOTS | {"item", "index"}


class WorkflowCompiler:
    def __init__(
        self,
        resolver: Resolver,
        agents: Mapping[str, CompiledAgent],
        skills: Mapping[str, CompiledSkill],
        schemas: SchemaRegistry,
        validator: MakeValidator,
    ) -> None:
        self._phases = SpecPhaseCompiler(resolver, schemas, validator)
        self._resolver, self._index, self._report = resolver, resolver.index, resolver.report
        self._agents, self._skills, self._validator = agents, skills, validator

    def compile(self) -> Mapping[str, CompiledWorkflow]:
        documents = list(self._index.good("Workflow"))
        made = {document.name: self._workflow(document) for document in documents}
        check_nesting({document.name: document for document in documents}, made, self._report)
        for document in documents:
            WorkflowTypes(made[document.name], made, self._resolver, self._agents, document.place).check()
        return MappingProxyType(made)

    def _workflow(self, document: ParsedDocument) -> CompiledWorkflow:
        spec, place = spec_of(document, WorkflowSpec), document.place
        self._adapter(spec, place)
        self._references(spec, place)
        self._cycle(spec, place)
        nodes = {node.id: self._node(node, number, place) for number, node in enumerate(spec.nodes)}
        check_repeats([node.id for node in spec.nodes], place, ("spec", "nodes"), self._report)
        phases = {phase.id: self._phases.phase(phase, number, place) for number, phase in enumerate(spec.phases)}
        check_repeats([phase.id for phase in spec.phases], place, ("spec", "phases"), self._report)
        for number, phase in enumerate(spec.phases):
            step = WorkflowNode.model_validate({"id": phase.id, "ref": phase.ref})
            nodes[phase.id] = self._node(step, number, place, "phases")
        graph = _graph(spec)
        GraphChecks(spec, graph, place, self._report).check()
        metadata = document.model.metadata  # type: ignore[union-attr]  # asked of good documents only
        description, labels = metadata.description or "", MappingProxyType(dict(metadata.labels))
        return CompiledWorkflow(
            name=document.name,
            description=description,
            labels=labels,
            spec=spec,
            graph=graph,
            nodes=MappingProxyType(nodes),
            routers=MappingProxyType({source: self._routes(spec, source, place) for source in spec.routers}),
            result=self._value(spec.result, STEP_ROOTS, place, ("spec", "result")),
            input_validator=compile_schema(spec.input, ("spec", "input"), place, self._report, self._validator),
            output_validator=compile_schema(spec.output, ("spec", "output"), place, self._report, self._validator),
            agent=_acting(document.name, description, labels, spec, nodes),
            phases=MappingProxyType(phases),
        )

    # -- what it names -------------------------------------------------------------------------------

    def _adapter(self, spec: WorkflowSpec, place: DocumentPlace) -> None:
        """An adapter may be brought by the program that embeds the server: not knowing it is no error."""
        adapters, path = self._resolver.catalog.adapters, ("spec", "adapter")
        if spec.adapter not in adapters:
            hint = did_you_mean(self._report.suggest.nearest(spec.adapter, adapters))
            message = f"no workflow adapter is named {spec.adapter!r}; its runs fail with ADAPTER_NOT_AVAILABLE"
            self._report.warning("ADAPTER_UNKNOWN", place, path, message, hint=hint)
        elif adapters.usable(spec.adapter) is None:
            remedy = getattr(adapters[spec.adapter], "remedy", None)
            message = f"the adapter {spec.adapter!r} is not installed; its runs fail with ADAPTER_NOT_AVAILABLE"
            self._report.warning("ADAPTER_UNKNOWN", place, path, message, hint=remedy)
        check_config(adapters, spec.adapter, spec.config, place, ("spec", "config"), "adapter", self._report)

    def _references(self, spec: WorkflowSpec, place: DocumentPlace) -> None:
        self._index.refers_all("Hook", spec.hooks, place, ("spec", "hooks"), self._report)
        self._index.refers_all("Tool", spec.evidence, place, ("spec", "evidence"), self._report)
        for stage, names in spec.guardrails.stages.items():
            self._index.refers_all("Guardrail", names, place, ("spec", "guardrails", stage), self._report)
        for number, gate in enumerate(spec.gates):
            path: DocPath = ("spec", "gates", number)
            self._index.refers("Evaluator", gate.evaluator, place, (*path, "evaluator"), self._report)
            if gate.on_fail in ("retry", "fallback"):
                message = f"a gate of a workflow cannot do `onFail: {gate.on_fail}`: its steps have run"
                hint = "use `fail` or `ask`, or put the gate on the agent of a step"
                self._report.error("NOT_SERVED", place, (*path, "onFail"), message, hint=hint)

    def _cycle(self, spec: WorkflowSpec, place: DocumentPlace) -> None:
        cycles = self._index.units.get("cycles", {})
        if spec.cycle is not None and spec.cycle not in cycles and not self._index.may_be_unread(spec.cycle):
            hint = did_you_mean(self._report.suggest.nearest(spec.cycle, cycles))
            message = f"there is no cycle {spec.cycle!r}"
            self._report.error("WORKFLOW_UNKNOWN", place, ("spec", "cycle"), message, hint=hint)

    # -- steps ---------------------------------------------------------------------------------------

    def _node(self, node: WorkflowNode, number: int, place: DocumentPlace, section: str = "nodes") -> CompiledNode:
        path: DocPath = ("spec", section, number)
        if node.ask is not None:
            said = {"title": node.ask.title, "show": node.ask.show, "questions": list(node.ask.questions)}
            return CompiledNode(
                node.id, "ask", node, asked=self._value(said, STEP_ROOTS, place, (*path, "ask")) or ValueTemplate(said)
            )
        if node.wait is not None:
            return CompiledNode(node.id, "wait", node)
        folder, _, name = (node.ref or "").partition(".")
        roots = ITEM_ROOTS if node.foreach is not None else STEP_ROOTS
        given = None if node.with_ is None else self._value(node.with_, roots, place, (*path, "with"))
        foreach = self._foreach(node.foreach, place, (*path, "foreach"))
        if folder == "skills":
            agent = self._agent_of(node, name, place, path)
            return CompiledNode(node.id, "skill", node, name, agent, given, foreach, unsafe=self._is_unsafe(agent))
        kind, document = _KINDS[folder]
        self._index.refers(document, name, place, (*path, "ref"), self._report)
        agent = name if kind == "agent" else None
        unsafe = kind == "workflow" or self._is_unsafe(agent) or (kind == "tool" and self._tool_is_unsafe(name))
        if kind != "tool":
            self._only_input(node, kind, place, path)
        return CompiledNode(node.id, kind, node, name, agent, given, foreach, unsafe=unsafe)

    def _only_input(self, node: WorkflowNode, kind: str, place: DocumentPlace, path: DocPath) -> None:
        for key in node.with_ or ():
            if key != "input":
                message = f"a step that runs a {kind} is given `input` and nothing else"
                expected = "`with: {input: ...}`"
                self._report.error("FIELD_UNKNOWN", place, (*path, "with", key), message, expected=expected, key=True)

    def _agent_of(self, node: WorkflowNode, skill: str, place: DocumentPlace, path: DocPath) -> str | None:
        """Who follows a skill: the agent that the step names, else the only one that has it."""
        self._only_input(node, "skill", place, path)
        if skill not in self._skills:
            if not self._index.may_be_unread(skill):
                hint = did_you_mean(self._report.suggest.nearest(skill, self._skills))
                self._report.error(
                    "SKILL_UNKNOWN",
                    place,
                    (*path, "ref"),
                    f"there is no skill {skill!r}",
                    expected="a skill",
                    hint=hint,
                )
            return None
        having = [name for name, agent in self._agents.items() if skill in agent.skills]
        if node.agent is None:
            if len(having) == 1:
                return having[0]
            many = f"{len(having)} agents have the skill {skill!r}" if having else f"no agent has the skill {skill!r}"
            hint = (
                f"write `agent: ` with one of: {', '.join(having[:5])}" if having else "add it to `skills` of an Agent"
            )
            self._report.error("SKILL_WITHOUT_AGENT", place, (*path, "ref"), many, hint=hint)
            return None
        known = self._index.refers("Agent", node.agent, place, (*path, "agent"), self._report)
        if known and node.agent in self._agents and node.agent not in having:
            message = f"the agent {node.agent!r} does not have the skill {skill!r}"
            hint = f"add it to `skills` of {node.agent}"
            self._report.error("SKILL_WITHOUT_AGENT", place, (*path, "agent"), message, hint=hint)
        return node.agent

    def _is_unsafe(self, agent: str | None) -> bool:
        """Whether it can use a tool that must not be repeated unseen, itself or through its subagents."""
        seen, waiting = set[str](), [agent] if agent else []
        while waiting:
            found = self._agents.get(waiting.pop() or "")
            if found is None or found.name in seen:
                continue
            seen.add(found.name)
            if any(self._tool_is_unsafe(tool) for tool in found.tools):
                return True
            waiting += found.subagents
        return False

    def _tool_is_unsafe(self, name: str) -> bool:
        document = self._index.documents["Tool"].get(name)
        return document is None or document.tool is None or document.tool.spec.effect == "unsafe"

    # -- templates and routers -----------------------------------------------------------------------

    def _value(self, value: Any, roots: frozenset[str], place: DocumentPlace, path: DocPath) -> ValueTemplate | None:
        if value is None:
            return None
        made = compile_value(value, roots)
        if isinstance(made, MisplacedText):
            expected = "such as `{{ input.goal }}` or `{{ nodes.plan.output }}`"
            self._report.error("TEMPLATE_INVALID", place, (*path, *made.path), made.message, expected=expected)
            return None
        return made

    def _foreach(self, source: str | None, place: DocumentPlace, path: DocPath) -> Template | None:
        if source is None:
            return None
        made = compile_template(source if "{{" in source else f"{{{{ {source} }}}}", STEP_ROOTS)
        if isinstance(made, TemplateProblem) or len(made.places) != 1 or made.literals != ("", ""):
            message = made.message if isinstance(made, TemplateProblem) else "it is more than one path"
            expected = "a path to a list, such as `nodes.plan.output.topics`"
            self._report.error("TEMPLATE_INVALID", place, path, message, expected=expected)
            return None
        return made

    def _routes(self, spec: WorkflowSpec, source: str, place: DocumentPlace) -> tuple[CompiledRoute, ...]:
        made: list[CompiledRoute] = []
        ids = {node.id for node in spec.nodes}
        for number, route in enumerate(spec.routers[source]):
            path: DocPath = ("spec", "routers", source, number, "when")
            if route.when is None:
                made.append(CompiledRoute(route.label, None))
                continue
            compiled = compile_expression(route.when, _VARIABLES)
            if isinstance(compiled, ExpressionProblem):
                message = f"{compiled.message[:300]} (line {compiled.line}, column {compiled.column} of the expression)"
                hint = "compare `input`, `nodes`, `answer` or `visits`, such as `nodes.check.output.ok`"
                expected = "a CEL expression that gives a bool"
                self._report.error("EXPRESSION_INVALID", place, path, message, expected=expected, hint=hint)
                continue
            read = nodes_of(route.when)
            for name in sorted((read or frozenset()) - ids):
                near = did_you_mean(self._report.suggest.nearest(name, ids))
                self._report.error("NODE_UNKNOWN", place, path, f"there is no node {name!r}", hint=near)
            made.append(CompiledRoute(route.label, compiled, read, bool(_VISITS.search(route.when))))
        return tuple(made)


def nodes_of(expression: str) -> frozenset[str] | None:
    """The nodes that an expression reads; None if it cannot be said, because it uses `nodes` in another way."""
    named = [first or second for first, second in _OF_A_NODE.findall(expression)]
    return frozenset(named) if len(named) == len(_NODES.findall(expression)) else None


def _graph(spec: WorkflowSpec) -> FlowGraph:
    nodes = {node.id: _flow_node(node) for node in spec.nodes}
    nodes |= {phase.id: FlowNode(phase.id) for phase in spec.phases}
    edges = [FlowEdge(edge.from_, edge.to, edge.condition) for edge in spec.edges]
    if not edges and nodes:
        # Without edges the steps follow each other as they are written.
        order = [START, *nodes, END]
        edges = [FlowEdge(source, target) for source, target in pairwise(order)]
    return FlowGraph(MappingProxyType(nodes), tuple(edges), spec.cycles.max_visits if spec.cycles else 1)


def _flow_node(node: WorkflowNode) -> FlowNode:
    retry = node.retry
    attempts, backoff = (retry.attempts, retry.backoff_seconds) if retry is not None else (1, 0.0)
    return FlowNode(node.id, node.join, attempts, backoff, node.timeout_seconds)


def _acting(
    name: str, description: str, labels: Mapping[str, str], spec: WorkflowSpec, nodes: Mapping[str, CompiledNode]
) -> CompiledAgent:
    tools = tuple(_targets(nodes, "tool"))
    verifying = [phase.verify.agent for phase in spec.phases if phase.verify is not None]
    asked = (*(node.agent for node in nodes.values()), *verifying)
    agents = tuple(dict.fromkeys(agent for agent in asked if agent))
    acting = AgentSpec(
        backend=spec.adapter,
        tools=tools,
        subagents=agents,
        hooks=spec.hooks,
        guardrails=spec.guardrails,
        gates=spec.gates,
        evidence=spec.evidence,
        limits=spec.limits,
        busyPolicy=spec.busy_policy,
    )
    return CompiledAgent(f"workflow:{name}", description, labels, acting, "", None, tools, (), agents, None)


def _targets(nodes: Mapping[str, CompiledNode], kind: NodeKind) -> Iterator[str]:
    yield from dict.fromkeys(node.target for node in nodes.values() if node.kind == kind)

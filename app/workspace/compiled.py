"""The frozen result: what the rest of the program knows of a workspace.

Values only. Texts that refer to the environment still hold the reference; whoever calls out resolves it.
JSON inside (schemas, config) is shared and must not be changed.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Generic, Literal, TypeVar

from app.core.expressions import Expression
from app.core.schemas import Validator
from app.core.value import contract_value
from app.workspace.compiled_cycles import WorkflowUnits
from app.workspace.diagnostics import Diagnostics
from app.workspace.files import WorkspaceFiles
from app.workspace.flow_graph import FlowGraph
from app.workspace.specs.agent import AgentSpec, McpSelection, ModelPlan
from app.workspace.specs.base import Spec
from app.workspace.specs.model import ModelSpec
from app.workspace.specs.others import (
    EvaluatorSpec,
    GuardrailSpec,
    HookSpec,
    MemorySpec,
    ScheduleSpec,
    WebhookSpec,
)
from app.workspace.specs.runtime import RuntimeSpec
from app.workspace.specs.tool import McpServerSpec, ToolSpec
from app.workspace.specs.workflow import SpecPhase, WorkflowNode, WorkflowSpec
from app.workspace.templates import Template
from app.workspace.triggers import TriggerMatcher
from app.workspace.value_template import ValueTemplate

SpecT = TypeVar("SpecT", bound=Spec)


@contract_value(frozen=True, slots=True)
class Named(Generic[SpecT]):
    """A document of a kind that needs nothing beyond its checked spec."""

    name: str
    description: str
    labels: Mapping[str, str]
    spec: SpecT


@contract_value(frozen=True, slots=True)
class CompiledRule:
    check: Expression
    message: str
    example: Mapping[str, Any] | None


@contract_value(frozen=True, slots=True)
class CompiledTool:
    """`input_validator` checks the schema as written; None where the kind derives the schema itself.

    `templates` are by path in the spec, such as `http.url` or `subprocess.command.0`;
    `compensation` maps each argument of the undo tool to a template or a literal value.
    """

    name: str
    description: str
    labels: Mapping[str, str]
    spec: ToolSpec
    input_validator: Validator | None
    output_validator: Validator | None
    approval: Literal["never", "always"] | Expression
    rules: tuple[CompiledRule, ...]
    templates: Mapping[str, Template]
    compensation: Mapping[str, Any]
    module_file: str | None = None  # the workspace's own Python file of `entry`; None for an installed module


@contract_value(frozen=True, slots=True)
class CompiledRoute:
    """One rule of a router: its label is chosen if `when` is true, or in any case."""

    label: str
    when: Expression | None
    nodes: frozenset[str] | None = None
    """The nodes that `when` reads; None if it may read any."""
    reads_visits: bool = True


@contract_value(frozen=True, slots=True)
class CompiledAgent:
    """`instructions` is the text, also when a file holds it."""

    name: str
    description: str
    labels: Mapping[str, str]
    spec: AgentSpec
    instructions: str
    model_plan: ModelPlan | None
    tools: tuple[str, ...]
    skills: tuple[str, ...]
    subagents: tuple[str, ...]
    output_validator: Validator | None
    routers: Mapping[str, tuple[CompiledRoute, ...]] = field(default_factory=dict)
    mcp_selections: tuple[McpSelection, ...] = ()
    """Tools of MCP servers that have no document: which ones there are, the servers say."""


NodeKind = Literal["agent", "tool", "skill", "workflow", "ask", "wait", "phase"]
"""`phase` is one of a cycle."""


@contract_value(frozen=True, slots=True)
class CompiledNode:
    """A step of a workflow."""

    id: str
    kind: NodeKind
    spec: WorkflowNode
    target: str = ""
    """The agent, tool, skill or workflow that it runs; of a cycle's phase, those who are asked."""
    agent: str | None = None
    """Who follows the skill, or the agent itself."""
    given: ValueTemplate | None = None
    """`with`; None for a step that takes the output of the step before."""
    foreach: Template | None = None
    asked: ValueTemplate | None = None
    """Of a question: its title, what it shows and what it asks."""
    unsafe: bool = False
    """Whether it may change something outside in a way that must not be repeated unseen."""


@contract_value(frozen=True, slots=True)
class CompiledSpecPhase:
    """A phase of spec-driven work, with its checks compiled."""

    spec: SpecPhase
    schema: Validator | None = None
    verified_schema: Validator | None = None
    rule: Expression | None = None


@contract_value(frozen=True, slots=True)
class CompiledWorkflow:
    """`agent` stands for the workflow where a run needs one: its tools, rules, gates and limits. Named `workflow:NAME`,
    so that it shares no name with an agent."""

    name: str
    description: str
    labels: Mapping[str, str]
    spec: WorkflowSpec
    graph: FlowGraph
    nodes: Mapping[str, CompiledNode]
    routers: Mapping[str, tuple[CompiledRoute, ...]]
    result: ValueTemplate | None
    input_validator: Validator | None
    output_validator: Validator | None
    agent: CompiledAgent
    phases: Mapping[str, CompiledSpecPhase] = field(default_factory=dict)
    """Of spec-driven work, by id."""


@contract_value(frozen=True, slots=True)
class MemoryRule:
    when: Expression
    then: Literal["accept", "reject", "merge", "ask"]


@contract_value(frozen=True, slots=True)
class CompiledMemory:
    """`rules` are the policy about candidates, in order."""

    name: str
    description: str
    labels: Mapping[str, str]
    spec: MemorySpec
    rules: tuple[MemoryRule, ...] = ()


@contract_value(frozen=True, slots=True)
class CompiledSkill:
    name: str
    description: str
    triggers: tuple[str, ...]
    allowed_tools: tuple[str, ...]
    body: str
    file: str
    frontmatter: Mapping[str, Any]
    cycle: str | None = None
    """The cycle that a run which chose this skill goes through."""


@contract_value(frozen=True, slots=True)
class CompiledRole:
    name: str
    prompt: str
    file: str | None  # None for the prompt that ships with the program


@contract_value(frozen=True, slots=True)
class CompiledWorkspace:
    digest: str
    profile: str | None
    runtime: RuntimeSpec
    agents: Mapping[str, CompiledAgent]
    models: Mapping[str, Named[ModelSpec]]
    tools: Mapping[str, CompiledTool]
    mcp_servers: Mapping[str, Named[McpServerSpec]]
    memories: Mapping[str, CompiledMemory]
    workflows: Mapping[str, CompiledWorkflow]
    hooks: Mapping[str, Named[HookSpec]]
    guardrails: Mapping[str, Named[GuardrailSpec]]
    evaluators: Mapping[str, Named[EvaluatorSpec]]
    schedules: Mapping[str, Named[ScheduleSpec]]
    webhooks: Mapping[str, Named[WebhookSpec]]
    profiles: tuple[str, ...]
    skills: Mapping[str, CompiledSkill]
    roles: Mapping[str, CompiledRole]
    units: WorkflowUnits
    triggers: TriggerMatcher
    files: WorkspaceFiles
    plain_models: Mapping[str, CompiledAgent] = field(default_factory=dict)
    """What stands for each exposed Model where a run needs an agent, by `model:NAME`."""

    def acting(self, agent: str | None, workflow: str | None = None) -> CompiledAgent | None:
        """The agent of a run, or what stands for its workflow or its exposed Model."""
        if workflow is not None:
            found = self.workflows.get(workflow)
            return found.agent if found is not None else None
        return self.agents.get(agent or "") or self.plain_models.get(agent or "")

    @property
    def acting_agents(self) -> Mapping[str, CompiledAgent]:
        """Every agent, and what stands for each workflow, by name."""
        return {**self.agents, **{flow.agent.name: flow.agent for flow in self.workflows.values()}}

    @property
    def everyone_acting(self) -> Mapping[str, CompiledAgent]:
        """Also what stands for each exposed Model."""
        return {**self.acting_agents, **self.plain_models}

    @property
    def default_agent(self) -> str | None:
        """Who answers a request that names nobody: the one the Runtime names, or the only one there is."""
        if self.runtime.default_agent is None and len(self.agents) == 1:
            return next(iter(self.agents))
        return self.runtime.default_agent


@contract_value(frozen=True, slots=True)
class Compiled:
    """A workspace that may be used, and the warnings about it."""

    workspace: CompiledWorkspace
    diagnostics: Diagnostics

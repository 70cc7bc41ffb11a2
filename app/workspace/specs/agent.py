"""Agent: one shape for every backend."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from app.workspace.specs.base import (
    Cel,
    Count,
    Document,
    JsonMap,
    KindName,
    Limits,
    Name,
    Parameters,
    Reasoning,
    Spec,
    Text,
)
from app.workspace.specs.runtime import BusyPolicy

Stage = Literal["input", "output", "toolArguments", "toolResults"]


ApiVersion = Annotated[
    str, Field(pattern=r"^([0-9]{4}-[0-9]{2}-[0-9]{2}(-preview)?|v[0-9]{1,4}((alpha|beta)[0-9]{0,4})?)$")
]


class ModelPlan(Spec):
    primary: Name
    fallbacks: tuple[Name, ...] = ()
    required_capabilities: tuple[Text, ...] = ()
    min_provider_api_version: ApiVersion | None = None
    strict_capability_negotiation: bool = False


class ContextPolicy(Spec):
    """What of a long thread the model sees; a tool call is never parted from its result."""

    strategy: Literal["window", "summarise", "all"] = "window"
    max_messages: Count = 200
    max_tokens: Count | None = None
    compact_at_tokens: Count | None = None
    keep_last: Count = 20
    summary_model: Name | None = None
    tool_result_bytes: Count = 16_384

    @model_validator(mode="after")
    def _fits_strategy(self) -> Self:
        if self.strategy != "summarise" and self.model_fields_set & {"compact_at_tokens", "keep_last", "summary_model"}:
            raise ValueError("`compactAtTokens`, `keepLast` and `summaryModel` belong to the strategy summarise")
        if self.strategy == "all" and self.model_fields_set & {"max_messages", "max_tokens"}:
            raise ValueError("`maxMessages` and `maxTokens` have no effect with the strategy all")
        return self


class AgentGuardrails(Spec):
    """Guardrails by the stage at which they are asked."""

    input: tuple[Name, ...] = ()
    output: tuple[Name, ...] = ()
    tool_arguments: tuple[Name, ...] = ()
    tool_results: tuple[Name, ...] = ()

    @property
    def stages(self) -> Mapping[Stage, tuple[str, ...]]:
        return {
            "input": self.input,
            "output": self.output,
            "toolArguments": self.tool_arguments,
            "toolResults": self.tool_results,
        }


class Gate(Spec):
    """An evaluator with a threshold. A shadow gate only records its verdict; a blocking one decides about an answer."""

    evaluator: Name
    min_score: Annotated[float, Field(ge=0, le=1)] = 1.0
    mode: Literal["shadow", "blocking"] = "shadow"
    sample: Annotated[float, Field(gt=0, le=1)] = 1.0
    on_fail: Literal["fail", "retry", "fallback", "ask"] = "fail"
    fallback_model: Name | None = None
    fallback_digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None

    @model_validator(mode="after")
    def _acts_when_it_blocks(self) -> Self:
        if self.mode == "shadow" and "on_fail" in self.model_fields_set:
            raise ValueError("`onFail` belongs to blocking gates; a shadow gate never acts")
        named = [name for name in (self.fallback_model, self.fallback_digest) if name is not None]
        if len(named) != (self.on_fail == "fallback"):
            raise ValueError(
                "`fallbackModel` and `fallbackDigest` belong to `onFail: fallback`, which needs one of them"
            )
        return self


class Edge(Spec):
    """`condition` is a route label, never logic."""

    from_: Text = Field(alias="from")
    to: Text
    condition: Text | None = None


class RouteRule(Spec):
    """A rule of a router: the first whose `when` is true gives its label."""

    label: Text
    when: Cel | None = None


class Subagent(Spec):
    """An agent that this one may ask. It may use those of its own tools that its parent has, and those in `tools`."""

    agent: Name
    tools: tuple[Name, ...] = Field(
        (), description="Tools that the subagent may use although its parent does not have them."
    )


def _form(value: object) -> str:
    return "entry" if isinstance(value, Subagent | dict) else "name"


class McpSelection(Spec):
    """Tools of an MCP server: those that it offers when the server first asks it, as far as their names fit."""

    mcp: Name
    match: Annotated[str, Field(min_length=1, max_length=128)] = Field(
        "*", description="Which of its tools: a name, or a pattern such as `git_*`."
    )
    effect: Literal["readonly", "keyed", "unsafe"] = "unsafe"
    approval: Literal["never", "always"] = "never"


def _tool_form(value: object) -> str:
    return "selection" if isinstance(value, McpSelection | dict) else "name"


ToolEntry = Annotated[
    Annotated[Name, Tag("name")] | Annotated[McpSelection, Tag("selection")], Discriminator(_tool_form)
]

SubagentEntry = Annotated[Annotated[Name, Tag("name")] | Annotated[Subagent, Tag("entry")], Discriminator(_form)]


class AgentSpec(Spec):
    backend: KindName = "native"
    model: Name | None = None
    model_plan: ModelPlan | None = None
    instructions: str = Field("", description="The instructions, or the path of an .md file of the workspace.")
    tools: tuple[ToolEntry, ...] = Field((), description="Names of tools, or `{mcp, match}`: tools of an MCP server.")
    skills: tuple[Name, ...] = ()
    subagents: tuple[SubagentEntry, ...] = Field((), description="Names of agents, or `{agent, tools}`.")
    memory: tuple[Name, ...] = ()
    hooks: tuple[Name, ...] = ()
    guardrails: AgentGuardrails = AgentGuardrails()
    gates: tuple[Gate, ...] = Field((), description="Evaluators that judge the output, each with its threshold.")
    evidence: tuple[Name, ...] = Field(
        (), description="Tools that must have returned a result before the run can complete."
    )
    context_policy: ContextPolicy = ContextPolicy()
    limits: Limits = Limits()
    max_turns: Annotated[int, Field(ge=1, le=1000)] = 20
    max_reworks: Annotated[int, Field(ge=0, le=20)] = 2
    concurrency: Count | None = None
    busy_policy: BusyPolicy | None = None
    partial_answers: Literal["drop", "keep"] = Field(
        "drop",
        description="Whether an answer cut off by a cancel or a failure stays in the messages of the thread, marked.",
    )
    parallel_tools: bool = True
    client_tools: bool = False
    parameters: Parameters = Parameters()
    client_parameters: bool = Field(
        True, description="Whether a request may set `parameters` and the reasoning effort."
    )
    reasoning: Reasoning = Reasoning()
    output_schema: JsonMap | None = None
    edges: tuple[Edge, ...] = ()
    routers: Mapping[Text, tuple[RouteRule, ...]] = Field(default_factory=dict)
    config: Mapping[str, JsonMap] = Field(
        default_factory=dict, description="Settings for each backend, passed on unchanged."
    )

    @model_validator(mode="after")
    def _one_way_to_a_model(self) -> Self:
        if self.model is not None and self.model_plan is not None:
            raise ValueError("give `model` or `modelPlan`, not both")
        return self

    @property
    def tool_names(self) -> tuple[str, ...]:
        return tuple(entry for entry in self.tools if isinstance(entry, str))

    @property
    def mcp_selections(self) -> tuple[McpSelection, ...]:
        return tuple(entry for entry in self.tools if isinstance(entry, McpSelection))

    @property
    def subagent_names(self) -> tuple[str, ...]:
        return tuple(entry if isinstance(entry, str) else entry.agent for entry in self.subagents)

    def passed_on(self, subagent: str) -> frozenset[str]:
        """The tools that a subagent may use though this agent has them not."""
        entries = (entry for entry in self.subagents if isinstance(entry, Subagent))
        return frozenset(tool for entry in entries if entry.agent == subagent for tool in entry.tools)

    @property
    def plan(self) -> ModelPlan | None:
        """`model` is the short form of a plan."""
        if self.model_plan is not None:
            return self.model_plan
        return ModelPlan(primary=self.model) if self.model is not None else None


class AgentDocument(Document):
    kind: Literal["Agent"]
    spec: AgentSpec

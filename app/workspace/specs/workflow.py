"""Workflow: a graph of agents, tools, skills, questions, timers and other workflows."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, model_validator

from app.workspace.specs.agent import AgentGuardrails, Edge, Gate, RouteRule
from app.workspace.specs.base import Cel, Document, JsonMap, KindName, Limits, Name, Seconds, Spec, Text
from app.workspace.specs.runtime import BusyPolicy

MAX_NODES: Final = 2_000
MAX_EDGES: Final = 10_000
MAX_VISITS: Final = 1_000
MAX_DEPTH: Final = 4
"""Of subworkflows: runs nest at most five levels deep, and the deepest workflow needs one for its agents."""
MAX_ITEMS: Final = 10_000
_YEAR: Final = 365 * 86_400

NodeId = Annotated[
    str,
    Field(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$", description="The step's name in this workflow."),
]


class NodeRetry(Spec):
    attempts: Annotated[int, Field(ge=1, le=10)] = 3
    backoff_seconds: Annotated[float, Field(ge=0, le=60)] = 0


class AskPerson(Spec):
    """A question to a person; the run waits for the answer without a worker."""

    kind: Literal["approval", "question"] = "approval"
    title: Annotated[str, Field(min_length=1, max_length=1000)]
    show: Any = None
    questions: tuple[JsonMap, ...] = Field((), max_length=20)
    approver: Annotated[str, Field(pattern=r"^(anyone|other|role:.+)$")] = "anyone"
    expires_seconds: Annotated[float, Field(gt=0, le=_YEAR)] | None = None

    @model_validator(mode="after")
    def _fits_kind(self) -> Self:
        if (self.kind == "question") != bool(self.questions):
            raise ValueError("`questions` belongs to `kind: question`, which needs it")
        if self.kind == "question" and "approver" in self.model_fields_set:
            raise ValueError("`approver` belongs to `kind: approval`")
        return self


class WaitTime(Spec):
    """A timer that survives restarts and takes no worker."""

    seconds: Annotated[float, Field(gt=0, le=_YEAR)]


class WorkflowNode(Spec):
    """One step: what `ref` names, a question (`ask`) or a timer (`wait`)."""

    id: NodeId
    ref: Annotated[str, Field(pattern=r"^(agents|tools|skills|workflows)\..+$")] | None = None
    ask: AskPerson | None = None
    wait: WaitTime | None = None
    agent: Name | None = None
    with_: JsonMap | None = Field(None, alias="with")
    foreach: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    concurrency: Annotated[int, Field(ge=1, le=64)] = 4
    max_items: Annotated[int, Field(ge=1, le=MAX_ITEMS)] = 1_000
    join: Literal["all", "any"] = "all"
    retry: NodeRetry | None = None
    timeout_seconds: Seconds | None = None

    @model_validator(mode="after")
    def _one_step(self) -> Self:
        if self.id in ("START", "END"):
            raise ValueError("START and END stand for the ends of the workflow; give the step another id")
        if sum(one is not None for one in (self.ref, self.ask, self.wait)) != 1:
            raise ValueError("give one of `ref`, `ask` and `wait`")
        if self.ref is None:
            given = self.model_fields_set & {"with_", "foreach", "concurrency", "max_items", "retry", "timeout_seconds"}
            if given:
                name = next(iter(sorted(given)))
                alias = type(self).model_fields[name].alias or name
                raise ValueError(f"`{alias}` belongs to a step with `ref`")
        if self.agent is not None and not (self.ref or "").startswith("skills."):
            raise ValueError("`agent` belongs to a step that refers to a skill")
        if self.foreach is None and self.model_fields_set & {"concurrency", "max_items"}:
            raise ValueError("`concurrency` and `maxItems` belong to a step with `foreach`")
        return self


class Cycles(Spec):
    max_visits: Annotated[int, Field(ge=2, le=MAX_VISITS)]


class Subworkflows(Spec):
    max_depth: Annotated[int, Field(ge=1, le=MAX_DEPTH)] = 3


SchemaName = Annotated[str, Field(min_length=1, max_length=500)]
"""The id of a published schema, or the path of a JSON file of the workspace."""
ArtifactName = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^/\x00-\x1f][^\x00-\x1f]*$")]


class SpecArtifact(Spec):
    """What a phase delivers: a name, and what it must be."""

    name: ArtifactName
    schema_: JsonMap | SchemaName | None = Field(None, alias="schema")


class PhaseVerification(Spec):
    """How the artifact of a phase is checked; all that is given must hold."""

    schema_: JsonMap | SchemaName | None = Field(None, alias="schema")
    rule: Cel | None = None
    evaluator: Name | None = None
    min_score: Annotated[float, Field(ge=0, le=1)] = 1.0
    agent: Name | None = None

    @model_validator(mode="after")
    def _says_how(self) -> Self:
        if not self.model_fields_set - {"min_score"}:
            raise ValueError("give `schema`, `rule`, `evaluator` or `agent`")
        if self.evaluator is None and "min_score" in self.model_fields_set:
            raise ValueError("`minScore` belongs to `evaluator`")
        return self


class SpecPhase(Spec):
    """One phase of spec-driven work: what it needs, who does it, what it delivers and how that is verified."""

    id: NodeId
    ref: Annotated[str, Field(pattern=r"^(agents|skills|workflows)\..+$")]
    requires: tuple[ArtifactName, ...] = Field((), max_length=20)
    artifact: SpecArtifact | None = None
    verify: PhaseVerification | None = None

    @model_validator(mode="after")
    def _verifies_something(self) -> Self:
        if self.verify is not None and self.artifact is None:
            raise ValueError("`verify` needs an `artifact`")
        return self


_OF_STEPS: Final = ("edges", "routers", "cycles", "subworkflows", "result", "output")


class WorkflowSpec(Spec):
    adapter: KindName = "native"
    cycle: Name | None = Field(None, description="A cycle in workflows/cycles, instead of nodes.")
    nodes: tuple[WorkflowNode, ...] = Field((), max_length=MAX_NODES)
    phases: tuple[SpecPhase, ...] = Field((), max_length=100, description="Spec-driven work, instead of nodes.")
    edges: tuple[Edge, ...] = Field((), max_length=MAX_EDGES)
    routers: Mapping[Text, tuple[RouteRule, ...]] = Field(default_factory=dict)
    cycles: Cycles | None = None
    subworkflows: Subworkflows | None = None
    result: str | JsonMap | None = None
    input: JsonMap | None = None
    output: JsonMap | None = None
    hooks: tuple[Name, ...] = ()
    guardrails: AgentGuardrails = AgentGuardrails()
    gates: tuple[Gate, ...] = ()
    evidence: tuple[Name, ...] = ()
    limits: Limits = Limits()
    busy_policy: BusyPolicy | None = None
    config: JsonMap = Field(default_factory=dict)

    @model_validator(mode="after")
    def _has_steps(self) -> Self:
        if sum((bool(self.nodes), bool(self.phases), self.cycle is not None)) != 1:
            raise ValueError("give one of `nodes`, `phases` and `cycle`")
        if self.phases and (self.edges or self.routers or self.cycles):
            raise ValueError("`edges`, `routers` and `cycles` belong to `nodes`; phases follow each other")
        ignored = [name for name in _OF_STEPS if name in self.model_fields_set]
        if self.cycle is not None and ignored:
            raise ValueError(
                f"`{ignored[0]}` belongs to `nodes` or `phases`; the file of the cycle says it for `cycle`"
            )
        return self


class WorkflowDocument(Document):
    kind: Literal["Workflow"]
    spec: WorkflowSpec

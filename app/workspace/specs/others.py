"""Memory, Hook, Guardrail, Evaluator, Schedule and Webhook: checked here, given meaning by their rooms."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from app.workspace.specs.base import (
    Cel,
    Document,
    Entry,
    EnvText,
    HookPoint,
    JsonMap,
    KindName,
    Name,
    Seconds,
    Secret,
    Spec,
    Text,
)


class Recall(Spec):
    top_k: Annotated[int, Field(ge=1, le=1000)] = 8
    min_score: Annotated[float, Field(ge=0, le=1)] = 0.0
    max_tokens: Annotated[int, Field(ge=1, le=100_000)] = 1000


class CandidateRule(Spec):
    when: Cel
    then: Literal["accept", "reject", "merge", "ask"]


class MemorySpec(Spec):
    kind: KindName = "store"
    type: Literal["working", "episodic", "semantic"] = "semantic"
    namespace: Text | None = None
    read: tuple[Literal["beforePlan", "beforeFinalize"], ...] = ("beforePlan",)
    write: Literal["off", "candidates", "auto"] = "candidates"
    policy: tuple[CandidateRule, ...] = Field((), max_length=100)
    recall: Recall = Recall()
    embedding: Name | None = None
    retention_days: Annotated[int, Field(ge=0, le=36_500)] | None = None
    config: JsonMap = Field(default_factory=dict)


class HookMatch(Spec):
    tools: tuple[Text, ...] = ()
    agents: tuple[Name, ...] = ()


class HookSpec(Spec):
    on: tuple[HookPoint, ...] = Field(min_length=1)
    kind: Literal["python", "command", "builtin"]
    entry: Entry | None = None
    command: tuple[Text, ...] = ()
    env: Mapping[str, EnvText] = Field(default_factory=dict)
    priority: Annotated[int, Field(ge=0, le=1000)] = 100
    timeout_seconds: Seconds = 5
    match: HookMatch = HookMatch()
    config: JsonMap = Field(default_factory=dict)

    @model_validator(mode="after")
    def _handler_fits_kind(self) -> Self:
        if (self.kind == "command") != bool(self.command):
            raise ValueError("`command` belongs to hooks of kind command, and they need it")
        if self.kind == "command" and self.entry is not None:
            raise ValueError("`entry` belongs to hooks of kind python or builtin")
        if self.kind != "command" and self.env:
            raise ValueError("`env` belongs to hooks of kind command")
        if self.kind != "command" and self.entry is None:
            raise ValueError(f"a hook of kind {self.kind} needs `entry`")
        return self


class GuardrailSpec(Spec):
    """One rule about content. Agents list it at the stages where it is asked."""

    kind: KindName
    action: Literal["block", "redact", "ask", "flag"] = "block"
    entry: Entry | None = None
    model: Name | None = None
    message: Annotated[Text, Field(max_length=1000)] | None = None
    reply: Annotated[Text, Field(max_length=10_000)] | None = None
    timeout_seconds: Annotated[float, Field(gt=0, le=300)] = 5
    config: JsonMap = Field(default_factory=dict)

    @model_validator(mode="after")
    def _reply_fits_action(self) -> Self:
        if self.reply is not None and self.action not in ("block", "ask"):
            raise ValueError("`reply` belongs to the actions block and ask: the others let the run go on")
        return self


class EvaluatorSpec(Spec):
    """Gives a run a score from 0 to 1. What score is enough, and what follows, is said where it is used: by a gate."""

    kind: KindName
    entry: Entry | None = None
    model: Name | None = None
    timeout_seconds: Seconds = 30
    config: JsonMap = Field(default_factory=dict)


class ScheduleTarget(Spec):
    agent: Name | None = None
    workflow: Name | None = None
    tool: Name | None = None
    input: JsonMap | str = ""
    priority: Literal["interactive", "background"] = "background"
    attempts: Annotated[int, Field(ge=1, le=20)] = 1
    timeout_seconds: Seconds | None = None

    @model_validator(mode="after")
    def _one_target(self) -> Self:
        if sum(target is not None for target in (self.agent, self.workflow, self.tool)) != 1:
            raise ValueError("a schedule runs one of agent, workflow or tool")
        if self.tool is not None and isinstance(self.input, str):
            raise ValueError("the `input` of a tool is an object that holds its arguments")
        return self


class ScheduleSpec(Spec):
    cron: Text | None = Field(None, description="Five cron fields: minute hour day month weekday.")
    every_seconds: Annotated[float, Field(ge=1, le=366 * 86_400)] | None = None
    at: Text | None = Field(None, description="One time, in ISO 8601 with an offset.")
    timezone: Text = "UTC"
    tenant: Text = "default"
    run: ScheduleTarget
    enabled: bool = True
    missed: Literal["skip", "once", "all"] = "once"
    overlap: Literal["skip", "queue", "cancel"] = "skip"

    @model_validator(mode="after")
    def _one_time(self) -> Self:
        if sum(given is not None for given in (self.cron, self.every_seconds, self.at)) != 1:
            raise ValueError("give one of `cron`, `everySeconds` and `at`")
        return self


class WebhookSpec(Spec):
    url: Text
    events: tuple[Text, ...] = Field(min_length=1, max_length=50)
    secret: Secret
    tenant: Text = "default"
    agents: tuple[Name, ...] = ()
    labels: Mapping[str, str] = Field(default_factory=dict)
    enabled: bool = True


class MemoryDocument(Document):
    kind: Literal["Memory"]
    spec: MemorySpec


class HookDocument(Document):
    kind: Literal["Hook"]
    spec: HookSpec


class GuardrailDocument(Document):
    kind: Literal["Guardrail"]
    spec: GuardrailSpec


class EvaluatorDocument(Document):
    kind: Literal["Evaluator"]
    spec: EvaluatorSpec


class ScheduleDocument(Document):
    kind: Literal["Schedule"]
    spec: ScheduleSpec


class WebhookDocument(Document):
    kind: Literal["Webhook"]
    spec: WebhookSpec

"""Runtime and Profile: how the whole workspace runs, and which models it runs with."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, create_model, model_validator

from app.workspace.specs.base import (
    Count,
    Document,
    EnvName,
    KindName,
    Limits,
    Money,
    Name,
    Seconds,
    Spec,
    Text,
)
from app.workspace.specs.model import ModelSpec

BusyPolicy = Literal["enqueue", "reject", "interrupt", "rollback"]
Days = Annotated[int, Field(ge=0, le=36_500)]


class Route(Spec):
    """What a `routeId` leads to: one of the two."""

    agent: Name | None = None
    workflow: Name | None = None

    @model_validator(mode="after")
    def _one_target(self) -> Self:
        if (self.agent is None) == (self.workflow is None):
            raise ValueError("a route names either an agent or a workflow")
        return self


class Concurrency(Spec):
    runs: Annotated[int, Field(ge=1, le=10_000)] | None = None
    per_agent: Count | None = None
    per_tenant: Count | None = None
    queue_per_thread: Count = 100


class TenantBudget(Spec):
    tokens_per_day: Count | None = None
    cost_usd_per_day: Money | None = None
    runs_per_minute: Count | None = None


class Budgets(Spec):
    run: Limits = Limits()
    tenant: TenantBudget = TenantBudget()


class Retention(Spec):
    deleted_days: Days = 30
    threads_days: Days | None = None


class Redaction(Spec):
    """What is replaced before anything is recorded; secrets always are."""

    kinds: tuple[KindName, ...] = ("secret",)
    reasoning: Literal["none", "metadata", "full"] = "metadata"
    trace_fields: tuple[Text, ...] = ()


class Narration(Spec):
    enabled: bool = False
    style: Literal["brief", "detailed"] = "brief"
    provider: KindName = "template"


class Progress(Spec):
    narration: Narration = Narration()


class CliEvents(Spec):
    include: tuple[Text, ...] = ("runtime.progress.narration",)


class Cli(Spec):
    events: CliEvents = CliEvents()


class Trust(Spec):
    extensions: Literal["disabled", "warn", "enforced"] = "warn"
    publishers: tuple[Text, ...] = ()


class Outgoing(Spec):
    """Hosts that tools may call; `private` lifts the refusal of private addresses for hosts by name (S11)."""

    hosts: tuple[Text, ...] = ()
    private: tuple[Text, ...] = ()


class Interrupts(Spec):
    expires_seconds: Annotated[float, Field(gt=0, le=365 * 86_400)] = 86_400


class RuntimeSpec(Spec):
    default_agent: Name | None = None
    default_workflow: Name | None = None
    routes: Mapping[Name, Route] = Field(default_factory=dict)
    env: tuple[EnvName, ...] = Field((), description="environment variables that documents may refer to")
    concurrency: Concurrency = Concurrency()
    busy_policy: BusyPolicy = "enqueue"
    budgets: Budgets = Budgets()
    retention: Retention = Retention()
    redaction: Redaction = Redaction()
    progress: Progress = Progress()
    cli: Cli = Cli()
    hooks: tuple[Name, ...] = ()
    trust: Trust = Trust()
    outgoing: Outgoing = Outgoing()
    interrupts: Interrupts = Interrupts()
    sandbox: Literal["available", "required"] = Field(
        "available", description="required: programs are not run on a machine that lacks a part of the sandbox"
    )
    drain_seconds: Seconds = 30


class RuntimeDocument(Document):
    kind: Literal["Runtime"]
    spec: RuntimeSpec


def _optional_fields() -> dict[str, Any]:
    return {
        name: (info.annotation | None, Field(default=None, description=info.description))  # type: ignore[operator]  # every annotation is a type
        for name, info in ModelSpec.model_fields.items()
    }


# Each field given replaces the model's whole field; null puts it back to its default.
ModelOverride = create_model("ModelOverride", __base__=Spec, **_optional_fields())


class ProfileSpec(Spec):
    models: Mapping[Name, ModelOverride] = Field(min_length=1)


class ProfileDocument(Document):
    kind: Literal["Profile"]
    spec: ProfileSpec

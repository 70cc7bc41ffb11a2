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
    """How many runs work at once. The server's settings are ceilings: of both values the smaller counts."""

    runs: Annotated[int, Field(ge=1, le=10_000)] | None = Field(
        None, description="runs that work at once; at most HOLDFAST_MAX_CONCURRENT_RUNS"
    )
    per_agent: Count | None = Field(None, description="runs of one agent; an agent's own `concurrency` may be smaller")
    per_tenant: Count | None = Field(
        None, description="runs of one tenant; at most HOLDFAST_MAX_CONCURRENT_RUNS_PER_TENANT"
    )
    queue_per_thread: Count | None = Field(
        None, description="active and waiting runs of one thread; at most HOLDFAST_MAX_QUEUED_RUNS_PER_THREAD"
    )


class TenantBudget(Spec):
    """What the runs of one tenant may use."""

    tokens_per_day: Count | None = None
    cost_usd_per_day: Money | None = None
    runs_per_minute: Count | None = Field(
        None,
        description="new runs; more are answered 429 with Retry-After; at most HOLDFAST_MAX_RUNS_PER_MINUTE_PER_TENANT",
    )


class Budgets(Spec):
    run: Limits = Limits()
    tenant: TenantBudget = TenantBudget()


class Retention(Spec):
    """When data goes for good. The server's settings are ceilings: of both values the smaller counts."""

    deleted_days: Days | None = Field(
        None, description="days until a deleted thread or file is purged; at most HOLDFAST_RETENTION_DELETED_DAYS"
    )
    threads_days: Annotated[int, Field(ge=1, le=36_500)] | None = Field(
        None, description="days without an event until a thread is deleted; at most HOLDFAST_RETENTION_THREADS_DAYS"
    )
    delta_days: Annotated[int, Field(ge=1, le=36_500)] | None = Field(
        None,
        description="days after a run's end until the deltas of its completed messages are dropped; at most "
        "HOLDFAST_RETENTION_DELTA_DAYS",
    )


class Redaction(Spec):
    """What is replaced before anything is recorded; secrets always are."""

    kinds: tuple[KindName, ...] = ("secret",)
    pii: Literal["none", "prompts", "traces", "both"] = "none"
    reasoning: Literal["none", "metadata", "full"] = "metadata"
    trace_fields: tuple[Text, ...] = Field(
        (), description="fields of event payloads that are added to traces; without it a trace has no content"
    )

    @property
    def in_prompts(self) -> bool:
        """Whether personal data is taken out of what models are sent."""
        return self.pii in ("prompts", "both")

    @property
    def in_traces(self) -> bool:
        """Whether personal data is taken out of what traces and sinks get."""
        return self.pii in ("traces", "both")


class Narration(Spec):
    enabled: bool = False
    style: Literal["brief", "concise", "detailed"] = "brief"
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
    digests: tuple[Annotated[str, Field(pattern="^[0-9a-f]{64}$")], ...] = Field(
        (), description="extensions that run in the server instead of the sandbox, by the digest of their files"
    )


class Outgoing(Spec):
    """Where tools and MCP servers may be reached. An entry is `host`, `host:port` or `*.example.org`."""

    hosts: tuple[Text, ...] = Field((), description="the only hosts that tools may call; without it any public one")
    private: tuple[Text, ...] = Field(
        (), description="hosts that may have a private address, such as an internal server; all others are refused"
    )
    webhooks: tuple[Text, ...] = Field((), description="the only hosts that webhooks may be sent to; without it none")


Names = tuple[Annotated[Text, Field(max_length=64, pattern=r"^[A-Za-z0-9_.*?-]+$")], ...]


class McpExposure(Spec):
    """What clients of `/mcp` may call as tools. An entry is a name, or a pattern such as `git_*`."""

    agents: Names = Field(("*",), description="Agents that are offered. Default: all.")
    workflows: Names = Field(("*",), description="Workflows that are offered. Default: all.")
    tools: Names = Field((), description="Tools that are offered without an agent. Default: none.")


class Interrupts(Spec):
    expires_seconds: Annotated[float, Field(gt=0, le=365 * 86_400)] = 86_400


class TelemetrySink(Spec):
    kind: KindName
    config: Mapping[str, Any] = Field(default_factory=dict)


class Telemetry(Spec):
    sinks: tuple[TelemetrySink, ...] = Field((), max_length=8)


class RuntimeSpec(Spec):
    default_agent: Name | None = Field(
        None, description="the agent that answers when a request names none; not needed where there is only one"
    )
    default_workflow: Name | None = None
    routes: Mapping[Name, Route] = Field(default_factory=dict)
    env: tuple[EnvName, ...] = Field((), description="Environment variables that documents may refer to.")
    concurrency: Concurrency = Concurrency()
    busy_policy: BusyPolicy = "enqueue"
    budgets: Budgets = Budgets()
    retention: Retention = Retention()
    redaction: Redaction = Redaction()
    progress: Progress = Progress()
    telemetry: Telemetry = Field(Telemetry(), description="Where events are sent for monitoring, besides the log.")
    cli: Cli = Cli()
    hooks: tuple[Name, ...] = ()
    trust: Trust = Trust()
    outgoing: Outgoing = Outgoing()
    interrupts: Interrupts = Interrupts()
    mcp: McpExposure = Field(McpExposure(), description="What the MCP server at `/mcp` offers.")
    sandbox: Literal["available", "required"] = Field(
        "available", description="`required`: programs are not run on a machine that lacks a part of the sandbox."
    )
    drain_seconds: Seconds | None = Field(
        None, description="seconds that running runs have to end when the server stops; at most HOLDFAST_DRAIN_SECONDS"
    )
    strict: bool = Field(
        False, description="Whether a tool with an input schema but without an output schema is an error."
    )


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

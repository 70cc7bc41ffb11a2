"""What our own HTTP answers, as the OpenAPI document shows it. Routes write their bytes themselves.

Answers are made from views and stored bytes, not from these models: they only say what clients may rely on, and the
tests hold every answer against them. Leaves to others: requests (each route's own model).
"""

from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

T = TypeVar("T")


class Shape(BaseModel):
    """Closed: a field that is not documented is a mistake of ours."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", defer_build=True)


class Page(Shape, Generic[T]):
    items: list[T]
    next_cursor: str | None = Field(description="send it back as `after`; null: there is no more")


class Where(Shape):
    path: str
    message: str


class Wrong(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="allow", defer_build=True)

    code: str = Field(description="stable; every code has its entry in docs/errors.md")
    message: str
    remedy: str
    issues: list[Where] | None = None


class ProblemShape(Shape):
    """Every answer of 400 and above."""

    error: Wrong


class OpenAiWrong(BaseModel):
    model_config = ConfigDict(defer_build=True)

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAiProblem(Shape):
    """What OpenAI's clients read."""

    error: OpenAiWrong


class RunError(Shape):
    code: str
    message: str
    retryable: bool
    causes: list["RunError"] | None = None


class RunUsage(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, defer_build=True)

    input_tokens: int
    output_tokens: int
    cost_usd: float


RunStatus = Literal["queued", "running", "waiting", "completed", "failed", "cancelled"]


class RunShape(Shape):
    id: str
    thread_id: str
    agent: str | None
    tool: str | None
    workflow: str | None
    status: RunStatus
    input: Any
    output: Any
    output_parts: list[dict[str, Any]] | None
    error: RunError | None
    parent_run_id: str | None
    rerun_of: str | None
    metadata: dict[str, Any]
    labels: dict[str, str]
    usage: RunUsage
    waiting_on: list[str]
    cancel_requested_at: str | None
    last_seq: int
    workspace_digest: str | None
    created_at: str
    started_at: str | None
    finished_at: str | None


class RunPage(Page[RunShape]):
    pass


class EventShape(Shape):
    id: str
    thread_id: str
    run_id: str | None
    seq: int
    run_seq: int | None
    type: str
    actor: str
    at: str
    payload: dict[str, Any]
    parent_id: str | None
    prev_hash: str
    hash: str


class StreamEnd(Shape):
    """The data of `event: end`: nothing follows."""

    seq: int
    type: str | None = None
    run_id: str | None = None
    thread_id: str | None = None


class StreamProblem(Shape):
    """The data of `event: problem`: the stream stops here; connect again with the last `seq`."""

    code: str
    message: str
    remedy: str
    last_seq: int | None = None


class EventPage(Page[EventShape]):
    pass


class ForkedFrom(Shape):
    thread_id: str
    seq: int
    hash: str


class ThreadShape(Shape):
    id: str
    title: str | None
    status: Literal["idle", "busy", "waiting", "closed"]
    archived: bool
    metadata: dict[str, Any]
    labels: dict[str, str]
    forked_from: ForkedFrom | None
    last_seq: int
    created_at: str
    updated_at: str


class ThreadPage(Page[ThreadShape]):
    pass


class InterruptShape(Shape):
    id: str
    thread_id: str
    run_id: str | None
    kind: Literal["approval", "question", "external", "recovery", "paused", "timer"]
    status: Literal["open", "resolved", "expired"]
    title: str
    tool: str | None
    call_id: str | None
    arguments: Any
    argument_hash: str | None
    approver: str | None
    questions: list[dict[str, Any]] | None
    expires_at: str
    answer: dict[str, Any] | None
    answered_by: str | None
    created_at: str


class InterruptPage(Page[InterruptShape]):
    pass


class ArtifactShape(BaseModel):
    """What the maker said about it, and where it was made."""

    model_config = ConfigDict(alias_generator=to_camel, extra="allow", defer_build=True)

    id: str
    name: str
    thread_id: str
    run_id: str | None
    created_at: str


class ArtifactPage(Page[ArtifactShape]):
    pass


class TraceItem(Shape):
    category: str
    name: str
    subject: str
    status: str
    run_id: str | None
    seq: int
    at: str
    end_seq: int | None = None
    end_at: str | None = None


class TracePage(Page[TraceItem]):
    pass


class JournalItem(Shape):
    event_id: str
    run_id: str | None
    seq: int
    at: str
    actor: str
    kind: str
    type: str
    payload: dict[str, Any]
    hash: str
    link: str


class JournalPage(Page[JournalItem]):
    pass


class MissingFact(Shape):
    type: str | None
    subject: str | None
    reason: str


class AuditShape(Shape):
    complete: bool
    missing: list[MissingFact]
    counts: dict[str, int]
    absent: list[str]


class Token(Shape):
    token: str


class ModelUsage(Shape):
    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float


class TotalUsage(ModelUsage):
    tool_calls: int


class UsageShape(Shape):
    total: TotalUsage
    by_model: dict[str, ModelUsage]


class ToolUse(Shape):
    call_id: str
    tool: str
    arguments: Any


class PolicyDecisionShape(Shape):
    policy_id: str
    decision: Literal["allow", "deny", "advisory"]
    reason: str
    phase_id: str | None = None


class WorkflowProgressShape(Shape):
    workflow_id: str
    cycle_id: str | None
    mode: str | None
    phase: str | None
    verdict: str | None
    reason: str | None
    generation: int
    visited_phases: list[str]
    gates: list[PolicyDecisionShape]


class Snapshot(Shape):
    thread: ThreadShape
    runs: list[RunShape]
    up_to_seq: int
    closed: bool
    output: Any
    roles: dict[str, str]
    tools_invoked: list[ToolUse]
    phases: list[str]
    verdict: str | None
    workflow: WorkflowProgressShape | None
    messages_in_flight: list[str]
    open_interrupts: list[str]
    usage: TotalUsage


class EntryShape(Shape):
    message_id: str
    turn_id: str
    role: Literal["user", "assistant", "system"]
    type: str
    content: Any
    status: Literal["streaming", "complete", "canceled", "error"]
    details: str | None
    started_at: int | None
    completed_at: int | None


class EntryPage(Page[EntryShape]):
    pass


class MessageShape(BaseModel):
    """As a model gets it: `completion_request_v1`."""

    model_config = ConfigDict(extra="allow", defer_build=True)

    role: Literal["system", "user", "assistant", "tool"]


class MessagePage(Page[MessageShape]):
    pass


class File(Shape):
    id: str
    name: str
    mime: str
    size: int
    sha256: str
    created_by: str
    created_at: str


class FilePage(Page[File]):
    pass


class ToolShape(Shape):
    name: str
    description: str
    kind: str
    effect: str
    labels: dict[str, str]
    input: dict[str, Any] | None = Field(description="JSON Schema of the arguments; null: its server describes it")
    output: dict[str, Any] | None


class ToolPage(Page[ToolShape]):
    pass


class Agent(Shape):
    name: str
    description: str
    labels: dict[str, str]
    backend: str
    available: bool
    tools: list[str]
    skills: list[str]
    subagents: list[str]


class AgentPage(Page[Agent]):
    pass


class WorkflowShape(Shape):
    name: str
    description: str
    labels: dict[str, str]
    adapter: str
    available: bool
    nodes: int
    input: dict[str, Any] | None
    output: dict[str, Any] | None
    max_visits: int


class WorkflowPage(Page[WorkflowShape]):
    pass


class WorkflowGraph(Shape):
    workflow: str
    adapter: str
    nodes: list[dict[str, Any]]
    edges: list[dict[str, Any]]
    run_id: str | None = None
    status: str | None = None
    order: list[str] | None = None
    """Of a run: the visits that have ended, such as `plan.1`, in order."""


class WorkflowPlan(Shape):
    workflow: str
    adapter: str
    available: bool
    input: dict[str, Any]
    begins: list[str]
    steps: list[dict[str, Any]]
    max_visits: int
    limits: dict[str, Any]
    asks_people: list[str]
    unsafe: list[str]


class Workspace(Shape):
    digest: str | None
    profile: str | None
    loaded_at: str | None
    default_agent: str | None
    agents: list[str]
    models: list[str]
    tools: list[str]
    skills: list[str]
    cli: dict[str, Any]
    diagnostics: list[dict[str, Any]]
    rejected: list[dict[str, Any]] | None
    rejected_at: str | None


class HealthShape(Shape):
    status: Literal["ok"]


class Sandbox(Shape):
    level: Literal["full", "partial", "none"]
    missing: list[str] = Field(description="what programs are not kept from; docs/security.md explains each")


class BusShape(Shape):
    kind: str = Field(description="`postgres`, `nats`, `local` or one of an installed package")
    connected: bool = Field(description="false: servers poll the database for what is new")
    peers: int = Field(description="other servers on the same database that were heard lately")


class Readiness(Shape):
    status: Literal["ready", "not ready"]
    code: str | None = None
    sandbox: Sandbox | None = Field(None, description="of tools and hooks that are programs; null: not known yet")


class UiEventShape(BaseModel):
    """An event of the Lime standard; ids of its scope and references are present where they are known."""

    model_config = ConfigDict(alias_generator=to_camel, extra="allow", defer_build=True)

    id: str
    schema_version: str
    runtime_id: str
    sequence: int = Field(description="the thread's `seq`, or of a run its `runSeq`")
    event_class: str
    kind: str
    status: str
    title: str
    created_at: str
    payload: dict[str, Any] | None = None


class UiEventPage(Page[UiEventShape]):
    pass


class UiState(BaseModel):
    """The projection of UI events; each member is a part that can be read alone."""

    model_config = ConfigDict(alias_generator=to_camel, extra="allow", defer_build=True)

    runtime: dict[str, Any]
    messages: list[dict[str, Any]]
    timeline: list[dict[str, Any]]
    graph: list[dict[str, Any]]
    actions: list[dict[str, Any]]
    hydration: dict[str, Any]


class UiLane(Shape):
    lane: str
    value: Any
    latest_sequence: int | None = None


class UiIssueShape(Shape):
    code: Literal["schema_mismatch", "missing_scope_id", "sequence_gap", "secret_leak_risk", "large_payload_inline"]
    path: str
    message: str


class UiViolationShape(Shape):
    code: str
    event_id: str
    message: str
    scope_id: str | None = None
    turn_id: str | None = None


class UiValidation(Shape):
    valid: bool
    issues: list[UiIssueShape]
    violations: list[UiViolationShape] = Field(description="starts and ends that do not fit together")


class UiCapability(Shape):
    id: str
    status: str
    scope: str
    title: str


class UiCapabilities(Shape):
    schema_version: str
    runtime_id: str
    generated_at: str
    capabilities: list[UiCapability]

    bus: BusShape | None = Field(None, description="between servers on the same Postgres")

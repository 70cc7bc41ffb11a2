"""What is computed from the events of runs: artifacts, trace, journal, audit, usage, snapshots."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from app.protocols.http.shapes.base import Page, Shape
from app.protocols.http.shapes.runs import RunShape
from app.protocols.http.shapes.threads import ThreadShape


class StatsPoint(Shape):
    at: str = Field(description="the beginning of the interval")
    runs: int
    completed: int
    failed: int
    cancelled: int
    input_tokens: int
    output_tokens: int
    cost_usd: float


class StatsSeries(Shape):
    begins: str = Field(alias="from")
    until: str
    step_seconds: float
    usage_since: str = Field(description="tokens and cost are those of runs from here on")
    points: list[StatsPoint]
    queued: int
    running: int
    waiting: int
    open_interrupts: int


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
    created_at: str


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

"""Decisions about a run: hooks, guardrails, gates, schemas."""

from typing import Any, Literal

from app.events.catalog.base import EventModel, event
from app.events.catalog.values import IssueValue


@event("runtime.hook.fired", draft=True)
class HookFired(EventModel):
    """What one handler decided. The handlers of one firing are recorded together, under one `key`."""

    hook: str
    handler: str
    decision: Literal["allow", "deny", "transform"]
    reason: str | None = None
    output: dict[str, Any] | None = None
    """What a transform put in place; re-entry takes it from here instead of asking again."""
    key: str | None = None
    """Which firing of the run this belongs to, such as `PreToolUse:call_1`."""
    subject_hash: str | None = None
    """What was asked about: a recorded decision holds for that and nothing else."""
    call_id: str | None = None
    duration_ms: int | None = None


@event("runtime.guardrail.triggered", draft=True)
class GuardrailTriggered(EventModel):
    guardrail: str
    stage: Literal["input", "output"]
    action: str
    reason: str | None = None
    matches: list[dict[str, Any]] | None = None


@event("runtime.gate.evaluated", draft=True)
class GateEvaluated(EventModel):
    gate: str
    mode: Literal["shadow", "blocking"]
    score: float
    min_score: float
    passed: bool


@event("runtime.schema.violated")
class SchemaViolated(EventModel):
    """A boundary payload was refused. Names the places, never the values."""

    schema_name: str
    boundary: str
    code: str
    issues: list[IssueValue]
    call_id: str | None = None

"""Decisions about a run: hooks, guardrails, gates, schemas."""

from typing import Any, Literal

from app.events.catalog.base import Payload, event
from app.events.catalog.values import IssueValue


@event("runtime.hook.fired", draft=True)
class HookFired(Payload):
    hook: str
    handler: str
    decision: Literal["allow", "deny", "transform"]
    reason: str | None = None
    call_id: str | None = None
    duration_ms: int | None = None


@event("runtime.guardrail.triggered", draft=True)
class GuardrailTriggered(Payload):
    guardrail: str
    stage: Literal["input", "output"]
    action: str
    reason: str | None = None
    matches: list[dict[str, Any]] | None = None


@event("runtime.gate.evaluated", draft=True)
class GateEvaluated(Payload):
    gate: str
    mode: Literal["shadow", "blocking"]
    score: float
    min_score: float
    passed: bool


@event("runtime.schema.violated")
class SchemaViolated(Payload):
    """A boundary payload was refused. Names the places, never the values."""

    schema_name: str
    boundary: str
    code: str
    issues: list[IssueValue]
    call_id: str | None = None

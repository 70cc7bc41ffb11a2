"""Decisions about a run: hooks, guardrails, gates, schemas."""

from typing import Any, Literal

from app.events.catalog.base import EventModel, Value, event
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


class FoundAt(Value):
    """Where a guardrail found something: the JSON pointer of a text, and characters in it. Never the text."""

    path: str
    start: int
    end: int
    label: str


@event("runtime.guardrail.triggered")
class GuardrailTriggered(EventModel):
    """A rule applied, or could not be asked, which blocks whatever its action. Names places, never the content."""

    guardrail: str
    stage: Literal["input", "output", "toolArguments", "toolResults"]
    action: Literal["block", "redact", "ask", "flag"]
    blocked: bool = False
    """Whether this verdict ends the run."""
    reason: str | None = None
    error: str | None = None
    """Why the rule could not be asked."""
    positions: list[FoundAt] | None = None
    """The first ones; `count` says how many there are."""
    count: int | None = None
    key: str | None = None
    """What was looked at: a verdict of the same rule with the same key is recorded once."""
    call_id: str | None = None
    message_id: str | None = None


@event("runtime.gate.evaluated")
class GateEvaluated(EventModel):
    """A gate's verdict. Of a blocking gate it is an event of the run; of a shadow gate one of its thread that names it.

    Without a `score` the gate could not judge, `error` says why, and the output did not pass.
    """

    gate: str
    mode: Literal["shadow", "blocking"]
    score: float | None = None
    min_score: float
    passed: bool
    error: str | None = None
    reason: str | None = None
    run_id: str | None = None
    """The run that was judged, where the event itself belongs to none."""
    definition: str | None = None
    """A digest of the evaluator and the threshold: another one is another gate."""
    attempt: int | None = None
    """Which answer of the run was judged; a retry and a fallback give another one."""
    subject_hash: str | None = None
    """Of the judged output: the verdict holds for that and nothing else."""
    node: str | None = None
    """The phase of spec-driven work whose artifact was judged, instead of the answer of the run."""
    judgements: list[dict[str, Any]] | None = None
    """The answers of a judging model: model, seed, score, reason and usage of each."""
    duration_ms: int | None = None


@event("runtime.feedback.recorded", of_thread=True)
class FeedbackRecorded(EventModel):
    """What somebody thinks of a run, after or while it runs; an event of its thread that names the run."""

    run_id: str
    score: float
    label: str | None = None
    comment: str | None = None


@event("runtime.schema.violated")
class SchemaViolated(EventModel):
    """A boundary payload was refused. Names the places, never the values."""

    schema_name: str
    boundary: str
    code: str
    issues: list[IssueValue]
    call_id: str | None = None

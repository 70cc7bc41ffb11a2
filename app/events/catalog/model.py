"""Model calls: what was agreed, asked, answered, and what went wrong on the way."""

from typing import Any, Final, Literal

from app.events.catalog.base import EventModel, Value, event
from app.events.catalog.values import ErrorValue, ToolCallValue, Usage

DRAFT: Final = "draft"
"""The role of what a model says while a blocking gate has not decided about the answer."""
JUDGE: Final = "judge"
"""The role of a call that an evaluator makes to judge a run."""
GUARDRAIL: Final = "guardrail"
"""The role of a call that a guardrail makes to judge a content."""
ASIDES: Final = frozenset({"summary", "repair", JUDGE, DRAFT, GUARDRAIL})
"""Roles of calls outside the conversation: no client sees their answers."""


class Candidate(Value):
    """A model that was considered, and what it lacks; nothing lacking means chosen."""

    model: str
    lacks: list[str]


@event("runtime.model.negotiated")
class ModelNegotiated(EventModel):
    """`model` is absent when nobody qualified."""

    required: list[str]
    candidates: list[Candidate]
    model: str | None = None
    provider: str | None = None
    notes: list[str] | None = None


@event("runtime.model.requested")
class ModelRequested(EventModel):
    message_id: str
    model: str
    provider: str
    provider_model: str
    attempt: int
    request_hash: str
    role: str | None = None
    """Who speaks, where an agent has several voices."""
    parameters: dict[str, Any]
    messages: list[dict[str, Any]] | None = None
    message_count: int | None = None
    tools: list[str] | None = None
    notes: list[str] | None = None


@event("runtime.model.completed")
class ModelCompleted(EventModel):
    """A finished message. Its `text` replaces what the deltas said."""

    message_id: str
    model: str
    provider: str
    text: str
    tool_calls: list[ToolCallValue]
    finish_reason: Literal["stop", "tool_use", "max_tokens", "safety"]
    usage: Usage
    request_hash: str | None = None
    tools_hash: str | None = None
    """Of the tools of MCP servers that were offered, where there were any: what they offer may change meanwhile."""
    messages_hash: str | None = None
    """Of the request without its tools, where some are of MCP servers: what re-entry finds the answer by."""
    role: str | None = None
    repairs: str | None = None
    """The tool call that this one was asked to mend; it is no part of the conversation."""
    aside: str | None = None
    """The question of an evaluator that this answers; it is no part of the conversation."""
    parts: list[dict[str, Any]] | None = None
    thoughts: list[dict[str, Any]] | None = None
    """Signed reasoning that the provider wants back in the next request; opaque to everybody else."""
    reasoning: str | None = None
    first_token_ms: int | None = None
    duration_ms: int | None = None
    provider_request_id: str | None = None
    attempt: int | None = None


@event("runtime.model.failed")
class ModelFailed(EventModel):
    """`abandoned` closes a message that was cut off after its first delta; folds leave it out."""

    message_id: str
    model: str
    provider: str
    error: ErrorValue
    abandoned: bool = False
    attempt: int | None = None
    usage: Usage | None = None
    duration_ms: int | None = None
    provider_request_id: str | None = None


@event("runtime.model.retry.scheduled")
class ModelRetryScheduled(EventModel):
    message_id: str
    model: str
    provider: str
    attempt: int
    delay_ms: int
    reason: str
    waits_for: Literal["backoff", "breaker", "retry_budget"] | None = None
    """What the delay is for; absent when another model is asked at once."""
    next_model: str | None = None

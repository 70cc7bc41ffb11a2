"""What an executor does between claim and end, and the commands that reach it on the way."""

from typing import Any, Literal

from pydantic import Field

from app.events.catalog.base import EventModel, event


@event("runtime.execution.contract.failed", draft=True)
class ExecutionContractFailed(EventModel):
    reason: str
    missing_evidence_tools: list[str] | None = None


@event("runtime.step.completed", draft=True)
class StepCompleted(EventModel):
    """A step that is neither a model nor a tool call; `result` is what re-entry returns for its key."""

    step: str
    key: str
    request_hash: str | None = None
    result: Any = None


@event("runtime.command.injected")
class CommandInjected(EventModel):
    command: Literal[
        "cancel", "pause", "resume", "steer", "switch_model_plan", "set_limits", "set_parameters", "checkpoint"
    ]
    command_id: str
    arguments: dict[str, Any] = Field(default_factory=dict)


@event("runtime.context.compacted", draft=True)
class ContextCompacted(EventModel):
    strategy: str
    messages_before: int
    messages_after: int
    tokens_before: int | None = None
    tokens_after: int | None = None
    summary: str | None = None
    kept_messages: int | None = None
    """How many of the newest messages before the run stay as they are; the summary replaces the others."""


@event("runtime.checkpoint.created", draft=True)
class CheckpointCreated(EventModel):
    label: str
    data: Any = None


@event("runtime.budget.exceeded", draft=True, announced=True)
class BudgetExceeded(EventModel):
    budget: Literal["tokens", "cost", "model_calls", "tool_calls", "wall_time"]
    scope: Literal["run", "tenant"]
    limit: float
    used: float
    requested: float | None = None

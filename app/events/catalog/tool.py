"""Tool calls through our gateway: checked, intended, done. `direct.*` brackets a call of no agent."""

from typing import Any, Literal

from app.events.catalog.base import EventModel, Value, event
from app.events.catalog.values import Effect, ErrorValue


@event("runtime.tool.direct.started")
class ToolDirectStarted(EventModel):
    tool_id: str
    call_id: str | None = None


@event("runtime.tool.direct.completed")
class ToolDirectCompleted(EventModel):
    tool_id: str
    output: Any
    call_id: str | None = None


class Finding(Value):
    kind: Literal[
        "unknown_tool",
        "near_miss_name",
        "unparsable_arguments",
        "missing_required",
        "wrong_type",
        "bad_enum",
        "extra_argument",
        "bad_path",
        "semantic",
        "constraint",
        "not_allowed",
    ]
    path: str
    message: str


class Repair(Value):
    kind: str
    path: str
    before: Any = None
    after: Any = None


@event("runtime.tool.guarded")
class ToolGuarded(EventModel):
    """What the guard found, and whether it was repaired or refused. A clean call leaves no such event."""

    call_id: str
    tool: str
    outcome: Literal["repaired", "refused"]
    findings: list[Finding]
    repairs: list[Repair] | None = None
    round: Literal["deterministic", "model"] | None = None
    code: str | None = None
    """Why it was refused."""


@event("runtime.tool.invoked")
class ToolInvoked(EventModel):
    """The intent: committed before the tool acts."""

    call_id: str
    tool: str
    arguments: Any
    argument_hash: str
    effect: Effect
    attempt: int = 1
    idempotency_key: str | None = None
    message_id: str | None = None
    approval_id: str | None = None
    """The interrupt whose answer allowed the call, where it needed an approval."""
    sandbox: str | None = None
    """What confines the tool, if anything does: `process` for a program in the sandbox."""


@event("runtime.tool.resulted")
class ToolResulted(EventModel):
    """The result. `applied: false` marks one that arrived after a cancel and is not used."""

    call_id: str
    tool: str
    ok: bool
    output: Any = None
    error: ErrorValue | None = None
    duration_ms: int | None = None
    truncated: bool | None = None
    applied: bool | None = None

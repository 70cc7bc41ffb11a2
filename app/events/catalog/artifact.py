"""Outputs by reference, and taking back what was done."""

from typing import Any, Final, Literal

from app.events.catalog.base import EventModel, Value, event
from app.events.catalog.values import ArtifactValue, ErrorValue

UNDO_TOOL: Final = "undo:"
"""What the name of a tool begins with that takes the calls of another back, and that only an undo may call."""


@event("runtime.artifact.created")
class ArtifactCreated(EventModel):
    artifact: ArtifactValue


class UndoAction(Value):
    """A call that is to be taken back, by another call."""

    call_id: str
    of_run_id: str
    """The run that made the call: the one that is undone, or one of its subagents."""
    tool: str
    compensation: str
    """The tool that takes it back."""
    arguments: dict[str, Any]
    argument_hash: str


class UndoSkipped(Value):
    """A call that is not taken back, and why."""

    call_id: str
    of_run_id: str
    tool: str
    code: str
    message: str


@event("runtime.undo.planned")
class UndoPlanned(EventModel):
    """What an undo is about to do, in this order; stored with the run that does it."""

    undo_id: str
    """The run that undoes."""
    undo_of: str
    """The run that is undone."""
    plan_hash: str
    on_failure: Literal["stop", "continue"]
    actions: list[UndoAction]
    skipped: list[UndoSkipped]
    agent: str | None = None
    """Whose hooks are asked: the agent of the run that is undone."""
    from_seq: int | None = None
    """The checkpoint back to which it is undone; the whole run without one."""


@event("runtime.undo.action.completed")
class UndoActionCompleted(EventModel):
    undo_id: str
    call_id: str
    of_run_id: str
    tool: str
    compensation: str
    ok: bool
    attempt: int
    """How many calls of the compensation it took."""
    error: ErrorValue | None = None


@event("runtime.undo.completed")
class UndoCompleted(EventModel):
    """The counts of the report. `done` means that every effect was taken back, and nothing less."""

    undo_id: str
    verdict: Literal["done", "partial", "failed"]
    executed: int
    skipped: int
    failed: int

"""Outputs by reference, and taking back what was done."""

from typing import Any, Literal

from app.events.catalog.base import EventModel, Value, event
from app.events.catalog.values import ArtifactValue, ErrorValue


@event("runtime.artifact.created")
class ArtifactCreated(EventModel):
    artifact: ArtifactValue


class UndoAction(Value):
    call_id: str
    tool: str
    compensation: str
    arguments: dict[str, Any]


@event("runtime.undo.planned", draft=True)
class UndoPlanned(EventModel):
    undo_id: str
    actions: list[UndoAction]
    from_seq: int | None = None


@event("runtime.undo.action.completed", draft=True)
class UndoActionCompleted(EventModel):
    undo_id: str
    call_id: str
    ok: bool
    attempt: int
    error: ErrorValue | None = None


@event("runtime.undo.completed", draft=True)
class UndoCompleted(EventModel):
    undo_id: str
    verdict: Literal["done", "partial", "failed"]
    executed: int

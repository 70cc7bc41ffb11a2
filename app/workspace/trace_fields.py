"""The fields of event payloads that a workspace may add to its traces (`redaction.traceFields`)."""

from functools import lru_cache
from typing import Final

from app.events.catalog import EventModel, execution, interrupt, model, request, tool

TRACED: Final[tuple[type[EventModel], ...]] = (
    request.RequestQueued,
    request.RequestCompleted,
    request.RequestFailed,
    request.RequestCancelled,
    model.ModelRequested,
    model.ModelCompleted,
    model.ModelFailed,
    tool.ToolInvoked,
    tool.ToolResulted,
    interrupt.InterruptRaised,
    interrupt.InterruptResolved,
    interrupt.InterruptExpired,
    execution.StepCompleted,
)
"""The events that make up a trace's spans."""


@lru_cache(maxsize=1)
def traceable_fields() -> frozenset[str]:
    """As they are spelled in a payload."""
    return frozenset(info.alias or name for payload in TRACED for name, info in payload.model_fields.items())

"""Words about the log itself, and narration of it in sentences."""

from typing import Any

from app.events.catalog.base import EventModel, event


@event("runtime.progress.narration")
class ProgressNarration(EventModel):
    message: str
    provider: str
    source_event_types: list[str]
    source_event_ids: list[str] | None = None
    model: str | None = None
    style: str | None = None


@event("runtime.event.amended")
class EventAmended(EventModel):
    """Corrects an earlier event of the same thread. The earlier one stays as it is."""

    amends_seq: int
    amends_id: str
    reason: str
    correction: dict[str, Any]


@event("runtime.snapshot.updated", draft=True)
class SnapshotUpdated(EventModel):
    """Repairs a reader's gap. It never completes a tool or an action."""

    up_to_seq: int
    summary: dict[str, Any]

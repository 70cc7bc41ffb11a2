"""What a session is sent about jobs that work for it, and about the requests that are suggested to its user."""

from typing import Any, Literal

from app.events.catalog.base import EventModel, event


@event("runtime.session.job.updated", of_thread=True)
class SessionJobUpdated(EventModel):
    """In the log of the session that a job works for; the job itself is a run on a thread of its own."""

    job_id: str
    job_type: str
    project_id: str
    state: Literal["queued", "started", "progress", "completed", "failed", "canceled"]
    progress: dict[str, Any] | None = None
    result: Any = None
    error: str | None = None


@event("runtime.session.suggestion.updated", of_thread=True)
class SessionSuggestionUpdated(EventModel):
    """The newest one of a `requestKey` counts; one that has ended does not go back to `streaming`."""

    request_key: str
    status: Literal["streaming", "complete", "canceled", "error"]
    suggestion: str | None = None
    error: str | None = None

"""Runs that were put on the queue with a priority, a dedupe key and a number of attempts."""

from typing import Any, Literal

from app.events.catalog.base import EventModel, event
from app.events.catalog.values import ErrorValue


class _Job(EventModel):
    job_id: str
    job_type: str
    project_id: str | None = None


@event("runtime.job.queued", draft=True)
class JobQueued(_Job):
    priority: Literal["interactive", "background"] = "background"
    dedupe_key: str | None = None
    max_attempts: int | None = None


@event("runtime.job.started", draft=True)
class JobStarted(_Job):
    attempt: int


@event("runtime.job.progress", draft=True)
class JobProgress(_Job):
    progress: dict[str, Any]


@event("runtime.job.completed", draft=True)
class JobCompleted(_Job):
    result: Any = None


@event("runtime.job.failed", draft=True)
class JobFailed(_Job):
    error: ErrorValue


@event("runtime.job.cancelled", draft=True)
class JobCancelled(_Job):
    reason: str | None = None

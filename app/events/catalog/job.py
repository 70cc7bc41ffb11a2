"""Runs that were put on the queue with a priority, a dedupe key and a number of attempts.

All attempts of a job are one run, and the job's id is the run's. `queued` follows `runtime.request.queued` in the same
commit, and `completed`, `failed` and `cancelled` come just before the run's last event, in its commit.
"""

from typing import Any, Literal

from app.events.catalog.base import EventModel, event
from app.events.catalog.values import ErrorValue

Priority = Literal["interactive", "background"]
Dedupe = Literal["single_flight", "drop_duplicate", "merge_duplicate"]


class _Job(EventModel):
    job_id: str
    job_type: str
    project_id: str | None = None
    source_session_id: str | None = None


@event("runtime.job.queued", draft=True)
class JobQueued(_Job):
    priority: Priority = "background"
    dedupe_key: str | None = None
    dedupe: Dedupe | None = None
    """Until when the key counts: as long as the job is active (`merge_duplicate` too), or as long as it is stored."""
    max_attempts: int = 1
    backoff_seconds: float = 1.0
    """Between the first attempt and the second; each further pause is twice as long."""
    timeout_seconds: float | None = None
    """Of one attempt."""
    not_before: str | None = None
    serial: bool | None = None
    """It is one of the serial jobs of its project, of which one runs at a time."""


@event("runtime.job.started", draft=True)
class JobStarted(_Job):
    """An attempt begins. Going on after an answer or after a crash is no new attempt."""

    attempt: int


@event("runtime.job.merged", draft=True)
class JobMerged(_Job):
    """A second job with the same key was asked for while this one was active: its metadata was added to this one's."""

    metadata: dict[str, Any]
    """What was added; fields of the same name were replaced."""


@event("runtime.job.progress", draft=True)
class JobProgress(_Job):
    progress: dict[str, Any]


@event("runtime.job.retry.scheduled", draft=True)
class JobRetryScheduled(_Job):
    """An attempt failed and another one follows: the run is on the queue again."""

    attempt: int
    error: ErrorValue
    next_attempt_at: str


@event("runtime.job.completed", draft=True)
class JobCompleted(_Job):
    result: Any = None


@event("runtime.job.failed", draft=True)
class JobFailed(_Job):
    error: ErrorValue
    attempt: int | None = None
    """The one that failed last; null of a job that was never started."""


@event("runtime.job.cancelled", draft=True)
class JobCancelled(_Job):
    reason: str | None = None

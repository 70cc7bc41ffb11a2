"""What is recorded of a job besides its run: attempts, progress and its end.

Leaves to `app.views.job`: what a run's record shows of it. Leaves to the executor: when an attempt begins or ends.
"""

from hashlib import sha256
from typing import Any, Final

from app.core.clock import iso
from app.events.catalog import Payload, job, request
from app.events.catalog.values import ErrorValue
from app.views.run import Run

MAX_BACKOFF_SECONDS: Final = 3600.0
JITTER: Final = 0.2
"""Part of a pause by which it is longer or shorter, so that jobs that failed together do not come back together."""


def _whose(run: Run) -> dict[str, Any]:
    assert run.job is not None
    return {
        "job_id": run.id,
        "job_type": run.job["type"],
        "project_id": run.job.get("projectId"),
        "source_session_id": run.job.get("sourceSessionId"),
    }


def begins_attempt(run: Run) -> bool:
    """Whether taking the run up now is a new attempt, and not the continuation of one."""
    return run.job is not None and (run.job["attempt"] == 0 or "nextAttemptAt" in run.job)


def job_started(run: Run) -> list[Payload]:
    """With the claim of a run that begins an attempt; empty for every other run."""
    if run.job is None or not begins_attempt(run):
        return []
    return [job.JobStarted(**_whose(run), attempt=run.job["attempt"] + 1)]


def job_merged(run: Run, metadata: dict[str, Any]) -> Payload:
    return job.JobMerged(**_whose(run), metadata=metadata)


def job_progress(run: Run, progress: dict[str, Any]) -> Payload:
    return job.JobProgress(**_whose(run), progress=progress)


def job_ended(run: Run, ending: Payload) -> list[Payload]:
    """The job's last event, which precedes the run's in the same commit; empty for a run that is no job."""
    if run.job is None:
        return []
    ended = ending.to_json()
    if ending.type == request.RequestCompleted.type:
        return [job.JobCompleted(**_whose(run), result=ended.get("output"))]
    if ending.type == request.RequestFailed.type:
        error = ErrorValue.model_validate(ended["error"])
        return [job.JobFailed(**_whose(run), error=error, attempt=run.job["attempt"] or None)]
    return [job.JobCancelled(**_whose(run), reason=ended.get("reason"))]


def _spread(name: str) -> float:
    """Between -1 and 1, another one for each name."""
    return int.from_bytes(sha256(name.encode()).digest()[:4]) / 2**31 - 1


def job_retry(run: Run, ending: Payload, now_ms: int) -> job.JobRetryScheduled | None:
    """What is recorded in place of the end of a run whose attempt failed and that has another one; else None."""
    if run.job is None or ending.type != request.RequestFailed.type:
        return None
    error, attempt = ErrorValue.model_validate(ending.to_json()["error"]), run.job["attempt"]
    if not error.retryable or attempt >= run.job["maxAttempts"]:
        return None
    seconds = min(run.job["backoffSeconds"] * 2.0 ** (attempt - 1), MAX_BACKOFF_SECONDS)
    seconds *= 1 + JITTER * _spread(f"{run.id}:{attempt}")
    at = now_ms + round(seconds * 1000)
    return job.JobRetryScheduled(**_whose(run), attempt=attempt, error=error, next_attempt_at=iso(at))

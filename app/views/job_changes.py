"""The queue attributes of a run, folded from its job events: priority, attempts, when its turn comes.

They are part of the run's record (`Run.job`). Leaves to `run`: status, input and output. Leaves to `job`: JSON.
"""

from collections.abc import Callable
from typing import Any, Final, Protocol

from app.core.clock import ms_of
from app.events.catalog import job
from app.events.envelope import Event


class QueuedRun(Protocol):
    """What of a run decides about its place in the queue."""

    status: str
    job: dict[str, Any] | None
    waiting_on: list[str]
    started_at: int | None
    cancel_requested_at: int | None
    metadata: dict[str, Any]


_ATTRIBUTES: Final = (
    ("type", "jobType"),
    ("priority", "priority"),
    ("projectId", "projectId"),
    ("sourceSessionId", "sourceSessionId"),
    ("dedupeKey", "dedupeKey"),
    ("dedupe", "dedupe"),
    ("maxAttempts", "maxAttempts"),
    ("backoffSeconds", "backoffSeconds"),
    ("timeoutSeconds", "timeoutSeconds"),
    ("serial", "serial"),
)


def _queued(run: QueuedRun, event: Event) -> None:
    given = event.payload
    run.job = {name: given[key] for name, key in _ATTRIBUTES if given.get(key) is not None}
    run.job |= {"attempt": 0, "history": []}
    if given.get("notBefore") is not None:
        run.job["notBefore"] = ms_of(given["notBefore"])


def _started(run: QueuedRun, event: Event) -> None:
    if run.job is not None:
        attempt = event.payload["attempt"]
        run.job.pop("nextAttemptAt", None)
        run.job["attempt"] = attempt
        run.job["history"] = [*run.job["history"], {"attempt": attempt, "startedAt": event.at}]


def _retried(run: QueuedRun, event: Event) -> None:
    if run.job is None:
        return
    run.status = "queued"
    run.waiting_on = []
    _end_attempt(run, event)
    # A cancel that came meanwhile need not wait for the next attempt.
    run.job["nextAttemptAt"] = 0 if run.cancel_requested_at is not None else ms_of(event.payload["nextAttemptAt"])


def _ended(run: QueuedRun, event: Event) -> None:
    if run.job is not None:
        run.job.pop("nextAttemptAt", None)
        _end_attempt(run, event)


def _end_attempt(run: QueuedRun, event: Event) -> None:
    assert run.job is not None
    history = run.job["history"]
    if history and "endedAt" not in history[-1]:
        error = event.payload.get("error")
        last = {**history[-1], "endedAt": event.at, **({} if error is None else {"error": error})}
        run.job["history"] = [*history[:-1], last]


def _merged(run: QueuedRun, event: Event) -> None:
    run.metadata = {**run.metadata, **event.payload["metadata"]}


def _progressed(run: QueuedRun, event: Event) -> None:
    if run.job is not None:
        run.job["progress"] = event.payload["progress"]


JOB_CHANGES: Final[dict[str, Callable[[QueuedRun, Event], None]]] = {
    job.JobQueued.type: _queued,
    job.JobStarted.type: _started,
    job.JobMerged.type: _merged,
    job.JobProgress.type: _progressed,
    job.JobRetryScheduled.type: _retried,
    job.JobCompleted.type: _ended,
    job.JobFailed.type: _ended,
    job.JobCancelled.type: _ended,
}
"""By type, what a job's event changes of its run."""


def due_at(run: QueuedRun) -> int | None:
    """Before when no executor may take the run up, in milliseconds; None if it may at any time."""
    if run.job is None or run.status != "queued":
        return None
    if "nextAttemptAt" in run.job:
        return int(run.job["nextAttemptAt"])
    return run.job.get("notBefore") if run.started_at is None else None


def is_delayed(run: QueuedRun) -> bool:
    """Whether it has not begun to stand in its thread's line: it does when it is taken up, after its time."""
    return run.job is not None and run.status == "queued" and run.started_at is None and "notBefore" in run.job


def is_background(run: QueuedRun) -> bool:
    return run.job is not None and run.job["priority"] == "background"


def project_line(run: QueuedRun) -> str | None:
    """The project in whose line the run stands, of which one job runs at a time; None for every other run."""
    return run.job.get("projectId") if run.job is not None and run.job.get("serial") else None


def last_started_at(run: QueuedRun) -> int | None:
    """When its newest attempt began; None before the first."""
    history = run.job["history"] if run.job is not None else ()
    return history[-1]["startedAt"] if history else None

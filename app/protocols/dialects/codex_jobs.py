"""Runs on the queue as the jobs of the codex-manager sessions API, and their frames. Pure functions."""

from typing import Any, Final

from app.core.clock import iso
from app.events.envelope import Event
from app.views.run import Run

STATES: Final = {
    "queued": "queued",
    "running": "running",
    "waiting": "running",
    "completed": "completed",
    "failed": "failed",
    "cancelled": "canceled",
}
STATUSES: Final = {"queued": ("queued",), "running": ("running", "waiting"), "completed": ("completed",),
                   "failed": ("failed",), "canceled": ("cancelled",)}  # fmt: skip
"""Of runs, by the state of a job."""


def job_of(run: Run, payload_key: str) -> dict[str, Any]:
    """The job with its twenty fields; the run must be one."""
    it = run.job
    assert it is not None
    begun = [one["startedAt"] for one in it["history"]]
    return {
        "id": run.id,
        "type": it["type"],
        "version": 1,
        "projectId": it.get("projectId") or f"session:{run.thread_id}",
        "sourceSessionId": it.get("sourceSessionId"),
        "priority": it["priority"],
        "state": STATES[run.status],
        "dedupeKey": it.get("dedupeKey"),
        "payload": run.metadata.get(payload_key) or {"input": run.input},
        "result": run.output if run.status == "completed" else None,
        "error": _error(run),
        "attempts": it["attempt"],
        "maxAttempts": it["maxAttempts"],
        "createdAt": iso(run.created_at),
        "startedAt": _iso(run.started_at),
        "completedAt": _iso(run.finished_at),
        "cancelRequestedAt": _iso(run.cancel_requested_at),
        "nextAttemptAt": _iso(it.get("nextAttemptAt")),
        "lastAttemptAt": _iso(begun[-1] if begun else None),
        "runningContext": {"threadId": run.thread_id, "turnId": run.id},
    }


def _error(run: Run) -> str | None:
    if run.status == "cancelled":
        return "api_cancel"
    return None if run.error is None else str(run.error["message"])


def _iso(at: int | None) -> str | None:
    return None if at is None else iso(at)


def job_frame(event: Event) -> tuple[str, dict[str, Any]]:
    """The frame's type and payload, of `runtime.session.job.updated`."""
    given = event.payload
    state = {"started": "running", "progress": "running"}.get(given["state"], given["state"])
    payload = {
        "jobId": given["jobId"],
        "projectId": given["projectId"],
        "jobType": given["jobType"],
        "state": state,
        "sourceSessionId": event.thread_id,
    }
    payload |= {name: given[name] for name in ("result", "error", "progress") if name in given}
    return f"orchestrator_job_{given['state']}", payload


def suggestion_frame(event: Event) -> dict[str, Any]:
    """Of `runtime.session.suggestion.updated`."""
    return {"sessionId": event.thread_id, "requestKey": event.payload["requestKey"],
            "entry": suggestion_entry(event.payload, event.at)}  # fmt: skip


def suggestion_entry(given: dict[str, Any], at: int) -> dict[str, Any]:
    entry = {name: given[name] for name in ("status", "suggestion", "error") if given.get(name) is not None}
    return entry | {"updatedAt": iso(at)}

"""A run with queue attributes as the wire shows it, and the key that keeps it from being queued twice."""

from typing import Any, Final

from app.core.clock import iso
from app.views.run import Run

JOB_ROUTE: Final = "jobs"
"""Under which the keys of jobs are among the idempotency keys."""
WHILE_ACTIVE: Final = "active:"
"""How keys begin that count only while their job is active; others count while it is stored."""


def job_key(dedupe: str, project: str | None, type_: str, key: str) -> str:
    """The dedupe key with its scope: the same key of another project or another type is another key."""
    prefix = "stored:" if dedupe == "drop_duplicate" else WHILE_ACTIVE
    return f"{prefix}{project or ''}\n{type_}\n{key}"


def job_json(run: Run) -> dict[str, Any]:
    """The job as the wire has it; the run must be one."""
    it = run.job
    assert it is not None
    return {
        "id": run.id,
        "type": it["type"],
        "priority": it["priority"],
        "status": run.status,
        "projectId": it.get("projectId"),
        "sourceSessionId": it.get("sourceSessionId"),
        "serial": it.get("serial", False),
        "threadId": run.thread_id,
        "agent": run.agent,
        "tool": run.tool,
        "workflow": run.workflow,
        "input": run.input,
        "result": run.output if run.status == "completed" else None,
        "error": run.error,
        "progress": it.get("progress"),
        "dedupeKey": it.get("dedupeKey"),
        "attempt": it["attempt"],
        "maxAttempts": it["maxAttempts"],
        "backoffSeconds": it["backoffSeconds"],
        "timeoutSeconds": it.get("timeoutSeconds"),
        "history": [_attempt_json(one) for one in it["history"]],
        "notBefore": _iso(it.get("notBefore")),
        "nextAttemptAt": _iso(it.get("nextAttemptAt")),
        "cancelRequestedAt": _iso(run.cancel_requested_at),
        "metadata": run.metadata,
        "labels": run.labels,
        "createdAt": iso(run.created_at),
        "startedAt": _iso(run.started_at),
        "finishedAt": _iso(run.finished_at),
    }


def _attempt_json(one: dict[str, Any]) -> dict[str, Any]:
    return {
        "attempt": one["attempt"],
        "startedAt": iso(one["startedAt"]),
        "endedAt": _iso(one.get("endedAt")),
        "error": one.get("error"),
    }


def _iso(at: int | None) -> str | None:
    return None if at is None else iso(at)

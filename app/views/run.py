"""The run, folded from its events: status, input, output, usage, what it waits for."""

from collections.abc import Callable
from dataclasses import field
from typing import Any, Final

from app.core.clock import iso
from app.core.ids import DELIVERY
from app.core.value import mutable
from app.events.catalog import execution, interrupt, memory, model, request
from app.events.envelope import Event
from app.views.job_changes import JOB_CHANGES

ACTIVE: Final = frozenset({"queued", "running", "waiting"})


@mutable(slots=True)
class Run:
    id: str
    thread_id: str
    agent: str | None = None
    tool: str | None = None
    workflow: str | None = None
    status: str = "queued"
    input: Any = None
    output: Any = None
    error: dict[str, Any] | None = None
    parent_run_id: str | None = None
    rerun_of: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    usage: dict[str, Any] = field(default_factory=lambda: {"inputTokens": 0, "outputTokens": 0, "costUsd": 0.0})
    waiting_on: list[str] = field(default_factory=list)
    cancel_requested_at: int | None = None
    workspace_digest: str | None = None
    created_at: int = 0
    started_at: int | None = None
    finished_at: int | None = None
    epoch: int = 0
    """How often the run was claimed; the epoch of its newest lease."""
    commanded: int = 0
    """How many commands it must have seen before it may complete: see `MUST_BE_SEEN`."""
    output_parts: list[dict[str, Any]] | None = None
    """The answer as message parts, where it is more than text."""
    undo_of: str | None = None
    mode: str | None = None
    """How a workflow deals with people, as the request had it; None leaves that to the workflow."""
    job: dict[str, Any] | None = None
    """The queue attributes, if it was put on the queue with any: see `app.views.job_changes`."""
    webhook: str | None = None
    """A webhook that is sent its end."""
    # Counters: every event of the run moves them, so the store keeps them in columns of their own.
    first_seq: int = 0
    last_seq: int = 0
    run_seq: int = 0

    @property
    def terminal(self) -> bool:
        return self.status not in ACTIVE

    @property
    def gives_way(self) -> bool:
        """Whether it waits for an artifact, which another run of its thread may deliver."""
        return self.status == "waiting" and any(one.startswith(DELIVERY) for one in self.waiting_on)

    def apply(self, event: Event) -> bool:
        """Everything but the counters. False for events that leave the run as it is."""
        change = RUN_CHANGES.get(event.type)
        if change is None:
            return False
        change(self, event)
        return True


def _queued(run: Run, event: Event) -> None:
    payload = event.payload
    run.input = payload.get("input")
    run.agent, run.tool, run.workflow = payload.get("agent"), payload.get("tool"), payload.get("workflow")
    run.parent_run_id, run.rerun_of = payload.get("parentRunId"), payload.get("rerunOf")
    run.undo_of, run.mode = payload.get("undoOf"), payload.get("mode")
    run.webhook = payload.get("webhook")
    run.metadata, run.labels = payload.get("metadata", {}), payload.get("labels", {})
    run.workspace_digest = payload.get("workspaceDigest")
    run.created_at = event.at


def _claimed(run: Run, event: Event) -> None:
    run.status = "running"
    run.started_at = run.started_at or event.at
    run.epoch = event.payload["epoch"]


def _ended(status: str) -> Callable[[Run, Event], None]:
    def end(run: Run, event: Event) -> None:
        run.status, run.finished_at = status, event.at
        run.waiting_on = []
        run.output = event.payload.get("output")
        run.output_parts = event.payload.get("parts")
        run.error = event.payload.get("error")

    return end


def _raised(run: Run, event: Event) -> None:
    if not run.terminal:
        run.waiting_on.append(event.payload["interruptId"])
        if not event.payload.get("background"):
            run.status = "waiting"


def _suspended(run: Run, event: Event) -> None:
    answered = set(event.payload["waitingOn"]) - set(run.waiting_on)
    run.status = "queued" if answered else "waiting"


def _answered(run: Run, event: Event) -> None:
    answered = event.payload["interruptId"]
    if answered in run.waiting_on:
        run.waiting_on.remove(answered)
        # The branches of a workflow go on one by one, each with its own answer.
        if run.status == "waiting" and (not run.waiting_on or run.workflow is not None):
            run.status = "queued"


def amend_run(run: Run, payload: dict[str, Any]) -> None:
    """A text of one of its events was corrected after its end."""
    values = payload["correction"]
    if payload["amendsType"] == request.RequestQueued.type:
        run.input = values.get("input", run.input)
    elif payload["amendsType"] in request.TERMINAL:
        run.output = values.get("output", run.output)
        run.output_parts = values.get("parts", run.output_parts)


MUST_BE_SEEN: Final = frozenset({"steer", "pause"})
"""Commands that a run which is about to complete either follows or answers as too late."""


def _commanded(run: Run, event: Event) -> None:
    if event.payload["command"] in MUST_BE_SEEN:
        run.commanded += 1
    if event.payload["command"] == "cancel" and run.cancel_requested_at is None:
        run.cancel_requested_at = event.at


def _used(run: Run, event: Event) -> None:
    usage = event.payload["usage"]
    run.usage["inputTokens"] += usage.get("inputTokens", 0)
    run.usage["outputTokens"] += usage.get("outputTokens", 0)
    run.usage["costUsd"] = round(run.usage["costUsd"] + usage.get("costUsd", 0.0), 9)


RUN_CHANGES: Final[dict[str, Callable[[Run, Event], None]]] = {
    request.RequestQueued.type: _queued,
    request.RequestStarted.type: _claimed,
    request.RequestResumed.type: _claimed,
    request.RequestSuspended.type: _suspended,
    request.RequestCompleted.type: _ended("completed"),
    request.RequestFailed.type: _ended("failed"),
    request.RequestCancelled.type: _ended("cancelled"),
    interrupt.InterruptRaised.type: _raised,
    interrupt.InterruptResolved.type: _answered,
    interrupt.InterruptExpired.type: _answered,
    execution.CommandInjected.type: _commanded,
    model.ModelCompleted.type: _used,
    memory.MemoryEmbeddingCompleted.type: _used,
    **JOB_CHANGES,
}
"""By type, what an event changes of its run beyond the counters."""


def _iso(at: int | None) -> str | None:
    return None if at is None else iso(at)


def run_json(run: Run) -> dict[str, Any]:
    """The run as `wire.md` has it."""
    return {
        "id": run.id,
        "threadId": run.thread_id,
        "agent": run.agent,
        "tool": run.tool,
        "workflow": run.workflow,
        "mode": run.mode,
        "status": run.status,
        "input": run.input,
        "output": run.output,
        "outputParts": run.output_parts,
        "error": run.error,
        "parentRunId": run.parent_run_id,
        "rerunOf": run.rerun_of,
        "undoOf": run.undo_of,
        "priority": None if run.job is None else run.job["priority"],
        "metadata": run.metadata,
        "labels": run.labels,
        "usage": run.usage,
        "waitingOn": run.waiting_on,
        "cancelRequestedAt": _iso(run.cancel_requested_at),
        "lastSeq": run.last_seq,
        "workspaceDigest": run.workspace_digest,
        "createdAt": iso(run.created_at),
        "startedAt": _iso(run.started_at),
        "finishedAt": _iso(run.finished_at),
    }

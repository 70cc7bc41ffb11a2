"""Durable pauses that await an answer."""

from typing import Any, Literal

from app.events.catalog.base import EventModel, event


@event("runtime.interrupt.raised")
class InterruptRaised(EventModel):
    interrupt_id: str
    kind: Literal["approval", "question", "external", "recovery", "paused", "timer"]
    title: str
    expires_at: str
    for_run_id: str | None = None
    """The subagent's run that waits; the interrupt itself belongs to the root run, which the answer wakes."""
    tool: str | None = None
    call_id: str | None = None
    arguments: Any = None
    argument_hash: str | None = None
    schema_hash: str | None = None
    """Of the tool as it was described when the approval was asked for; another description needs another approval."""
    approver: str | None = None
    """Who may answer an approval: `anyone`, `other`, or `role:<name>`."""
    submitted_by: str | None = None
    """Who submitted the run, for the approver `other`."""
    questions: list[dict[str, Any]] | None = None
    key: str | None = None
    """What a run that is entered again finds its question by."""
    node: str | None = None
    """The step of a workflow that asks."""
    artifacts: list[str] | None = None
    """Names of artifacts that a phase lacks: once the thread has all of them, the question is resolved by itself."""
    changes_files: bool | None = None
    """Of an approval: the tool writes files that its arguments name."""
    background: bool | None = None
    """The run goes on with other branches; `runtime.request.suspended` says when it waits."""


@event("runtime.interrupt.resolved")
class InterruptResolved(EventModel):
    interrupt_id: str
    answer: dict[str, Any]
    answered_by: str


@event("runtime.interrupt.expired")
class InterruptExpired(EventModel):
    interrupt_id: str

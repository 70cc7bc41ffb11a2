"""Stored events as UI events of the Lime standard: exactly one for each, so that numbers stay dense.

A root run is a turn. A subagent's run is a task of that turn with a subagent that works on it. Large values are
references. A pure function of the event and of the line its run comes from; leaves to others: where that line is looked
up, what a client makes of the events (`views.ui`).
"""

from collections.abc import Callable
from typing import Final

from app.core import json
from app.events.blobs import references_of
from app.events.catalog import (
    adapter,
    artifact,
    execution,
    interrupt,
    log,
    model,
    policy,
    request,
    skill,
    thread,
    tool,
    workflow,
)
from app.events.envelope import Event, iso_at
from app.protocols.dialects import lime_calls as calls
from app.protocols.dialects import lime_decisions as decisions
from app.protocols.dialects import lime_turns as turns
from app.protocols.dialects import lime_values as values
from app.protocols.dialects import lime_work as work
from app.protocols.dialects.lime_source import Lineage, Said, SpelledEvent, say, status, task_id
from app.views.ui import standard
from app.views.ui.standard import UiEvent


def ui_event(event: Event, lineage: Lineage | None, sequence: int) -> UiEvent:
    """`sequence` is the event's number in its thread or in its run, whichever is read."""
    source = SpelledEvent(event, lineage)
    spelled = _SPELLINGS.get(event.type, _other)(source)
    payload = {key: value for key, value in spelled.pop("payload", {}).items() if value is not None}
    made: UiEvent = {
        "id": event.id,
        "schemaVersion": standard.SCHEMA_VERSION,
        "runtimeId": standard.RUNTIME_ID,
        "sequence": sequence,
        "createdAt": iso_at(event.at),
        "threadId": event.thread_id,
        **_scope(source),
        **{key: value for key, value in spelled.items() if value is not None},
    }
    refs = [values.blob_path(event.thread_id, digest) for digest in _blobs(event)]
    if len(event.payload_bytes) > _SURELY_SMALL:
        payload, too_large = _bounded(payload)
        if too_large:
            refs.append(f"/api/threads/{event.thread_id}/events?after={event.seq - 1}&limit=1")
    if refs:
        made["refIds"] = [*made.get("refIds", ()), *refs]
    if payload:
        made["payload"] = payload
    return made


_SURELY_SMALL: Final = standard.MAX_PAYLOAD_UNITS // 8
"""Bytes of a stored payload whose UI form fits in any case: a character takes at most six, `\\u0000`."""


def _blobs(event: Event) -> list[str]:
    return list(dict.fromkeys(reference["sha256"] for reference in references_of(event)))


def _bounded(payload: Said) -> tuple[Said, bool]:
    """Texts are cut to previews if the whole would be too large."""
    if standard.utf16_units(json.dumps(payload).decode()) <= standard.MAX_PAYLOAD_UNITS:
        return payload, False
    cut = {
        key: values.preview(value) if not isinstance(value, int | float) else value for key, value in payload.items()
    }
    return cut, True


def _scope(source: SpelledEvent) -> Said:
    event, lineage = source.event, source.lineage
    if event.run_id is None or lineage is None:
        return {}
    said: Said = {"turnId": lineage.turn_id, "runId": event.run_id}
    return said | ({"taskId": task_id(event.run_id)} if source.is_child else {})


def _other(source: SpelledEvent) -> Said:
    """What has no word of its own there. Its type is not the class: some classes would need a scope that it lacks."""
    title = source.event.type.removeprefix("runtime.").replace(".", " ")
    name = "run.status" if source.event.run_id is not None else "session.updated"
    return say(name, "state", "running" if source.event.run_id is not None else "completed", title)


_SPELLINGS: Final[dict[str, Callable[[SpelledEvent], Said]]] = {
    thread.ThreadCreated.type: turns.session,
    thread.ThreadForked.type: turns.session,
    thread.ThreadUpdated.type: turns.of_session("session.updated", "Session updated"),
    thread.ThreadClosed.type: turns.of_session("session.closed", "Session closed"),
    thread.ThreadDeleted.type: turns.of_session("session.deleted", "Session deleted"),
    thread.TranscriptUpserted.type: turns.of_session("session.updated", "Transcript updated"),
    request.RequestQueued.type: turns.queued,
    request.RequestStarted.type: turns.started,
    request.RequestResumed.type: status("Run resumed", "reason", "epoch"),
    request.RequestSuspended.type: status("Run waits"),
    request.RequestCompleted.type: turns.completed,
    request.RequestFailed.type: turns.failed,
    request.RequestCancelled.type: turns.cancelled,
    execution.ExecutionContractFailed.type: decisions.problem("Evidence is missing"),
    execution.CommandInjected.type: status("Command received", "command"),
    execution.ContextCompacted.type: lambda source: say(
        "context.resolved",
        "context",
        "completed",
        "Context shortened",
        payload={"strategy": source.payload["strategy"]},
    ),
    execution.CheckpointCreated.type: status("Checkpoint", "label"),
    execution.BudgetExceeded.type: decisions.problem("Budget exceeded"),
    model.ModelNegotiated.type: status("Model chosen", "provider", phase="routing"),
    model.ModelRequested.type: calls.requested,
    model.ModelCompleted.type: calls.answered,
    model.ModelFailed.type: calls.model_failed,
    model.ModelRetryScheduled.type: status("The model is asked again", "attempt", "delayMs", phase="waiting_provider"),
    adapter.AdapterEvent.type: calls.signal,
    tool.ToolGuarded.type: calls.guarded,
    tool.ToolInvoked.type: calls.invoked,
    tool.ToolResulted.type: calls.resulted,
    policy.HookFired.type: decisions.decision,
    policy.GuardrailTriggered.type: decisions.decision,
    policy.GateEvaluated.type: decisions.gate,
    policy.SchemaViolated.type: decisions.problem("A schema was violated"),
    interrupt.InterruptRaised.type: decisions.raised,
    interrupt.InterruptResolved.type: decisions.resolved,
    interrupt.InterruptExpired.type: decisions.expired,
    skill.SkillInvoked.type: work.skill_use,
    skill.SkillCompleted.type: work.skill_use,
    skill.RoleTransitioned.type: work.transitioned,
    skill.RoleReported.type: work.reported,
    workflow.WorkflowStarted.type: work.workflow_task("task.created", "running", "Workflow started"),
    workflow.WorkflowPhaseAdvanced.type: work.workflow_task("task.updated", "running", "Phase advanced"),
    workflow.WorkflowPolicyGated.type: decisions.decision,
    workflow.WorkflowCompleted.type: work.workflow_task("task.completed", "completed", "Workflow completed"),
    workflow.WorkflowAborted.type: work.workflow_task("task.failed", "failed", "Workflow aborted"),
    workflow.SpecPhaseStarted.type: work.workflow_task("task.created", "running", "Phase started"),
    workflow.SpecPhaseBlocked.type: work.workflow_task("task.updated", "blocked", "Phase blocked"),
    workflow.SpecPhaseCompleted.type: work.workflow_task("task.completed", "completed", "Phase completed"),
    workflow.SpecPhaseVerified.type: work.workflow_task("task.completed", "completed", "Phase verified"),
    artifact.ArtifactCreated.type: work.artifact_changed,
    log.ProgressNarration.type: work.narration,
    log.EventAmended.type: work.evidence("An event was amended", "amendsSeq", "reason"),
    log.LogCompacted.type: work.compacted,
    "runtime.feedback.recorded": work.evidence("Feedback", "runId", "score", "label"),
    "runtime.memory.recall.completed": lambda _source: say(
        "context.resolved", "context", "completed", "Memory recalled"
    ),
}

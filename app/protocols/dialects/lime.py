"""Stored events as UI events of the Lime standard: exactly one for each, so that numbers stay dense.

A root run is a turn. A subagent's run is a task of that turn with a subagent that works on it. Large values are
references. A pure function of the event and of the line its run comes from; leaves to others: where that line is looked
up, what a client makes of the events (`views.ui`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

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
from app.protocols.dialects import lime_values as values
from app.views.ui import standard
from app.views.ui.standard import UiEvent

Said = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Lineage:
    """Where a run comes from."""

    turn_id: str
    """The root run."""
    parent_run_id: str | None = None
    name: str | None = None
    """The agent, tool or workflow that it runs."""
    parent_task_id: str | None = None
    """The task that the parent works on, if the parent is itself a subagent."""


@dataclass(frozen=True, slots=True)
class _SpelledEvent:
    event: Event
    lineage: Lineage | None

    @property
    def payload(self) -> Mapping[str, Any]:
        return self.event.payload

    @property
    def is_child(self) -> bool:
        return self.lineage is not None and self.lineage.parent_run_id is not None

    @property
    def name(self) -> str:
        return (self.lineage.name if self.lineage is not None else None) or "agent"


def task_id(run_id: str) -> str:
    return f"task:{run_id}"


def ui_event(event: Event, lineage: Lineage | None, sequence: int) -> UiEvent:
    """`sequence` is the event's number in its thread or in its run, whichever is read."""
    source = _SpelledEvent(event, lineage)
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


def _scope(source: _SpelledEvent) -> Said:
    event, lineage = source.event, source.lineage
    if event.run_id is None or lineage is None:
        return {}
    said: Said = {"turnId": lineage.turn_id, "runId": event.run_id}
    return said | ({"taskId": task_id(event.run_id)} if source.is_child else {})


def _say(name: str, kind: str, status: str, title: str, **more: Any) -> Said:
    return {"eventClass": name, "kind": kind, "status": status, "title": title, **more}


# -- threads and turns --------------------------------------------------------------------------------


def _session(source: _SpelledEvent) -> Said:
    payload = source.payload
    forked = {"forkedFrom": payload.get("threadId"), "forkedAt": payload.get("seq")}
    is_fork = source.event.type == thread.ThreadForked.type
    return _say(
        "session.created",
        "state",
        "completed",
        "Session forked" if is_fork else "Session created",
        payload={"name": payload.get("title"), **(forked if is_fork else {})},
    )


def _of_session(name: str, title: str) -> Callable[[_SpelledEvent], Said]:
    return lambda source: _say(name, "state", "completed", title)


def _queued(source: _SpelledEvent) -> Said:
    payload, text = source.payload, values.inline_text(source.payload.get("input"))
    shown: Said = {"text": text, "agent": source.name}
    if text is None:
        shown["inputPreview"] = values.preview(payload.get("input"))
    if source.is_child:
        assert source.lineage is not None
        shown |= {"parentRunId": source.lineage.parent_run_id, "parentTaskId": source.lineage.parent_task_id}
        return _say("task.created", "state", "pending", f"Task for {source.name}", payload=shown)
    return _say("turn.submitted", "state", "pending", "Turn submitted", phase="submitted", payload=shown)


def _subagent(source: _SpelledEvent, name: str, status: str, title: str, **more: Any) -> Said:
    return _say(name, "state", status, title, subagentId=f"subagent:{source.event.run_id}", **more)


def _started(source: _SpelledEvent) -> Said:
    if source.is_child:
        return _subagent(source, "subagent.started", "running", f"{source.name} started")
    return _say("turn.started", "state", "running", "Turn started", phase="preparing")


def _completed(source: _SpelledEvent) -> Said:
    payload, ended = source.payload, iso_at(source.event.at)
    shown: Said = {"messageId": payload.get("messageId"), "usage": values.usage(payload.get("usage"))}
    if shown["messageId"] is None:
        output = payload.get("output")
        shown["text"] = values.inline_text(output) if isinstance(output, str) else values.preview(output)
    if source.is_child:
        title = f"{source.name} completed"
        return _subagent(source, "subagent.completed", "completed", title, completedAt=ended, payload=shown)
    return _say(
        "turn.completed", "state", "completed", "Turn completed", phase="completed", completedAt=ended, payload=shown
    )


def _failed(source: _SpelledEvent) -> Said:
    error, ended = source.payload["error"], iso_at(source.event.at)
    more = {"detail": error["message"], "completedAt": ended, "payload": {"failureCategory": error["code"]}}
    if source.is_child:
        return _subagent(source, "subagent.failed", "failed", f"{source.name} failed", **more)
    return _say("turn.failed", "state", "failed", "Turn failed", phase="failed", **more)


def _cancelled(source: _SpelledEvent) -> Said:
    more = {"detail": source.payload.get("reason"), "completedAt": iso_at(source.event.at)}
    if source.is_child:
        return _subagent(source, "subagent.canceled", "canceled", f"{source.name} was cancelled", **more)
    return _say("turn.canceled", "state", "canceled", "Turn cancelled", phase="canceled", **more)


def _status(title: str, *names: str, status: str = "running", **more: Any) -> Callable[[_SpelledEvent], Said]:
    """A note on the run's progress with some fields of the payload."""

    def spell(source: _SpelledEvent) -> Said:
        picked = {name: source.payload.get(name) for name in names}
        return _say("run.status", "state", status, title, payload=picked, **more)

    return spell


# -- models -------------------------------------------------------------------------------------------


def _requested(source: _SpelledEvent) -> Said:
    payload = source.payload
    shown = {name: payload.get(name) for name in ("messageId", "provider", "attempt", "role")}
    title, phase = f"{payload['model']} was asked", "waiting_provider"
    return _say("model.requested", "model", "running", title, phase=phase, model=payload["model"], payload=shown)


def _answered(source: _SpelledEvent) -> Said:
    payload, role = source.payload, source.payload.get("role")
    text = values.inline_text(payload["text"])
    shown = {
        "messageId": payload["messageId"],
        "usage": values.usage(payload.get("usage")),
        "finishReason": payload.get("finishReason"),
        "callCount": len(payload["toolCalls"]),
        "role": role,
    }
    if role in model.ASIDES:
        return _say("run.status", "state", "running", f"A {role} was written", payload=shown)
    if role is not None:
        return _say("reasoning.completed", "note", "completed", role, detail=text or None, payload=shown)
    shown["text"] = text
    title = "Assistant message"
    return _say("model.completed", "model", "completed", title, model=payload["model"], payload=shown)


def _model_failed(source: _SpelledEvent) -> Said:
    payload = source.payload
    shown = {
        "messageId": payload["messageId"],
        "failureCategory": payload["error"]["code"],
        "abandoned": payload.get("abandoned"),
    }
    detail, title = payload["error"]["message"], f"{payload['model']} failed"
    return _say("model.failed", "model", "failed", title, detail=detail, model=payload["model"], payload=shown)


def _signal(source: _SpelledEvent) -> Said:
    signal = source.payload["event"]
    phase, role = signal["phase"], signal.get("role")
    shown = {"messageId": signal.get("messageId"), "part": signal.get("part"), "role": role}
    call_id = signal.get("callId") or signal.get("toolId")
    if phase == adapter.OUTPUT_DELTA and role is None:
        return _say(
            "model.delta", "model", "running", "Assistant text", phase="streaming", payload=shown | _delta(signal)
        )
    if phase in (adapter.OUTPUT_DELTA, adapter.REASONING_DELTA) and role not in model.ASIDES:
        text = signal.get("text")
        return _say("reasoning.delta", "note", "running", role or "Reasoning", detail=text or None, payload=shown)
    if phase == adapter.TOOL_DELTA and isinstance(call_id, str):
        return _say("tool.arguments.delta", "tool", "running", "Tool arguments", toolCallId=call_id, payload=shown)
    if phase in ("agent.tool.start", "agent.tool.result") and isinstance(call_id, str):
        return _upstream_tool(signal, call_id)
    if phase == "agent.handoff":
        shown = {"handoffId": source.event.id, "adapter": signal.get("adapter"), "tools": signal.get("tools")}
        return _say("handoff.completed", "handoff", "completed", "Handed to the backend", payload=shown) | {
            "handoffId": source.event.id
        }
    step = signal.get("nodeId")
    scope = {"stepId": step} if isinstance(step, str) else {}
    return _say("run.status", "state", "running", phase, payload={"adapter": signal.get("adapter")}, **scope)


def _delta(signal: Mapping[str, Any]) -> Said:
    return {"delta": signal.get("text")}


def _upstream_tool(signal: Mapping[str, Any], call_id: str) -> Said:
    """A tool that the backend's own framework ran."""
    name = str(signal.get("tool") or signal.get("toolId") or "tool")
    if signal["phase"] == "agent.tool.start":
        shown = {"toolName": name, "inputPreview": values.preview(signal.get("args"))}
        if isinstance(tried := signal.get("attempt"), int) and tried > 1:
            return _say("run.status", "tool", "running", f"{name} is tried again", toolCallId=call_id, payload=shown)
        return _say("tool.started", "tool", "running", f"{name} started", toolCallId=call_id, payload=shown)
    if signal.get("error") is not None:
        shown = {"toolName": name, "errorPreview": values.preview(signal["error"])}
        return _say("tool.failed", "tool", "failed", f"{name} failed", toolCallId=call_id, payload=shown)
    shown = {"toolName": name, "outputPreview": values.preview(signal.get("output"))}
    return _say("tool.result", "tool", "completed", f"{name} returned", toolCallId=call_id, payload=shown)


# -- tools --------------------------------------------------------------------------------------------

_REFUSED_BY_GUARD: Final = frozenset({"TOOL_NOT_FOUND", "TOOL_NOT_ALLOWED", "INVALID_ARGUMENTS"})
"""A result with one of these follows an event of the guard, which stands for the call's start."""


def _guarded(source: _SpelledEvent) -> Said:
    payload = source.payload
    call, name = payload["callId"], payload["tool"]
    shown = {"toolName": name, "outcome": payload["outcome"], "findings": [one["kind"] for one in payload["findings"]]}
    if payload["outcome"] == "refused":
        return _say("tool.started", "tool", "blocked", f"{name} was refused", toolCallId=call, payload=shown)
    return _say(
        "permission.evaluated", "permission", "completed", f"{name} was repaired", toolCallId=call, payload=shown
    )


def _invoked(source: _SpelledEvent) -> Said:
    payload = source.payload
    call, name = payload["callId"], payload["tool"]
    shown = {
        "toolName": name,
        "family": "tool",
        "effect": payload.get("effect"),
        "attempt": payload.get("attempt"),
        "sandbox": payload.get("sandbox"),
        "inputPreview": values.preview(payload.get("arguments")),
    }
    if payload.get("attempt", 1) > 1:
        # It is running already; this is another try of the same call.
        return _say("run.status", "tool", "running", f"{name} is tried again", toolCallId=call, payload=shown)
    phase = "tool_running"
    return _say("tool.started", "tool", "running", f"{name} started", phase=phase, toolCallId=call, payload=shown)


def _resulted(source: _SpelledEvent) -> Said:
    payload = source.payload
    call, name, error = payload["callId"], payload["tool"], payload.get("error")
    more: Said = {"toolCallId": call, "completedAt": iso_at(source.event.at)}
    if payload["ok"]:
        shown = {"toolName": name, "outputPreview": values.preview(payload.get("output"))}
        return _say("tool.result", "tool", "completed", f"{name} returned", payload=shown, **more)
    code = error["code"] if error else "TOOL_FAILED"
    detail = error["message"] if error else None
    shown = {"toolName": name, "failureCategory": code, "errorPreview": values.preview(detail)}
    if "durationMs" in payload or code in _REFUSED_BY_GUARD:
        return _say("tool.failed", "tool", "failed", f"{name} failed", detail=detail, payload=shown, **more)
    # It never started: a rule, a person or a cancel was before it.
    title = f"{name} was not allowed"
    return _say("permission.resolved", "permission", "blocked", title, detail=detail, payload=shown, **more)


# -- decisions and people -----------------------------------------------------------------------------


def _decision(source: _SpelledEvent) -> Said:
    payload = source.payload
    name = payload.get("hook") or payload.get("guardrail") or payload.get("policyId") or "rule"
    decision = payload.get("decision") or payload.get("action")
    denied = decision in ("deny", "block")
    shown = {"rule": name, "decision": decision, "stage": payload.get("stage"), "handler": payload.get("handler")}
    call = payload.get("callId")
    scope = {"toolCallId": call} if isinstance(call, str) else {}
    status, title = "blocked" if denied else "completed", f"{name}: {decision}"
    return _say(
        "permission.evaluated", "permission", status, title, detail=payload.get("reason"), payload=shown, **scope
    )


def _gate(source: _SpelledEvent) -> Said:
    payload = source.payload
    passed = bool(payload.get("passed"))
    shown = {"reviewId": source.event.id, "gate": payload.get("gate"), "score": payload.get("score"), "passed": passed}
    return _review(source, "review.verdict", "completed" if passed else "failed", f"Gate {payload.get('gate')}", shown)


def _review(source: _SpelledEvent, name: str, status: str, title: str, shown: Said) -> Said:
    evidence = source.event.id
    return _say(
        name,
        "evidence",
        status,
        title,
        owner="evidence",
        reviewId=evidence,
        evidenceId=evidence,
        evidenceRefs=[evidence],
        payload=shown | {"reviewId": evidence},
    )


def _problem(title: str) -> Callable[[_SpelledEvent], Said]:
    def spell(source: _SpelledEvent) -> Said:
        payload = source.payload
        code = payload.get("code") or payload.get("budget") or payload.get("reason")
        return _say("runtime.error", "state", "failed", title, payload={"failureCategory": code})

    return spell


_CONTROLS: Final = {
    "approval": ("approve", "deny"),
    "recovery": ("retry", "use", "fail"),
    "question": ("answer",),
    "external": ("respond",),
    "paused": ("resume",),
}


def _timer(source: _SpelledEvent, status: str, title: str) -> Said:
    """A timer is no action: nobody can do anything about it."""
    task, action = f"workflow:{source.event.run_id}", source.payload["interruptId"]
    return _say("task.updated", "state", status, title, taskId=task, payload={"timerId": action})


def _raised(source: _SpelledEvent) -> Said:
    payload = source.payload
    if payload["kind"] == "timer":
        return _timer(source, "blocked", payload["title"])
    call = payload.get("callId")
    shown = {
        "actionKind": payload["kind"],
        "toolName": payload.get("tool"),
        "inputPreview": values.preview(payload.get("arguments")),
        "expiresAt": payload.get("expiresAt"),
        "controls": [{"decision": decision} for decision in _CONTROLS.get(payload["kind"], ())],
    }
    scope = {"toolCallId": call} if isinstance(call, str) else {}
    title, action = payload["title"] or "Action required", payload["interruptId"]
    phase = "action_required"
    return _say("action.required", "action", "blocked", title, phase=phase, actionId=action, payload=shown, **scope)


def _resolved(source: _SpelledEvent) -> Said:
    payload = source.payload
    decision = payload["answer"].get("decision") or "answered"
    shown = {"decision": _DECISIONS.get(decision, decision), "by": payload.get("answeredBy")}
    action = payload["interruptId"]
    return _say("action.resolved", "action", "completed", "Action resolved", actionId=action, payload=shown)


_DECISIONS: Final = {"approve": "approved", "deny": "rejected"}


def _expired(source: _SpelledEvent) -> Said:
    if source.payload["interruptId"].startswith("tmr_"):
        return _timer(source, "running", "The timer fired")
    action = source.payload["interruptId"]
    return _say(
        "action.expired", "action", "canceled", "Action expired", actionId=action, payload={"decision": "expired"}
    )


# -- roles, workflows, artifacts, the log itself ------------------------------------------------------


def _transitioned(source: _SpelledEvent) -> Said:
    payload = source.payload
    to, shown = payload["to"], {"from": payload.get("from"), "to": payload["to"], "reason": payload.get("reason")}
    worker = {"workerId": f"worker:{source.event.run_id}"}
    if to == "WORK":
        return _say("worker.started", "state", "running", "Work started", payload=shown, **worker)
    if to == "REVIEW":
        return _review(source, "review.requested", "running", "Review requested", shown)
    handoff = source.event.id
    shown |= {"handoffId": handoff}
    return _say("handoff.requested", "handoff", "running", f"Handed to {to}", handoffId=handoff, payload=shown)


def _reported(source: _SpelledEvent) -> Said:
    payload = source.payload
    role, report = payload["role"], payload["report"]
    shown = {"role": role, "messageId": payload.get("messageId"), "reportPreview": values.preview(report)}
    if role == "reviewer":
        verdict = report.get("verdict") if isinstance(report, dict) else None
        status = "completed" if verdict != "fail" else "failed"
        return _review(source, "review.verdict", status, f"Review: {verdict}", shown | {"verdict": verdict})
    if role == "worker":
        worker = f"worker:{source.event.run_id}"
        return _say("worker.completed", "state", "completed", "Work reported", workerId=worker, payload=shown)
    task = task_id(source.event.run_id or "")
    return _say("task.updated", "state", "running", f"{role} reported", taskId=task, payload=shown)


def _workflow(name: str, status: str, title: str) -> Callable[[_SpelledEvent], Said]:
    def spell(source: _SpelledEvent) -> Said:
        payload = source.payload
        kept = ("workflowId", "cycleId", "fromPhase", "toPhase", "phaseId", "verdict", "reason")
        shown = {key: payload.get(key) for key in kept}
        task = f"workflow:{source.event.run_id}"
        if (phase := payload.get("phaseId")) is not None:
            shown["parentTaskId"], task = task, f"{task}:{phase}"
        return _say(name, "state", status, title, taskId=task, detail=payload.get("reason"), payload=shown)

    return spell


def _artifact(source: _SpelledEvent) -> Said:
    made = source.payload["artifact"]
    shown = {
        "name": made["name"],
        "mimeType": made.get("mime"),
        "size": made.get("size"),
        "contentRef": f"/api/artifacts/{made['id']}/content",
    }
    refs = {"artifactId": made["id"], "artifactRefs": [made["id"]]}
    return _say("artifact.changed", "draft", "completed", made["name"], owner="artifact", payload=shown, **refs)


def _evidence(title: str, *names: str) -> Callable[[_SpelledEvent], Said]:
    def spell(source: _SpelledEvent) -> Said:
        shown, evidence = {name: source.payload.get(name) for name in names}, source.event.id
        refs = {"evidenceId": evidence, "evidenceRefs": [evidence]}
        return _say("evidence.changed", "evidence", "completed", title, owner="evidence", payload=shown, **refs)

    return spell


def _compacted(source: _SpelledEvent) -> Said:
    ranges = source.payload["ranges"]
    repairs = [{"from": one["fromSeq"], "to": one["toSeq"]} for one in ranges[:_MAX_REPAIRS]]
    shown = {"repairs": repairs, "dropped": source.payload["deltas"]}
    return _say("snapshot.updated", "state", "completed", "Old deltas were dropped", payload=shown)


_MAX_REPAIRS: Final = 400
"""Ranges that fit into a payload. The native event has all of them."""


def _narration(source: _SpelledEvent) -> Said:
    return _say("run.status", "state", "running", source.payload["message"][:200] or "Progress")


def _skill(source: _SpelledEvent) -> Said:
    invoked = source.event.type == skill.SkillInvoked.type
    status = "running" if invoked else "completed" if source.payload.get("ok") else "failed"
    title = f"Skill {source.payload['skill']}"
    return _say("skill.invoked" if invoked else "skill.completed", "skill", status, title)


def _other(source: _SpelledEvent) -> Said:
    """What has no word of its own there. Its type is not the class: some classes would need a scope that it lacks."""
    title = source.event.type.removeprefix("runtime.").replace(".", " ")
    name = "run.status" if source.event.run_id is not None else "session.updated"
    return _say(name, "state", "running" if source.event.run_id is not None else "completed", title)


_SPELLINGS: Final[dict[str, Callable[[_SpelledEvent], Said]]] = {
    thread.ThreadCreated.type: _session,
    thread.ThreadForked.type: _session,
    thread.ThreadUpdated.type: _of_session("session.updated", "Session updated"),
    thread.ThreadClosed.type: _of_session("session.closed", "Session closed"),
    thread.ThreadDeleted.type: _of_session("session.deleted", "Session deleted"),
    thread.TranscriptUpserted.type: _of_session("session.updated", "Transcript updated"),
    request.RequestQueued.type: _queued,
    request.RequestStarted.type: _started,
    request.RequestResumed.type: _status("Run resumed", "reason", "epoch"),
    request.RequestSuspended.type: _status("Run waits"),
    request.RequestCompleted.type: _completed,
    request.RequestFailed.type: _failed,
    request.RequestCancelled.type: _cancelled,
    execution.ExecutionContractFailed.type: _problem("Evidence is missing"),
    execution.CommandInjected.type: _status("Command received", "command"),
    execution.ContextCompacted.type: lambda source: _say(
        "context.resolved",
        "context",
        "completed",
        "Context shortened",
        payload={"strategy": source.payload["strategy"]},
    ),
    execution.CheckpointCreated.type: _status("Checkpoint", "label"),
    execution.BudgetExceeded.type: _problem("Budget exceeded"),
    model.ModelNegotiated.type: _status("Model chosen", "provider", phase="routing"),
    model.ModelRequested.type: _requested,
    model.ModelCompleted.type: _answered,
    model.ModelFailed.type: _model_failed,
    model.ModelRetryScheduled.type: _status("The model is asked again", "attempt", "delayMs", phase="waiting_provider"),
    adapter.AdapterEvent.type: _signal,
    tool.ToolGuarded.type: _guarded,
    tool.ToolInvoked.type: _invoked,
    tool.ToolResulted.type: _resulted,
    policy.HookFired.type: _decision,
    policy.GuardrailTriggered.type: _decision,
    policy.GateEvaluated.type: _gate,
    policy.SchemaViolated.type: _problem("A schema was violated"),
    interrupt.InterruptRaised.type: _raised,
    interrupt.InterruptResolved.type: _resolved,
    interrupt.InterruptExpired.type: _expired,
    skill.SkillInvoked.type: _skill,
    skill.SkillCompleted.type: _skill,
    skill.RoleTransitioned.type: _transitioned,
    skill.RoleReported.type: _reported,
    workflow.WorkflowStarted.type: _workflow("task.created", "running", "Workflow started"),
    workflow.WorkflowPhaseAdvanced.type: _workflow("task.updated", "running", "Phase advanced"),
    workflow.WorkflowPolicyGated.type: _decision,
    workflow.WorkflowCompleted.type: _workflow("task.completed", "completed", "Workflow completed"),
    workflow.WorkflowAborted.type: _workflow("task.failed", "failed", "Workflow aborted"),
    workflow.SpecPhaseStarted.type: _workflow("task.created", "running", "Phase started"),
    workflow.SpecPhaseBlocked.type: _workflow("task.updated", "blocked", "Phase blocked"),
    workflow.SpecPhaseCompleted.type: _workflow("task.completed", "completed", "Phase completed"),
    workflow.SpecPhaseVerified.type: _workflow("task.completed", "completed", "Phase verified"),
    artifact.ArtifactCreated.type: _artifact,
    log.ProgressNarration.type: _narration,
    log.EventAmended.type: _evidence("An event was amended", "amendsSeq", "reason"),
    log.LogCompacted.type: _compacted,
    "runtime.feedback.recorded": _evidence("Feedback", "runId", "score", "label"),
    "runtime.memory.recall.completed": lambda _source: _say(
        "context.resolved", "context", "completed", "Memory recalled"
    ),
}

"""Roles, workflows, artifacts and the log itself, as Lime's UI events tell them. Pure functions of the stored event."""

from collections.abc import Callable
from typing import Final

from app.events.catalog import skill
from app.protocols.dialects import lime_values as values
from app.protocols.dialects.lime_source import Said, SpelledEvent, review, say, task_id


def transitioned(source: SpelledEvent) -> Said:
    payload = source.payload
    to, shown = payload["to"], {"from": payload.get("from"), "to": payload["to"], "reason": payload.get("reason")}
    worker = {"workerId": f"worker:{source.event.run_id}"}
    if to == "WORK":
        return say("worker.started", "state", "running", "Work started", payload=shown, **worker)
    if to == "REVIEW":
        return review(source, "review.requested", "running", "Review requested", shown)
    handoff = source.event.id
    shown |= {"handoffId": handoff}
    return say("handoff.requested", "handoff", "running", f"Handed to {to}", handoffId=handoff, payload=shown)


def reported(source: SpelledEvent) -> Said:
    payload = source.payload
    role, report = payload["role"], payload["report"]
    shown = {"role": role, "messageId": payload.get("messageId"), "reportPreview": values.preview(report)}
    if role == "reviewer":
        verdict = report.get("verdict") if isinstance(report, dict) else None
        status = "completed" if verdict != "fail" else "failed"
        return review(source, "review.verdict", status, f"Review: {verdict}", shown | {"verdict": verdict})
    if role == "worker":
        worker = f"worker:{source.event.run_id}"
        return say("worker.completed", "state", "completed", "Work reported", workerId=worker, payload=shown)
    task = task_id(source.event.run_id or "")
    return say("task.updated", "state", "running", f"{role} reported", taskId=task, payload=shown)


def workflow_task(name: str, status: str, title: str) -> Callable[[SpelledEvent], Said]:
    def spell(source: SpelledEvent) -> Said:
        payload = source.payload
        kept = ("workflowId", "cycleId", "fromPhase", "toPhase", "phaseId", "verdict", "reason")
        shown = {key: payload.get(key) for key in kept}
        task = f"workflow:{source.event.run_id}"
        if (phase := payload.get("phaseId")) is not None:
            shown["parentTaskId"], task = task, f"{task}:{phase}"
        return say(name, "state", status, title, taskId=task, detail=payload.get("reason"), payload=shown)

    return spell


def artifact_changed(source: SpelledEvent) -> Said:
    made = source.payload["artifact"]
    shown = {
        "name": made["name"],
        "mimeType": made.get("mime"),
        "size": made.get("size"),
        "contentRef": f"/api/artifacts/{made['id']}/content",
    }
    refs = {"artifactId": made["id"], "artifactRefs": [made["id"]]}
    return say("artifact.changed", "draft", "completed", made["name"], owner="artifact", payload=shown, **refs)


def evidence(title: str, *names: str) -> Callable[[SpelledEvent], Said]:
    def spell(source: SpelledEvent) -> Said:
        shown, evidence = {name: source.payload.get(name) for name in names}, source.event.id
        refs = {"evidenceId": evidence, "evidenceRefs": [evidence]}
        return say("evidence.changed", "evidence", "completed", title, owner="evidence", payload=shown, **refs)

    return spell


def compacted(source: SpelledEvent) -> Said:
    ranges = source.payload["ranges"]
    repairs = [{"from": one["fromSeq"], "to": one["toSeq"]} for one in ranges[:_MAX_REPAIRS]]
    shown = {"repairs": repairs, "dropped": source.payload["deltas"]}
    return say("snapshot.updated", "state", "completed", "Old deltas were dropped", payload=shown)


_MAX_REPAIRS: Final = 400
"""Ranges that fit into a payload. The native event has all of them."""


def narration(source: SpelledEvent) -> Said:
    return say("run.status", "state", "running", source.payload["message"][:200] or "Progress")


def skill_use(source: SpelledEvent) -> Said:
    invoked = source.event.type == skill.SkillInvoked.type
    status = "running" if invoked else "completed" if source.payload.get("ok") else "failed"
    title = f"Skill {source.payload['skill']}"
    return say("skill.invoked" if invoked else "skill.completed", "skill", status, title)

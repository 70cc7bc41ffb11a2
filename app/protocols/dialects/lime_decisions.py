"""What rules and people decide, as Lime's UI events tell it. Pure functions of the stored event."""

from collections.abc import Callable
from typing import Final

from app.protocols.dialects import lime_values as values
from app.protocols.dialects.lime_source import Said, SpelledEvent, review, say


def decision(source: SpelledEvent) -> Said:
    payload = source.payload
    name = payload.get("hook") or payload.get("guardrail") or payload.get("policyId") or "rule"
    decision = payload.get("decision") or payload.get("action")
    denied = decision in ("deny", "block")
    shown = {"rule": name, "decision": decision, "stage": payload.get("stage"), "handler": payload.get("handler")}
    call = payload.get("callId")
    scope = {"toolCallId": call} if isinstance(call, str) else {}
    status, title = "blocked" if denied else "completed", f"{name}: {decision}"
    return say(
        "permission.evaluated", "permission", status, title, detail=payload.get("reason"), payload=shown, **scope
    )


def gate(source: SpelledEvent) -> Said:
    payload = source.payload
    passed = bool(payload.get("passed"))
    shown = {"reviewId": source.event.id, "gate": payload.get("gate"), "score": payload.get("score"), "passed": passed}
    return review(source, "review.verdict", "completed" if passed else "failed", f"Gate {payload.get('gate')}", shown)


def problem(title: str) -> Callable[[SpelledEvent], Said]:
    def spell(source: SpelledEvent) -> Said:
        payload = source.payload
        code = payload.get("code") or payload.get("budget") or payload.get("reason")
        return say("runtime.error", "state", "failed", title, payload={"failureCategory": code})

    return spell


_CONTROLS: Final = {
    "approval": ("approve", "deny"),
    "recovery": ("retry", "use", "fail"),
    "question": ("answer",),
    "external": ("respond",),
    "paused": ("resume",),
}


def _timer(source: SpelledEvent, status: str, title: str) -> Said:
    """A timer is no action: nobody can do anything about it."""
    task, action = f"workflow:{source.event.run_id}", source.payload["interruptId"]
    return say("task.updated", "state", status, title, taskId=task, payload={"timerId": action})


def raised(source: SpelledEvent) -> Said:
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
    return say("action.required", "action", "blocked", title, phase=phase, actionId=action, payload=shown, **scope)


def resolved(source: SpelledEvent) -> Said:
    payload = source.payload
    decision = payload["answer"].get("decision") or "answered"
    shown = {"decision": _DECISIONS.get(decision, decision), "by": payload.get("answeredBy")}
    action = payload["interruptId"]
    return say("action.resolved", "action", "completed", "Action resolved", actionId=action, payload=shown)


_DECISIONS: Final = {"approve": "approved", "deny": "rejected"}


def expired(source: SpelledEvent) -> Said:
    if source.payload["interruptId"].startswith("tmr_"):
        return _timer(source, "running", "The timer fired")
    action = source.payload["interruptId"]
    return say(
        "action.expired", "action", "canceled", "Action expired", actionId=action, payload={"decision": "expired"}
    )

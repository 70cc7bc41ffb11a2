"""Calls of models and tools, as Lime's UI events tell them. Pure functions of the stored event."""

from collections.abc import Mapping
from typing import Any, Final

from app.events.catalog import adapter, model
from app.events.envelope import iso_at
from app.protocols.dialects import lime_values as values
from app.protocols.dialects.lime_source import Said, SpelledEvent, say


def requested(source: SpelledEvent) -> Said:
    payload = source.payload
    shown = {name: payload.get(name) for name in ("messageId", "provider", "attempt", "role")}
    title, phase = f"{payload['model']} was asked", "waiting_provider"
    return say("model.requested", "model", "running", title, phase=phase, model=payload["model"], payload=shown)


def answered(source: SpelledEvent) -> Said:
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
        return say("run.status", "state", "running", f"A {role} was written", payload=shown)
    if role is not None:
        return say("reasoning.completed", "note", "completed", role, detail=text or None, payload=shown)
    shown["text"] = text
    title = "Assistant message"
    return say("model.completed", "model", "completed", title, model=payload["model"], payload=shown)


def model_failed(source: SpelledEvent) -> Said:
    payload = source.payload
    shown = {
        "messageId": payload["messageId"],
        "failureCategory": payload["error"]["code"],
        "abandoned": payload.get("abandoned"),
    }
    detail, title = payload["error"]["message"], f"{payload['model']} failed"
    return say("model.failed", "model", "failed", title, detail=detail, model=payload["model"], payload=shown)


def signal(source: SpelledEvent) -> Said:
    signal = source.payload["event"]
    phase, role = signal["phase"], signal.get("role")
    shown = {"messageId": signal.get("messageId"), "part": signal.get("part"), "role": role}
    call_id = signal.get("callId") or signal.get("toolId")
    if phase == adapter.OUTPUT_DELTA and role is None:
        return say(
            "model.delta", "model", "running", "Assistant text", phase="streaming", payload=shown | _delta(signal)
        )
    if phase in (adapter.OUTPUT_DELTA, adapter.REASONING_DELTA) and role not in model.ASIDES:
        text = signal.get("text")
        return say("reasoning.delta", "note", "running", role or "Reasoning", detail=text or None, payload=shown)
    if phase == adapter.TOOL_DELTA and isinstance(call_id, str):
        return say("tool.arguments.delta", "tool", "running", "Tool arguments", toolCallId=call_id, payload=shown)
    if phase in ("agent.tool.start", "agent.tool.result") and isinstance(call_id, str):
        return _upstream_tool(signal, call_id)
    if phase == "agent.handoff":
        shown = {"handoffId": source.event.id, "adapter": signal.get("adapter"), "tools": signal.get("tools")}
        return say("handoff.completed", "handoff", "completed", "Handed to the backend", payload=shown) | {
            "handoffId": source.event.id
        }
    step = signal.get("nodeId")
    scope = {"stepId": step} if isinstance(step, str) else {}
    return say("run.status", "state", "running", phase, payload={"adapter": signal.get("adapter")}, **scope)


def _delta(signal: Mapping[str, Any]) -> Said:
    return {"delta": signal.get("text")}


def _upstream_tool(signal: Mapping[str, Any], call_id: str) -> Said:
    """A tool that the backend's own framework ran."""
    name = str(signal.get("tool") or signal.get("toolId") or "tool")
    if signal["phase"] == "agent.tool.start":
        shown = {"toolName": name, "inputPreview": values.preview(signal.get("args"))}
        if isinstance(tried := signal.get("attempt"), int) and tried > 1:
            return say("run.status", "tool", "running", f"{name} is tried again", toolCallId=call_id, payload=shown)
        return say("tool.started", "tool", "running", f"{name} started", toolCallId=call_id, payload=shown)
    if signal.get("error") is not None:
        shown = {"toolName": name, "errorPreview": values.preview(signal["error"])}
        return say("tool.failed", "tool", "failed", f"{name} failed", toolCallId=call_id, payload=shown)
    shown = {"toolName": name, "outputPreview": values.preview(signal.get("output"))}
    return say("tool.result", "tool", "completed", f"{name} returned", toolCallId=call_id, payload=shown)


_REFUSED_BY_GUARD: Final = frozenset({"TOOL_NOT_FOUND", "TOOL_NOT_ALLOWED", "INVALID_ARGUMENTS"})
"""A result with one of these follows an event of the guard, which stands for the call's start."""


def guarded(source: SpelledEvent) -> Said:
    payload = source.payload
    call, name = payload["callId"], payload["tool"]
    shown = {"toolName": name, "outcome": payload["outcome"], "findings": [one["kind"] for one in payload["findings"]]}
    if payload["outcome"] == "refused":
        return say("tool.started", "tool", "blocked", f"{name} was refused", toolCallId=call, payload=shown)
    return say(
        "permission.evaluated", "permission", "completed", f"{name} was repaired", toolCallId=call, payload=shown
    )


def invoked(source: SpelledEvent) -> Said:
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
        return say("run.status", "tool", "running", f"{name} is tried again", toolCallId=call, payload=shown)
    phase = "tool_running"
    return say("tool.started", "tool", "running", f"{name} started", phase=phase, toolCallId=call, payload=shown)


def resulted(source: SpelledEvent) -> Said:
    payload = source.payload
    call, name, error = payload["callId"], payload["tool"], payload.get("error")
    more: Said = {"toolCallId": call, "completedAt": iso_at(source.event.at)}
    if payload["ok"]:
        shown = {"toolName": name, "outputPreview": values.preview(payload.get("output"))}
        return say("tool.result", "tool", "completed", f"{name} returned", payload=shown, **more)
    code = error["code"] if error else "TOOL_FAILED"
    detail = error["message"] if error else None
    shown = {"toolName": name, "failureCategory": code, "errorPreview": values.preview(detail)}
    if "durationMs" in payload or code in _REFUSED_BY_GUARD:
        return say("tool.failed", "tool", "failed", f"{name} failed", detail=detail, payload=shown, **more)
    # It never started: a rule, a person or a cancel was before it.
    title = f"{name} was not allowed"
    return say("permission.resolved", "permission", "blocked", title, detail=detail, payload=shown, **more)

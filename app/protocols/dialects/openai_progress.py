"""Tool progress and narration as extra stream events, for OpenAI clients that ask for them."""

from typing import Any, Final

import orjson

from app.events.catalog import adapter, log, tool
from app.events.envelope import Event, iso_at

_STATUS: Final = {
    tool.ToolInvoked.type: "started",
    tool.ToolDirectStarted.type: "started",
    tool.ToolDirectCompleted.type: "completed",
    "agent.tool.start": "started",
    "agent.tool.result": "completed",
}


def progress_frame(event: Event, agent: str | None) -> bytes | None:
    """The event's extra frame; None for the many that have none."""
    if event.type == log.ProgressNarration.type:
        return _frame("stable_harness.progress.narration", event, agent, event.payload)
    if event.type == tool.ToolResulted.type:
        payload = event.payload
        return _tool(
            event, agent, event.type, payload["tool"], payload["callId"], "completed" if payload["ok"] else "failed"
        )
    if event.type == adapter.AdapterEvent.type:
        signal = event.payload["event"]
        status = _STATUS.get(signal["phase"])
        if status is None:
            return None
        return _tool(event, agent, signal["phase"], signal.get("toolId"), signal.get("callId"), status)
    status = _STATUS.get(event.type)
    if status is None:
        return None
    payload = event.payload
    return _tool(event, agent, event.type, payload.get("tool") or payload.get("toolId"), payload.get("callId"), status)


def _tool(event: Event, agent: str | None, kind: str, name: Any, call_id: Any, status: str) -> bytes:
    more = {"eventType": kind, "toolId": name, "callId": call_id, "status": status}
    return _frame("stable_harness.tool.progress", event, agent, more)


def _frame(name: str, event: Event, agent: str | None, more: dict[str, Any]) -> bytes:
    body = {
        "type": name,
        "requestId": event.run_id,
        "sessionId": event.thread_id,
        "agentId": agent,
        "seq": event.seq,
        "at": iso_at(event.at),
        **more,
    }
    return b"event: %s\ndata: %s\n\n" % (name.encode(), orjson.dumps(body))

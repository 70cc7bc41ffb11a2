"""Threads, turns and tasks, as Lime's UI events tell them. Pure functions of the stored event."""

from collections.abc import Callable
from typing import Any

from app.events.catalog import thread
from app.events.envelope import iso_at
from app.protocols.dialects import lime_values as values
from app.protocols.dialects.lime_source import Said, SpelledEvent, say


def session(source: SpelledEvent) -> Said:
    payload = source.payload
    forked = {"forkedFrom": payload.get("threadId"), "forkedAt": payload.get("seq")}
    is_fork = source.event.type == thread.ThreadForked.type
    return say(
        "session.created",
        "state",
        "completed",
        "Session forked" if is_fork else "Session created",
        payload={"name": payload.get("title"), **(forked if is_fork else {})},
    )


def of_session(name: str, title: str) -> Callable[[SpelledEvent], Said]:
    return lambda source: say(name, "state", "completed", title)


def queued(source: SpelledEvent) -> Said:
    payload, text = source.payload, values.inline_text(source.payload.get("input"))
    shown: Said = {"text": text, "agent": source.name}
    if text is None:
        shown["inputPreview"] = values.preview(payload.get("input"))
    if source.is_child:
        assert source.lineage is not None
        shown |= {"parentRunId": source.lineage.parent_run_id, "parentTaskId": source.lineage.parent_task_id}
        return say("task.created", "state", "pending", f"Task for {source.name}", payload=shown)
    return say("turn.submitted", "state", "pending", "Turn submitted", phase="submitted", payload=shown)


def _subagent(source: SpelledEvent, name: str, status: str, title: str, **more: Any) -> Said:
    return say(name, "state", status, title, subagentId=f"subagent:{source.event.run_id}", **more)


def started(source: SpelledEvent) -> Said:
    if source.is_child:
        return _subagent(source, "subagent.started", "running", f"{source.name} started")
    return say("turn.started", "state", "running", "Turn started", phase="preparing")


def completed(source: SpelledEvent) -> Said:
    payload, ended = source.payload, iso_at(source.event.at)
    shown: Said = {"messageId": payload.get("messageId"), "usage": values.usage(payload.get("usage"))}
    if shown["messageId"] is None:
        output = payload.get("output")
        shown["text"] = values.inline_text(output) if isinstance(output, str) else values.preview(output)
    if source.is_child:
        title = f"{source.name} completed"
        return _subagent(source, "subagent.completed", "completed", title, completedAt=ended, payload=shown)
    return say(
        "turn.completed", "state", "completed", "Turn completed", phase="completed", completedAt=ended, payload=shown
    )


def failed(source: SpelledEvent) -> Said:
    error, ended = source.payload["error"], iso_at(source.event.at)
    more = {"detail": error["message"], "completedAt": ended, "payload": {"failureCategory": error["code"]}}
    if source.is_child:
        return _subagent(source, "subagent.failed", "failed", f"{source.name} failed", **more)
    return say("turn.failed", "state", "failed", "Turn failed", phase="failed", **more)


def cancelled(source: SpelledEvent) -> Said:
    more = {"detail": source.payload.get("reason"), "completedAt": iso_at(source.event.at)}
    if source.is_child:
        return _subagent(source, "subagent.canceled", "canceled", f"{source.name} was cancelled", **more)
    return say("turn.canceled", "state", "canceled", "Turn cancelled", phase="canceled", **more)

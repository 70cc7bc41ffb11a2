"""The trace: what happened when, in the first source's nine categories, with starts and ends paired.

Categories are derived from types and signals, never stored. Models and policy decisions stand under the
category of whoever they served: `adapter` for the backend's own work, `request` for the run as a whole.
"""

from collections.abc import Iterable
from typing import Any, Final

from app.core.clock import iso
from app.events.catalog import adapter
from app.events.envelope import Event

CATEGORIES: Final = (
    "request",
    "tool.direct",
    "agent.tool",
    "adapter",
    "memory",
    "artifact",
    "spec",
    "plan",
    "delegation",
)

_BY_PREFIX: Final = (
    ("runtime.tool.direct.", "tool.direct"),
    ("runtime.tool.", "agent.tool"),
    ("runtime.memory.", "memory"),
    ("runtime.artifact.", "artifact"),
    ("runtime.undo.", "artifact"),
    ("runtime.specDriven.", "spec"),
    ("runtime.workflow.", "plan"),
    ("runtime.role.", "plan"),
    ("runtime.model.", "adapter"),
    ("runtime.context.", "adapter"),
    ("runtime.thread.", None),
    ("runtime.transcript.", None),
    ("runtime.progress.", None),
    ("runtime.snapshot.", None),
    ("runtime.log.", None),
    ("runtime.", "request"),
)

_ENDS: Final = {
    "runtime.request.completed": "completed",
    "runtime.request.failed": "failed",
    "runtime.request.cancelled": "cancelled",
    "runtime.tool.direct.completed": "completed",
    "runtime.tool.resulted": "completed",
    "runtime.model.completed": "completed",
    "runtime.model.failed": "failed",
    "runtime.memory.plugin.completed": "completed",
    "runtime.memory.plugin.failed": "failed",
    "runtime.memory.maintenance.completed": "completed",
    "runtime.memory.maintenance.failed": "failed",
    "runtime.specDriven.phase.completed": "completed",
    "runtime.specDriven.phase.blocked": "blocked",
    "runtime.workflow.completed": "completed",
    "runtime.workflow.aborted": "failed",
    "runtime.skill.completed": "completed",
    "agent.tool.result": "completed",
}
_STARTS: Final = frozenset(
    {
        "runtime.request.queued",
        "runtime.tool.direct.started",
        "runtime.tool.invoked",
        "runtime.model.requested",
        "runtime.memory.plugin.started",
        "runtime.memory.maintenance.started",
        "runtime.specDriven.phase.started",
        "runtime.workflow.started",
        "runtime.skill.invoked",
        "agent.tool.start",
    }
)


def category(event: Event) -> str | None:
    """None for what is not part of a run's trace."""
    if event.type == adapter.AdapterEvent.type:
        signal = event.payload["event"]
        if signal.get("traceType") in ("plan", "delegation"):
            return str(signal["traceType"])
        return "agent.tool" if signal["phase"] in ("agent.tool.start", "agent.tool.result") else "adapter"
    if event.type == "runtime.request.queued" and event.payload.get("parentRunId"):
        return "delegation"
    return next(found for prefix, found in _BY_PREFIX if event.type.startswith(prefix))


def trace(events: Iterable[Event]) -> list[dict[str, Any]]:
    """Spans where a start has its end, points otherwise; deltas are counted in their message, not listed."""
    items: list[dict[str, Any]] = []
    open_spans: dict[tuple[str | None, str, str], dict[str, Any]] = {}
    for event in events:
        group = category(event)
        if group is None:
            continue
        name, payload = event.type, event.payload
        if name == adapter.AdapterEvent.type:
            payload = payload["event"]
            name = payload["phase"]
            if name in adapter.DELTAS:
                continue
        subject = _subject(event, payload)
        if name in _ENDS and (span := open_spans.pop((event.run_id, _family(name), subject), None)) is not None:
            failed = payload.get("ok") is False or payload.get("error") is not None
            span |= {
                "status": "failed" if failed else _ENDS[name],
                "endSeq": event.seq,
                "endAt": iso(event.at),
            }
            continue
        item = {
            "category": group,
            "name": name,
            "subject": subject,
            "status": "running" if name in _STARTS else "event",
            "runId": event.run_id,
            "seq": event.seq,
            "at": iso(event.at),
        }
        items.append(item)
        if name in _STARTS:
            open_spans[event.run_id, _family(name), subject] = item
    return items


def _family(name: str) -> str:
    """What a start and its end have in common."""
    return {"runtime.tool.invoked": "tool", "runtime.tool.resulted": "tool"}.get(name) or name.rpartition(".")[0]


def _subject(event: Event, payload: dict[str, Any]) -> str:
    if event.type.startswith("runtime.request."):
        return event.run_id or event.thread_id  # whatever message or call the run began or ended with
    for key in ("callId", "messageId", "toolId", "phaseId", "workflowId", "memoryId", "target", "skill"):
        if payload.get(key):
            return str(payload[key])
    return event.run_id or event.thread_id

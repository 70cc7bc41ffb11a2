"""The snapshot: where a run or thread stands, recomputed from the log, small enough to send at once."""

from collections.abc import Iterable, Sequence
from typing import Any

from app.events.catalog import model, request, skill, tool
from app.events.envelope import Event
from app.views.amendments import amended_events
from app.views.cycle import CycleProgress
from app.views.records import replay
from app.views.run import Run, run_json
from app.views.thread import thread_json
from app.views.usage import usage


def snapshot(thread_id: str, events: Sequence[Event], run_id: str | None = None) -> dict[str, Any]:
    """With `run_id`, of that run alone; `events` are the thread's from its first one on."""
    records = replay(thread_id, events)
    events = amended_events(events)
    mine = [event for event in events if run_id is None or event.run_id == run_id]
    roles: dict[str, str] = {}
    tools: list[dict[str, Any]] = []
    output: Any = None
    progress = _progress(events, records.runs.values(), run_id)
    open_messages: dict[str, str] = {}
    for event in mine:
        payload = event.payload
        match event.type:
            case skill.RoleTransitioned.type:
                roles[event.actor] = payload["to"]
            case tool.ToolInvoked.type:
                tools.append({"callId": payload["callId"], "tool": payload["tool"], "arguments": payload["arguments"]})
            case request.RequestCompleted.type:
                output = payload["output"]
            case model.ModelRequested.type:
                open_messages[payload["messageId"]] = payload["model"]
            case model.ModelCompleted.type | model.ModelFailed.type:
                open_messages.pop(payload["messageId"], None)
    runs = [run for run in records.runs.values() if run_id is None or run.id == run_id]
    return {
        "thread": thread_json(records.thread),
        "runs": [run_json(run) for run in runs],
        "upToSeq": records.thread.last_seq,
        "closed": all(run.terminal for run in runs) and bool(runs),
        "output": output,
        "roles": roles,
        "toolsInvoked": tools,
        "phases": list(progress.visited),
        "verdict": progress.verdict,
        "workflow": progress.to_json(),
        "messagesInFlight": sorted(open_messages),
        "openInterrupts": [
            i.id for i in records.interrupts.values() if i.status == "open" and run_id in (None, i.run_id)
        ],
        "usage": usage(mine)["total"],
    }


def _progress(events: Sequence[Event], runs: Iterable[Run], run_id: str | None) -> CycleProgress:
    """Of the run and of those that it began: a skill or a lead may have chosen a cycle."""
    ids = {run_id}
    for run in runs:
        if run.parent_run_id in ids:
            ids.add(run.id)
    progress = CycleProgress()
    for event in events:
        if run_id is None or event.run_id in ids:
            progress.apply(event)
    return progress

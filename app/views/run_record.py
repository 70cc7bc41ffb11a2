"""What a run did, as evaluators see it: input, answer, tool calls, time and cost, folded from its events.

The same fold serves a run that is about to answer and one that has ended, so both get the same scores. Leaves to
others: loading the events (`RECORDED`) and putting large values back.
"""

from collections.abc import Iterable
from dataclasses import field
from typing import Any, Final

from app.core.json import JsonObject
from app.core.value import mutable
from app.events.catalog import memory, model, request, tool
from app.events.envelope import Event

RECORDED: Final = (
    request.RequestQueued.type,
    request.RequestStarted.type,
    request.RequestCompleted.type,
    request.RequestFailed.type,
    request.RequestCancelled.type,
    model.ModelCompleted.type,
    memory.MemoryEmbeddingCompleted.type,
    tool.ToolInvoked.type,
    tool.ToolResulted.type,
)
"""The types that the record is made of."""
_ENDS: Final = {
    request.RequestCompleted.type: "completed",
    request.RequestFailed.type: "failed",
    request.RequestCancelled.type: "cancelled",
}


@mutable(slots=True)
class CalledTool:
    id: str
    name: str
    arguments: Any = None
    ok: bool | None = None
    """None as long as there is no result."""

    def to_json(self) -> JsonObject:
        return {"tool": self.name, "arguments": self.arguments, "ok": self.ok}


@mutable(slots=True)
class RunRecord:
    run_id: str
    thread_id: str = ""
    agent: str | None = None
    input: Any = None
    output: Any = None
    status: str = "running"
    error: JsonObject | None = None
    labels: JsonObject = field(default_factory=dict)
    tool_calls: list[CalledTool] = field(default_factory=list)
    """Of the run itself, in the order in which they began."""
    models: list[str] = field(default_factory=list)
    latency_ms: int = 0
    """From the start of the run to its last model answer or tool result; of a run without any, to its end."""
    cost_usd: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    expected: Any = None
    """What a dataset's case says that the output should be."""

    def to_json(self) -> JsonObject:
        return {
            "runId": self.run_id,
            "threadId": self.thread_id,
            "agent": self.agent,
            "input": self.input,
            "output": self.output,
            "expected": self.expected,
            "status": self.status,
            "error": self.error,
            "labels": self.labels,
            "toolCalls": [call.to_json() for call in self.tool_calls],
            "models": self.models,
            "latencyMs": self.latency_ms,
            "costUsd": self.cost_usd,
            "inputTokens": self.input_tokens,
            "outputTokens": self.output_tokens,
        }


def run_record(run_id: str, events: Iterable[Event], *, now_ms: int | None = None) -> RunRecord:
    """`events` are of the run and its subagents, in order; others of the thread are left out.

    `now_ms` stands for the end of a run that has not ended.
    """
    record, started, last, ended = RunRecord(run_id), 0, 0, now_ms
    calls: dict[str, CalledTool] = {}
    family = {run_id}
    for event in events:
        payload = event.payload
        if event.type == request.RequestQueued.type and payload.get("parentRunId") in family:
            family.add(event.run_id or "")
        if event.run_id not in family:
            continue
        if event.type == model.ModelCompleted.type:
            if payload.get("role") != model.JUDGE:  # what judging costs is not the run's doing
                _used(record, payload)
                last = event.at
        elif event.type == memory.MemoryEmbeddingCompleted.type:
            _used(record, payload)
        elif event.type == tool.ToolResulted.type:
            last = event.at
        if event.run_id != run_id:
            continue
        match event.type:
            case request.RequestQueued.type:
                record.thread_id, record.agent = event.thread_id, payload.get("agent")
                record.input, record.labels = payload.get("input"), dict(payload.get("labels") or {})
            case request.RequestStarted.type:
                started = started or event.at
            case tool.ToolInvoked.type:
                if payload["callId"] not in calls:  # one that is repeated after a crash is one call
                    called = CalledTool(payload["callId"], payload["tool"], payload.get("arguments"))
                    calls[called.id] = called
                    record.tool_calls.append(called)
            case tool.ToolResulted.type:
                if payload["callId"] in calls:
                    calls[payload["callId"]].ok = bool(payload["ok"])
            case _ if event.type in _ENDS:
                record.status, ended = _ENDS[event.type], event.at
                record.output, record.error = payload.get("output"), payload.get("error")
    record.latency_ms = max(0, (last or ended or started) - started) if started else 0
    return record


def _used(record: RunRecord, payload: JsonObject) -> None:
    usage = payload["usage"]
    record.cost_usd = round(record.cost_usd + (usage.get("costUsd") or 0.0), 9)
    record.input_tokens += usage.get("inputTokens") or 0
    record.output_tokens += usage.get("outputTokens") or 0
    if payload["model"] not in record.models:
        record.models.append(payload["model"])

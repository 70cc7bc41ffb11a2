"""Usage: tokens, cost and calls, in total and by model."""

from collections.abc import Iterable
from typing import Any

from app.events.catalog import memory, model, tool
from app.events.envelope import Event


def usage(events: Iterable[Event]) -> dict[str, Any]:
    by_model: dict[str, dict[str, Any]] = {}
    tool_calls = 0
    for event in events:
        if event.type == tool.ToolInvoked.type:
            tool_calls += 1
        if event.type not in (model.ModelCompleted.type, memory.MemoryEmbeddingCompleted.type):
            continue
        payload = event.payload
        row = by_model.setdefault(payload["model"], {"calls": 0, "inputTokens": 0, "outputTokens": 0, "costUsd": 0.0})
        row["calls"] += payload.get("requestCount", 1)
        for name in ("inputTokens", "outputTokens", "costUsd"):
            row[name] += payload["usage"].get(name, 0)
    total = {
        name: sum(row[name] for row in by_model.values())
        for name in ("calls", "inputTokens", "outputTokens", "costUsd")
    }
    return {"total": {**total, "toolCalls": tool_calls}, "byModel": by_model}

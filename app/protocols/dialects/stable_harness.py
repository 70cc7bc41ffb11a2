"""Events as clients of the stable-harness event model know them: the ids in each event, and the published trace views.

Our payloads do not repeat what the envelope says; here run, thread and agent stand in each event as `requestId`,
`sessionId` and `agentId`, next to the payload's own fields. A pure function of the stored event and its run's agent.
"""

from typing import Any, Final

from app.events.envelope import Event, iso_at
from app.views.trace import category

NAME: Final = "stable-harness"

_CATEGORIES: Final = {"tool.direct": "tool", "agent.tool": "adapter"}
"""Views whose published category has another name than the view."""


def stable_event(event: Event, agent: str | None) -> dict[str, Any]:
    view = category(event)
    trace = None if view is None else {"view": f"runtime.trace.{view}", "category": _CATEGORIES.get(view, view)}
    return {
        **event.payload,
        "type": event.type,
        "id": event.id,
        "requestId": event.run_id,
        "sessionId": event.thread_id,
        "agentId": agent,
        "seq": event.seq,
        "timestamp": iso_at(event.at),
        "trace": trace,
    }

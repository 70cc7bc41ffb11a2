"""The envelope around signals that a backend or its upstream owns: `agent.*` phases."""

from typing import Final

from app.events.catalog.base import EventModel, Open, event

OUTPUT_DELTA: Final = "agent.output.delta"
REASONING_DELTA: Final = "agent.reasoning.delta"
TOOL_DELTA: Final = "agent.tool.delta"
HANDOFF: Final = "agent.handoff"
TOOL_START: Final = "agent.tool.start"
TOOL_RESULT: Final = "agent.tool.result"
DELTAS: Final = frozenset({OUTPUT_DELTA, REASONING_DELTA, TOOL_DELTA})


class Signal(Open):
    """What the backend said. Deltas carry `messageId`, `part` and `text`; other phases add their own fields."""

    adapter: str
    phase: str
    trace_type: str | None = None
    message_id: str | None = None
    part: int | None = None
    text: str | None = None
    tool_id: str | None = None
    call_id: str | None = None
    role: str | None = None
    """Of the voice within the agent that speaks; without one it is the agent itself."""


@event("runtime.adapter.event")
class AdapterEvent(EventModel):
    event: Signal

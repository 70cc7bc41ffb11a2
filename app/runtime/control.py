"""What reaches a run from outside while it is worked on: its cancel, and commands that wait to be taken up.

The executor holds one per run and its steps look at it. Leaves to the log: making any of it durable first.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from app.core.signal import Signal
from app.events.ports import Draft


class Cancellation(Signal):
    """Set when the run's cancel was committed. While tools act, they are given their grace to end."""

    def __init__(self) -> None:
        super().__init__()
        self.acting = False


@dataclass(slots=True)
class Control:
    cancelled: Cancellation = field(default_factory=Cancellation)
    commands: list[dict[str, Any]] = field(default_factory=list)
    """Committed commands since the run was entered, oldest first."""
    held: list[Draft] = field(default_factory=list)
    """Events that are ready and go with whatever the run records next: see `RunLog.hold`."""
    flushing: "asyncio.Task[None] | None" = None
    """Records what was held, because the run did not get to record anything else at once."""
    draining: bool = False
    """The server stops: no tool begins any more whose repetition could do harm."""
    children: set[str] = field(default_factory=set)
    """Runs of subagents that have begun and not ended; they end with their parent."""

    async def take_held(self) -> list[Draft]:
        """For whoever records next. What went ahead is stored by then, or its failure is raised."""
        if self.flushing is not None:
            flushing, self.flushing = self.flushing, None
            await flushing
        held, self.held = self.held, []
        return held

"""What reaches a run from outside while it is worked on: its cancel, and commands that wait to be taken up.

The executor holds one per run and its steps look at it. Leaves to the log: making any of it durable first.
"""

from dataclasses import dataclass, field
from typing import Any

from app.core.signal import Signal


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
    children: set[str] = field(default_factory=set)
    """Runs of subagents that have begun and not ended; they end with their parent."""

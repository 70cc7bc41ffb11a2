"""What a run asks of a run of its own: an agent with an input, perhaps following a skill, or a workflow."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ChildRequest:
    agent: str | None
    input: Any
    call_id: str
    """What the child is known by when its parent is entered again."""
    skill: str | None = None
    workflow: str | None = None


@dataclass(slots=True)
class Branch:
    """A part of a run that may end while the run goes on."""

    ended: bool = False

"""What a run asks of a run of its own: an agent with an input, perhaps following a skill, or a workflow."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from app.core.json import JsonObject, present
from app.core.value import mutable, value


@value(frozen=True, slots=True)
class ChildRequest:
    agent: str | None
    input: Any
    call_id: str
    """What the child is known by when its parent is entered again."""
    skill: str | None = None
    workflow: str | None = None
    instructions: str | None = None
    """What is added to the agent's own."""
    tools: frozenset[str] | None = None
    """The most it may use of the workspace's tools; it then has no subagents and no skills. None leaves it its own."""
    writes: tuple[str, ...] | None = None
    """Patterns of the files that it may write; None leaves that to its tools."""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def asked(self) -> JsonObject:
        """What is asked for beyond the input, as `runtime.request.queued` has it."""
        return present(
            {
                "skill": self.skill,
                "instructions": self.instructions,
                "metadata": dict(self.metadata) or None,
            }
        )


@mutable(slots=True)
class Branch:
    """A part of a run that may end while the run goes on."""

    ended: bool = False

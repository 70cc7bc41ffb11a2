"""What a cycle asks of the run that it is part of: agents, events, hooks, artifacts and people. Protocols only.

A cycle reaches models and tools through agents alone: there is nothing else here.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Protocol

from app.backends.contract import AgentAnswer
from app.core.artifact import ArtifactRef
from app.core.decisions import Decision
from app.core.json import JsonObject
from app.core.value import value
from app.events.catalog import Payload
from app.policy.contract import Point


@value(frozen=True, slots=True)
class AgentTask:
    """A request to an agent on behalf of a phase."""

    key: str
    """Names the request in the run; a recorded answer to it is returned without asking again."""
    agent: str
    input: JsonObject
    instructions: str | None = None
    tools: frozenset[str] | None = None
    """The most it may use; None leaves the agent its own."""
    paths: tuple[str, ...] | None = None
    """Patterns of the files that it may write; None leaves that to its tools."""
    metadata: Mapping[str, Any] = field(default_factory=dict)


class CycleRun(Protocol):
    @property
    def run_id(self) -> str: ...

    @property
    def submitted_ms(self) -> int:
        """When the run was submitted: what artifacts are dated by."""
        ...

    async def perform(self, task: AgentTask) -> AgentAnswer:
        """An agent's run, within this one's lease, slot and budget."""
        ...

    async def record(self, payload: Payload) -> None:
        """A fact, recorded once, also when the run is entered again."""
        ...

    async def fire(self, point: Point, subject: JsonObject, key: str) -> tuple[Decision, JsonObject]:
        """What the hooks decide, and the subject after their changes."""
        ...

    async def artifact(self, name: str, mime: str, data: bytes) -> ArtifactRef: ...

    async def approve(self, title: str, show: Any, key: str) -> bool:
        """A person's yes or no; the run waits for it without a worker."""
        ...

"""What the steps ask of capabilities that have their own rooms; without a kind each of them lets everything pass.

Every one can be added, left out and replaced alone.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal, Protocol

from app.core.decisions import Allow, Decision
from app.core.json import JsonObject
from app.policy.gates import AgentGates
from app.workspace.compiled import CompiledAgent, CompiledWorkspace

_NO_GATES: Final = AgentGates()


class Guardrails(Protocol):
    async def check(self, stage: Literal["input", "output"], content: Any, agent: CompiledAgent) -> Decision:
        """A denial fails the run; a transform goes on instead of the content."""
        ...


class GateCatalog(Protocol):
    def of(self, workspace: CompiledWorkspace, agent: CompiledAgent) -> AgentGates:
        """The gates that an agent's answers pass, or are judged by afterwards."""
        ...


class Memory(Protocol):
    async def recall(self, tenant: str, content: Any, agent: CompiledAgent) -> Sequence[str]:
        """What is worth knowing before the run plans, as notes for its context."""
        ...

    async def learn(self, tenant: str, messages: Sequence[JsonObject], agent: CompiledAgent) -> None:
        """Offer what a run said as candidates."""
        ...


class NoGuardrails:
    async def check(self, stage: Literal["input", "output"], content: Any, agent: CompiledAgent) -> Decision:
        return Allow()


class NoGates:
    def of(self, workspace: CompiledWorkspace, agent: CompiledAgent) -> AgentGates:
        return _NO_GATES


class NoMemory:
    async def recall(self, tenant: str, content: Any, agent: CompiledAgent) -> Sequence[str]:
        return ()

    async def learn(self, tenant: str, messages: Sequence[JsonObject], agent: CompiledAgent) -> None:
        return None

"""What the steps ask of capabilities that have their own rooms; without a kind each of them lets everything pass.

Every one can be added, left out and replaced alone.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from app.core.errors import Failure
from app.core.json import JsonObject
from app.workspace.compiled import CompiledAgent


class Gates(Protocol):
    async def judge(self, output: str, agent: CompiledAgent) -> Failure | None:
        """Why the output may not leave, if it may not."""
        ...


class Memory(Protocol):
    async def recall(self, tenant: str, content: Any, agent: CompiledAgent) -> Sequence[str]:
        """What is worth knowing before the run plans, as notes for its context."""
        ...

    async def learn(self, tenant: str, messages: Sequence[JsonObject], agent: CompiledAgent) -> None:
        """Offer what a run said as candidates."""
        ...


class NoGates:
    async def judge(self, output: str, agent: CompiledAgent) -> Failure | None:
        return None


class NoMemory:
    async def recall(self, tenant: str, content: Any, agent: CompiledAgent) -> Sequence[str]:
        return ()

    async def learn(self, tenant: str, messages: Sequence[JsonObject], agent: CompiledAgent) -> None:
        return None

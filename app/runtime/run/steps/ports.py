"""What the steps ask of capabilities that have their own rooms; without a kind each of them lets everything pass.

Every one can be added, left out and replaced alone.
"""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

from app.core.decisions import Allow, Decision
from app.core.errors import Failure
from app.memory.contract import Recalled, RunIdentity, Said
from app.memory.governance import Check
from app.memory.service import Learned
from app.workspace.compiled import CompiledAgent, CompiledMemory


class Guardrails(Protocol):
    async def check(self, stage: Literal["input", "output"], content: Any, agent: CompiledAgent) -> Decision:
        """A denial fails the run; a transform goes on instead of the content."""
        ...


class Gates(Protocol):
    async def judge(self, output: str, agent: CompiledAgent) -> Failure | None:
        """Why the output may not leave, if it may not."""
        ...


class Memory(Protocol):
    async def recall(
        self, identity: RunIdentity, memories: Sequence[CompiledMemory], query: str, seen: frozenset[str]
    ) -> Sequence[Recalled]:
        """What each memory knows about the query, without the records that were seen already."""
        ...

    async def learn(
        self,
        identity: RunIdentity,
        memories: Sequence[CompiledMemory],
        said: Said,
        key: str,
        check: Check | None,
        used: Sequence[str],
    ) -> Sequence[Learned]:
        """Offer what a run said as candidates. Given the same key again, nothing is stored again."""
        ...


class NoGuardrails:
    async def check(self, stage: Literal["input", "output"], content: Any, agent: CompiledAgent) -> Decision:
        return Allow()


class NoGates:
    async def judge(self, output: str, agent: CompiledAgent) -> Failure | None:
        return None


class NoMemory:
    async def recall(
        self, identity: RunIdentity, memories: Sequence[CompiledMemory], query: str, seen: frozenset[str]
    ) -> Sequence[Recalled]:
        return ()

    async def learn(
        self,
        identity: RunIdentity,
        memories: Sequence[CompiledMemory],
        said: Said,
        key: str,
        check: Check | None,
        used: Sequence[str],
    ) -> Sequence[Learned]:
        return ()

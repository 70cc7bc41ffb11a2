"""What the steps ask of capabilities that have their own rooms; without a kind each of them lets everything pass.

Every one can be added, left out and replaced alone.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from app.memory.contract import Embeddings, Recalled, RunIdentity, Said
from app.memory.governance import Check
from app.memory.service import Learned
from app.policy.gates import AgentGates, ScoredBy
from app.workspace.compiled import CompiledAgent, CompiledMemory, CompiledWorkspace

NO_GATES: Final = AgentGates()


class GateCatalog(Protocol):
    def of(self, workspace: CompiledWorkspace, agent: CompiledAgent) -> AgentGates:
        """The gates that an agent's answers pass, or are judged by afterwards."""
        ...

    def evaluators(self, workspace: CompiledWorkspace) -> Mapping[str, ScoredBy]:
        """All evaluators of the workspace, by name."""
        ...


class Memory(Protocol):
    async def recall(
        self,
        identity: RunIdentity,
        memories: Sequence[CompiledMemory],
        query: str,
        seen: frozenset[str],
        embeddings: Embeddings | None = None,
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
        embeddings: Embeddings | None = None,
        before: Callable[[], None] | None = None,
    ) -> Sequence[Learned]:
        """Offer what a run said as candidates. Given the same key again, nothing is stored again. `before` is called
        before anything is appended, so that what it appends is stored in the same commit."""
        ...


class NoGates:
    def of(self, workspace: CompiledWorkspace, agent: CompiledAgent) -> AgentGates:
        return NO_GATES

    def evaluators(self, workspace: CompiledWorkspace) -> Mapping[str, ScoredBy]:
        return {}


class NoMemory:
    async def recall(
        self,
        identity: RunIdentity,
        memories: Sequence[CompiledMemory],
        query: str,
        seen: frozenset[str],
        embeddings: Embeddings | None = None,
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
        embeddings: Embeddings | None = None,
        before: Callable[[], None] | None = None,
    ) -> Sequence[Learned]:
        return ()

"""What a run lends to memory while it works: its guardrails for what is to be kept, its budget for embeddings.

The steps bring it, and the memory tools find it by their call. Leaves to the memory room: everything about records.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakValueDictionary

from app.events.catalog.memory import MemoryEmbeddingCompleted
from app.runtime.run.embedding_calls import EmbeddingCalls
from app.runtime.run.run_guardrails import RunGuardrails


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class RunMemory:
    guardrails: RunGuardrails | None = None
    embeddings: EmbeddingCalls | None = None

    async def check(self, text: str) -> str | None:
        """What may be kept of a text; None for nothing."""
        return text if self.guardrails is None else await self.guardrails.learnable(text)

    def spent(self) -> Sequence[MemoryEmbeddingCompleted]:
        """What is to be recorded of embeddings, once."""
        return () if self.embeddings is None else self.embeddings.taken()


class RunMemories:
    """By run, as long as its scope lives."""

    def __init__(self) -> None:
        self._of: WeakValueDictionary[tuple[str, str], RunMemory] = WeakValueDictionary()

    def enter(self, tenant: str, run_id: str, memory: RunMemory) -> None:
        self._of[tenant, run_id] = memory

    def of(self, tenant: str, run_id: str) -> RunMemory | None:
        return self._of.get((tenant, run_id))

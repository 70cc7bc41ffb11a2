"""For packages that bring a kind of memory: the entry point group is `holdfast.memories`."""

from app.memory.contract import Embeddings, IndexEntry, MemoryDeps, MemoryKind, RecordIndex, RecordQuery
from app.memory.ranking import Ranked
from app.views.memory_record import MemoryRecord
from app.workspace.compiled import CompiledMemory

__all__ = [
    "CompiledMemory",
    "Embeddings",
    "IndexEntry",
    "MemoryDeps",
    "MemoryKind",
    "MemoryRecord",
    "Ranked",
    "RecordIndex",
    "RecordQuery",
]

"""Search by meaning and by words: embeddings, joined with the lexical index by reciprocal rank.

Vectors are float32 in the same database and compared exactly, with numpy, which is imported when first used. A record
whose vector could not be made is found by its words, and maintenance makes the vector later. Leaves to the models room:
making embeddings.
"""

from collections.abc import Sequence
from typing import Any, Final

from cachetools import LRUCache

from app.core.clock import iso
from app.core.errors import HoldfastError
from app.memory.contract import Embed, IndexEntry, MemoryDeps, MemoryKind, RecordIndex, RecordQuery, VectorTable
from app.memory.kinds.store import LexicalIndex, StoreConfig
from app.memory.ranking import Ranked, freshness, fused, ordered
from app.views.memory_record import MemoryRecord
from app.workspace.compiled import CompiledMemory

NEAREST: Final = 50
"""How many of the nearest vectors take part."""
_PAGE: Final = 5_000
_MATRICES: Final = 32
_MIN_COSINE: Final = 0.15
"""Below this two texts have nothing in common."""


class Matrices:
    """Vectors of namespaces as matrices, kept while they are current."""

    def __init__(self, table: VectorTable) -> None:
        self._table = table
        self._kept: LRUCache[tuple[str, str, str], tuple[tuple[int, int], list[int], Any]] = LRUCache(_MATRICES)

    async def nearest(
        self, tenant: str, namespace: str, model: str, vector: bytes, limit: int
    ) -> list[tuple[int, float]]:
        """`(seq, cosine)`, nearest first."""
        import numpy

        seqs, matrix = await self._matrix(tenant, namespace, model, len(vector))
        if not seqs:
            return []
        cosines = matrix @ numpy.frombuffer(vector, dtype="<f4")
        count = min(limit, len(seqs))
        best = numpy.argpartition(-cosines, count - 1)[:count]
        # Rounded, so that the last bits of a sum, which depend on the machine, never decide the order.
        found = [(seqs[place], round(float(cosines[place]), 5)) for place in best]
        return sorted(found, key=lambda one: (-one[1], -one[0]))

    async def _matrix(self, tenant: str, namespace: str, model: str, size: int) -> tuple[list[int], Any]:
        import numpy

        key, stamp = (tenant, namespace, model), await self._table.vector_stamp(tenant, namespace, model)
        kept = self._kept.get(key)
        if kept is not None and kept[0] == stamp:
            return kept[1], kept[2]
        seqs: list[int] = []
        parts: list[bytes] = []
        after = 0
        while page := await self._table.vectors(tenant, namespace, model, after, _PAGE):
            after = page[-1][0]
            fitting = [(seq, data) for seq, data in page if len(data) == size]
            seqs += [seq for seq, _ in fitting]
            parts += [data for _, data in fitting]
        matrix = numpy.frombuffer(b"".join(parts), dtype="<f4").reshape(len(seqs), size // 4)
        self._kept[key] = (stamp, seqs, matrix)
        return seqs, matrix


class VectorIndex:
    def __init__(self, model: str, deps: MemoryDeps, embed: Embed, table: VectorTable, matrices: Matrices) -> None:
        self._model, self._embed, self._table, self._matrices = model, embed, table, matrices
        self._lexical = LexicalIndex(deps.table)
        self._records = deps.table

    async def put(self, tenant: str, entries: Sequence[IndexEntry]) -> None:
        if not entries:
            return
        vectors = await self._embed(self._model, [entry.text for entry in entries])
        if not isinstance(vectors, list):
            raise HoldfastError(vectors.code, vectors.message)
        by_namespace: dict[str, dict[int, bytes]] = {}
        for entry, vector in zip(entries, vectors, strict=True):
            by_namespace.setdefault(entry.record.namespace, {})[entry.record.seq] = vector
        for namespace, made in by_namespace.items():
            await self._table.put_vectors(tenant, namespace, self._model, made)

    async def search(self, query: RecordQuery) -> list[Ranked]:
        lexical = await self._lexical.search(
            RecordQuery(query.tenant, query.namespace, query.text, max(NEAREST, query.limit), query.now)
        )
        vectors = await self._embed(self._model, [query.text])
        if not isinstance(vectors, list):
            return lexical[: query.limit]  # found by words alone, until the embedding server answers again
        count = max(NEAREST, query.limit)
        near = await self._matrices.nearest(query.tenant, query.namespace, self._model, vectors[0], count)
        close = [(seq, cosine) for seq, cosine in near if cosine >= _MIN_COSINE]
        records = await self._records.by_seq(query.tenant, [seq for seq, _ in close], iso(query.now)) if close else {}
        by_meaning = ordered(
            Ranked(record, cosine * freshness(record.created_at, record.used_at, record.confidence, query.now))
            for seq, cosine in close
            if (record := records.get(seq)) is not None
        )
        return fused(lexical, by_meaning)[: query.limit]

    async def trim(self, tenant: str, records: Sequence[MemoryRecord]) -> None:
        """Vectors go with the lexical index, in the commit that forgets the record; this is for the rest."""
        await self._lexical.trim(tenant, records)

    async def missing(self, tenant: str, limit: int) -> list[MemoryRecord]:
        """Records without a vector of this model: new ones whose embedding failed, and all after a change of model."""
        return await self._table.without_vector(tenant, self._model, limit)


def make(memory: CompiledMemory, deps: MemoryDeps) -> RecordIndex:
    if deps.embed is None or deps.vectors is None or memory.spec.embedding is None:
        raise HoldfastError("MEMORY_KIND_GONE", "This server cannot make embeddings.")
    kept: Matrices = deps.kept.setdefault("vector", Matrices(deps.vectors))
    return VectorIndex(memory.spec.embedding, deps, deps.embed, deps.vectors, kept)


KIND: Final = MemoryKind(name="vector", make=make, config=StoreConfig, extra="vector", module="numpy", needs_model=True)

"""Search by meaning and by words: embeddings, joined with the lexical index by reciprocal rank.

Vectors are float32 in the same database. Postgres with pgvector finds the nearest itself, otherwise `matrices` does.
Either way the order is that of double precision. A record whose vector could not be made is found by its words, and
maintenance makes the vector later. Leaves to the models room: making embeddings.
"""

from collections.abc import Sequence
from typing import Final

from app.core.clock import iso
from app.core.errors import HoldfastError
from app.memory.contract import Embeddings, IndexEntry, MemoryDeps, MemoryKind, RecordIndex, RecordQuery, VectorTable
from app.memory.kinds.store import LexicalIndex, StoreConfig
from app.memory.kinds.vector_matrices import Matrices
from app.memory.ranking import Ranked, freshness, fused, ordered
from app.views.memory_record import MemoryRecord
from app.workspace.compiled import CompiledMemory

NEAREST: Final = 50
"""How many of the nearest vectors take part."""
_MIN_COSINE: Final = 0.15
"""Below this two texts have nothing in common."""


class VectorIndex:
    def __init__(
        self, model: str, identity: str, deps: MemoryDeps, embeddings: Embeddings, table: VectorTable, kept: Matrices
    ) -> None:
        self._model, self._identity, self._embeddings = model, identity, embeddings
        self._table, self.matrices = table, kept
        self._lexical = LexicalIndex(deps.table)
        self._records = deps.table

    async def put(self, tenant: str, entries: Sequence[IndexEntry]) -> None:
        if not entries:
            return
        vectors = await self._embeddings.embed(self._model, [entry.text for entry in entries])
        if not isinstance(vectors, list):
            raise HoldfastError(vectors.code, vectors.message)
        by_namespace: dict[str, dict[int, bytes]] = {}
        for entry, vector in zip(entries, vectors, strict=True):
            by_namespace.setdefault(entry.record.namespace, {})[entry.record.seq] = vector
        for namespace, made in by_namespace.items():
            await self._table.put_vectors(tenant, namespace, self._identity, made)

    async def search(self, query: RecordQuery) -> list[Ranked]:
        lexical = await self._lexical.search(
            RecordQuery(query.tenant, query.namespace, query.text, max(NEAREST, query.limit), query.now)
        )
        vectors = await self._embeddings.embed(self._model, [query.text])
        if not isinstance(vectors, list):
            return lexical[: query.limit]  # found by words alone, until the embedding server answers again
        count = max(NEAREST, query.limit)
        near = await self.matrices.nearest(query.tenant, query.namespace, self._identity, vectors[0], count)
        close = [(seq, cosine) for seq, cosine in near if cosine >= _MIN_COSINE]
        records = await self._records.by_seq(query.tenant, [seq for seq, _ in close], iso(query.now)) if close else {}
        by_meaning = ordered(
            Ranked(record, cosine * freshness(record.touched_at, record.confidence, query.now))
            for seq, cosine in close
            if (record := records.get(seq)) is not None
        )
        return fused(lexical, by_meaning)[: query.limit]

    async def trim(self, tenant: str, records: Sequence[MemoryRecord]) -> None:
        """Vectors go with the lexical index, in the commit that forgets the record; this is for the rest."""
        await self._lexical.trim(tenant, records)

    async def missing(self, tenant: str, limit: int) -> list[MemoryRecord]:
        """Records without a vector of this model: new ones whose embedding failed, and all after a change of model."""
        return await self._table.without_vector(tenant, self._identity, limit)


def make(memory: CompiledMemory, deps: MemoryDeps) -> RecordIndex:
    model, embeddings = memory.spec.embedding, deps.embeddings
    if embeddings is None or deps.vectors is None or model is None:
        raise HoldfastError("MEMORY_KIND_GONE", "This server cannot make embeddings.")
    identity = embeddings.identity(model)
    if identity is None:
        raise HoldfastError("MODEL_NOT_FOUND", f"The workspace has no Model named {model!r}.")
    kept: Matrices = deps.kept.setdefault("vector", Matrices(deps.vectors))
    return VectorIndex(model, identity, deps, embeddings, deps.vectors, kept)


KIND: Final = MemoryKind(name="vector", make=make, config=StoreConfig, extra="vector", module="numpy", needs_model=True)

"""Search by meaning and by words: embeddings, joined with the lexical index by reciprocal rank.

Vectors are float32 in the same database. Postgres with pgvector finds the nearest itself; otherwise they are compared
exactly with numpy, which is imported when first used. Either way the order is that of double precision. A record whose
vector could not be made is found by its words, and maintenance makes the vector later. Leaves to the models
room: making embeddings.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from cachetools import LRUCache

from app.core.clock import iso
from app.core.errors import HoldfastError
from app.memory.contract import Embeddings, IndexEntry, MemoryDeps, MemoryKind, RecordIndex, RecordQuery, VectorTable
from app.memory.kinds.store import LexicalIndex, StoreConfig
from app.memory.ranking import Ranked, freshness, fused, ordered
from app.views.memory_record import MemoryRecord
from app.workspace.compiled import CompiledMemory

NEAREST: Final = 50
"""How many of the nearest vectors take part."""
KEPT_BYTES: Final = 256 * 1024 * 1024
"""Of matrices; a namespace that needs more than half of it is read for each search."""
_PAGE: Final = 1_000
_SPARE: Final = 14
"""So many more are compared in double precision than are wanted."""
_ON_THE_LOOP: Final = 500_000
"""Numbers that are compared within a millisecond."""
_MIN_COSINE: Final = 0.15
"""Below this two texts have nothing in common."""


Block = tuple[list[int], Any]
"""`seq`s, and a matrix with the vector of each as a row."""


class Matrices:
    """The nearest vectors: by the database where it can search them, else by numpy over matrices that are kept while
    they are current."""

    def __init__(self, table: VectorTable) -> None:
        self._table = table
        self._kept: LRUCache[tuple[str, str, str], tuple[tuple[int, int], Block]] = LRUCache(
            KEPT_BYTES, getsizeof=lambda kept: int(kept[1][1].nbytes) + 8 * len(kept[1][0]) + 1
        )

    async def nearest(
        self, tenant: str, namespace: str, model: str, vector: bytes, limit: int
    ) -> list[tuple[int, float]]:
        """`(seq, cosine)`, nearest first: exactly, apart from what an approximate index of the database misses."""
        wanted = limit + _SPARE
        found = await self._table.nearest(tenant, namespace, model, vector, wanted)
        if found is None:
            found = await self._compared(tenant, namespace, model, vector, wanted)
        return _scored(found, vector)[:limit]

    async def _compared(
        self, tenant: str, namespace: str, model: str, vector: bytes, limit: int
    ) -> list[tuple[int, bytes]]:
        import numpy

        key, stamp = (tenant, namespace, model), await self._table.vector_stamp(tenant, namespace, model)
        kept = self._kept.get(key)
        if kept is not None and kept[0] == stamp:
            return await _top(kept[1], vector, limit)
        best: list[tuple[int, bytes]] = []
        read: list[Block] = []
        size = after = 0
        while page := await self._table.vectors(tenant, namespace, model, after, _PAGE):
            after = page[-1][0]
            fitting = [(seq, data) for seq, data in page if len(data) == len(vector)]
            rows = numpy.frombuffer(b"".join(data for _, data in fitting), dtype="<f4")
            block = ([seq for seq, _ in fitting], rows.reshape(len(fitting), len(vector) // 4))
            best += await _top(block, vector, limit)
            size += rows.nbytes
            if size <= KEPT_BYTES // 2:
                read.append(block)
        if read and size <= KEPT_BYTES // 2:
            self._kept[key] = (stamp, ([s for seqs, _ in read for s in seqs], numpy.vstack([m for _, m in read])))
        return best


async def _top(block: Block, vector: bytes, limit: int) -> list[tuple[int, bytes]]:
    """The nearest of a block, in no certain order; on a thread where it takes longer than a moment."""
    seqs, matrix = block
    if matrix.size < _ON_THE_LOOP:
        return _top_of(seqs, matrix, vector, limit)
    return await asyncio.to_thread(_top_of, seqs, matrix, vector, limit)


def _top_of(seqs: list[int], matrix: Any, vector: bytes, limit: int) -> list[tuple[int, bytes]]:
    import numpy

    if not seqs:
        return []
    cosines = matrix @ numpy.frombuffer(vector, dtype="<f4")
    count = min(limit, len(seqs))
    return [(seqs[place], matrix[place].tobytes()) for place in numpy.argpartition(-cosines, count - 1)[:count]]


def _scored(found: Sequence[tuple[int, bytes]], vector: bytes) -> list[tuple[int, float]]:
    """Compared once more in double precision and rounded: the last bits of a sum, which depend on the machine and on
    the database, never decide the order."""
    import numpy

    if not found:
        return []
    rows = numpy.frombuffer(b"".join(data for _, data in found), dtype="<f4").reshape(len(found), -1)
    cosines = rows.astype("f8") @ numpy.frombuffer(vector, dtype="<f4").astype("f8")
    scored = [(seq, round(float(cosine), 6)) for (seq, _), cosine in zip(found, cosines, strict=True)]
    return sorted(scored, key=lambda one: (-one[1], -one[0]))


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

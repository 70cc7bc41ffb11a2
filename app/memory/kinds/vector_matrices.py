"""The nearest vectors of a namespace, compared in the server where the database cannot do it.

Up to a bound they are kept as they are and compared exactly. Of a larger namespace the numbers are kept rounded to a
byte each, which find a few times more than are wanted; those are read and compared exactly. Numpy is imported when
first used. Leaves to `vector`: everything but the numbers.
"""

import asyncio
import heapq
import os
from collections.abc import Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any, Final

from cachetools import LRUCache

from app.core.value import mutable, value
from app.memory.contract import VectorTable

KEPT_BYTES: Final = 256 * 1024 * 1024
"""Of vectors that are kept; those of a namespace may take half of it. If they take more even as bytes, they are read
for each search."""
_PAGE: Final = 1_000
_SPARE: Final = 14
"""How many more than wanted are compared in double precision."""
_ROUGH: Final = 4
"""How many times more are found by bytes than are compared exactly."""
_CHUNK: Final = 256
"""Rows of bytes that are made numbers at once: few enough to stay in the processor's cache."""
_ON_THE_LOOP: Final = 500_000
"""Numbers that are compared within a millisecond."""

Key = tuple[str, str, str]
"""Tenant, namespace and model."""


@value(frozen=True, slots=True)
class VectorBlock:
    """`seqs`, and a matrix with the vector of each as a row."""

    seqs: list[int]
    rows: Any
    scales: Any = None
    """Where the rows are bytes: what each of them is multiplied by."""

    @property
    def size(self) -> int:
        return int(self.rows.nbytes)

    def joined(self, more: "VectorBlock") -> "VectorBlock":
        numpy = _numpy()
        scales = None if self.scales is None else numpy.concatenate((self.scales, more.scales))
        return VectorBlock(self.seqs + more.seqs, numpy.vstack((self.rows, more.rows)), scales)

    def coarse(self) -> "VectorBlock":
        numpy = _numpy()
        rows = numpy.empty(self.rows.shape, "i1")
        scales = numpy.empty(len(self.seqs), "f4")
        for start in range(0, len(self.seqs), _CHUNK):
            part = self.rows[start : start + _CHUNK]
            scale = numpy.maximum(numpy.abs(part).max(axis=1), 1e-12) / 127
            rows[start : start + _CHUNK] = numpy.rint(part / scale[:, None])
            scales[start : start + _CHUNK] = scale
        return replace(self, rows=rows, scales=scales)

    def cosines(self, vector: bytes) -> Any:
        numpy = _numpy()
        asked = numpy.frombuffer(vector, dtype="<f4")
        if self.scales is None:
            return self.rows @ asked
        made = numpy.empty(len(self.seqs), "f4")
        numbers = numpy.empty((_CHUNK, self.rows.shape[1]), "f4")
        for start in range(0, len(self.seqs), _CHUNK):
            part = self.rows[start : start + _CHUNK]
            chunk = numbers[: len(part)]
            chunk[...] = part
            made[start : start + _CHUNK] = chunk @ asked
        return made * self.scales


@mutable(slots=True)
class KeptVectors:
    """Vectors of one namespace and model, as of a stamp of the table."""

    stamp: tuple[int, int]
    blocks: list[VectorBlock]
    is_coarse: bool = False

    @property
    def weight(self) -> int:
        """In bytes, roughly."""
        return sum(block.size + 64 * len(block.seqs) for block in self.blocks) + 1

    @property
    def last(self) -> int:
        return self.blocks[-1].seqs[-1] if self.blocks and self.blocks[-1].seqs else 0

    @property
    def fits(self) -> bool:
        return self.weight <= KEPT_BYTES // 2

    def add(self, block: VectorBlock) -> None:
        """Few blocks: each of them is at least twice as large as the next."""
        if not block.seqs:
            return
        self.blocks.append(block.coarse() if self.is_coarse else block)
        while len(self.blocks) > 1 and len(self.blocks[-2].seqs) < 2 * len(self.blocks[-1].seqs):
            self.blocks[-2:] = [self.blocks[-2].joined(self.blocks[-1])]
        if not self.fits and not self.is_coarse:
            self.is_coarse = True
            self.blocks = [one.coarse() for one in self.blocks]


class Matrices:
    """The nearest vectors: by the database where it can search them, else by numpy over matrices that are kept. Those
    that were added since are read alone; if any was taken away, all are read again."""

    def __init__(self, table: VectorTable) -> None:
        self._table = table
        self._kept: LRUCache[Key, KeptVectors] = LRUCache(KEPT_BYTES, getsizeof=lambda kept: kept.weight)

    async def nearest(
        self, tenant: str, namespace: str, model: str, vector: bytes, limit: int
    ) -> list[tuple[int, float]]:
        """`(seq, cosine)`, nearest first: exactly, apart from what an approximate index of the database or the bytes
        of a large namespace miss."""
        wanted = limit + _SPARE
        found = await self._table.nearest(tenant, namespace, model, vector, wanted)
        if found is None:
            found = await self._compared((tenant, namespace, model), vector, wanted)
        return _scored(found, vector)[:limit]

    async def _compared(self, key: Key, vector: bytes, limit: int) -> list[tuple[int, bytes]]:
        kept = self._kept.get(key)
        if kept is None:
            return await self._read(key, vector, limit)
        stamp, page = await self._table.vectors_since(*key, kept.last, _PAGE)
        if kept is self._kept.get(key):
            if stamp == kept.stamp:
                return await self._best(key, kept, vector, limit)
            (put, gone), (put_before, gone_before) = stamp, kept.stamp
            block = _block(page, len(vector))
            is_all = gone == gone_before and put - put_before == len(page) == len(block.seqs)
            if is_all and (kept.is_coarse or kept.weight + block.size <= KEPT_BYTES // 2):
                del self._kept[key]  # it is weighed when it is stored
                kept.stamp = stamp
                kept.add(block)
                if kept.fits:
                    self._kept[key] = kept
                return await self._best(key, kept, vector, limit)
            self._kept.pop(key, None)
        return await self._read(key, vector, limit)

    async def _read(self, key: Key, vector: bytes, limit: int) -> list[tuple[int, bytes]]:
        """All of them, in pages; kept if they are not too many."""
        best: list[tuple[int, bytes]] = []
        stamp, page = await self._table.vectors_since(*key, 0, _PAGE)
        read: KeptVectors | None = KeptVectors(stamp, [])
        while page:
            block = _block(page, len(vector))
            best += [(block.seqs[place], block.rows[place].tobytes()) for place, _ in await _top(block, vector, limit)]
            if read is not None:
                await asyncio.to_thread(read.add, block)
                read = read if read.fits else None
            page = await self._table.vectors(*key, page[-1][0], _PAGE)
        if read is not None and read.blocks:
            self._kept[key] = read
        return best

    async def _best(self, key: Key, kept: KeptVectors, vector: bytes, limit: int) -> list[tuple[int, bytes]]:
        blocks, is_coarse = list(kept.blocks), kept.is_coarse
        wanted = limit * _ROUGH if is_coarse else limit
        tops = [(block, await _top(block, vector, wanted)) for block in blocks]
        if not is_coarse:
            return [(block.seqs[place], block.rows[place].tobytes()) for block, top in tops for place, _ in top]
        near = heapq.nlargest(wanted, ((cosine, block.seqs[place]) for block, top in tops for place, cosine in top))
        return await self._table.vectors_of(*key, [seq for _, seq in near])


def _numpy() -> ModuleType:
    """On one processor: with more, its library waits for them by spinning and takes several times as much."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    import numpy

    return numpy


def _block(page: Sequence[tuple[int, bytes]], length: int) -> VectorBlock:
    fitting = [(seq, data) for seq, data in page if len(data) == length]
    rows = _numpy().frombuffer(b"".join(data for _, data in fitting), dtype="<f4")
    return VectorBlock([seq for seq, _ in fitting], rows.reshape(len(fitting), length // 4))


async def _top(block: VectorBlock, vector: bytes, limit: int) -> list[tuple[int, float]]:
    """Places and cosines of the nearest of a block, in no certain order; on a thread where it takes longer than a
    moment."""
    if block.rows.size < _ON_THE_LOOP:
        return _top_of(block, vector, limit)
    return await asyncio.to_thread(_top_of, block, vector, limit)


def _top_of(block: VectorBlock, vector: bytes, limit: int) -> list[tuple[int, float]]:
    if not block.seqs:
        return []
    cosines = block.cosines(vector)
    count = min(limit, len(block.seqs))
    return [(int(place), float(cosines[place])) for place in _numpy().argpartition(-cosines, count - 1)[:count]]


def _scored(found: Sequence[tuple[int, bytes]], vector: bytes) -> list[tuple[int, float]]:
    """Compared once more in double precision and rounded: the last bits of a sum, which depend on the machine and on
    the database, never decide the order."""
    numpy = _numpy()
    if not found:
        return []
    rows = numpy.frombuffer(b"".join(data for _, data in found), dtype="<f4").reshape(len(found), -1)
    cosines = rows.astype("f8") @ numpy.frombuffer(vector, dtype="<f4").astype("f8")
    scored = [(seq, round(float(cosine), 6)) for (seq, _), cosine in zip(found, cosines, strict=True)]
    return sorted(scored, key=lambda one: (-one[1], -one[0]))

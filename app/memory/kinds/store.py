"""The default kind: lexical search in the same database, written in one commit with the records.

Finds by words, in every script. Leaves to the store: the tables; to `ranking`: the order.
"""

from collections.abc import Sequence
from typing import Final

from app.memory.contract import IndexEntry, MemoryDeps, MemoryKind, RecordIndex, RecordQuery, RecordTable
from app.memory.index_entries import index_entry
from app.memory.ranking import Ranked
from app.memory.terms import terms
from app.views.memory_record import MemoryRecord
from app.workspace.compiled import CompiledMemory
from app.workspace.specs.base import Count, Spec

MAX_QUERY_TERMS: Final = 64


class StoreConfig(Spec):
    max_records: Count | None = None
    """In one namespace; the oldest are forgotten. Working memory has 20 unless this says otherwise."""


class LexicalIndex:
    def __init__(self, table: RecordTable) -> None:
        self._table = table

    async def put(self, tenant: str, entries: Sequence[IndexEntry]) -> None:
        for entry in entries:
            await self._table.index(tenant, entry.record, index_entry(entry.record.id, entry.text))

    async def search(self, query: RecordQuery) -> list[Ranked]:
        wanted = [term for term, _ in terms(query.text).most_common(MAX_QUERY_TERMS)]
        if not wanted:
            return []
        return await self._table.search(query.tenant, query.namespace, sorted(wanted), query.limit, query.now)

    async def trim(self, tenant: str, records: Sequence[MemoryRecord]) -> None:
        for record in records:
            await self._table.unindex(tenant, record)


def make(_memory: CompiledMemory, deps: MemoryDeps) -> RecordIndex:
    return LexicalIndex(deps.table)


KIND: Final = MemoryKind(name="store", make=make, config=StoreConfig, transactional=True)

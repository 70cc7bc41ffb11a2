"""A kind of memory from a package: finds records by the words that they share with the query."""

from collections.abc import Sequence

from holdfast.memories import CompiledMemory, IndexEntry, MemoryDeps, MemoryKind, MemoryRecord, Ranked, RecordQuery


class SharedWords:
    def __init__(self, deps: MemoryDeps) -> None:
        self._table = deps.table
        self._words: dict[tuple[str, str, int], set[str]] = deps.kept.setdefault("shared_words", {})

    async def put(self, tenant: str, entries: Sequence[IndexEntry]) -> None:
        in_force = await self._table.by_seq(tenant, [entry.record.seq for entry in entries])
        for entry in entries:
            if entry.record.seq in in_force:  # it may have been forgotten meanwhile
                self._words[tenant, entry.record.namespace, entry.record.seq] = words(entry.text)

    async def search(self, query: RecordQuery) -> list[Ranked]:
        wanted, place = words(query.text), (query.tenant, query.namespace)
        shared = {key[2]: len(has & wanted) for key, has in self._words.items() if key[:2] == place and has & wanted}
        records = await self._table.by_seq(query.tenant, list(shared), query.at)
        found = [Ranked(record, shared[seq] / len(wanted)) for seq, record in records.items()]
        return sorted(found, key=lambda one: (-one.score, -one.record.seq))[: query.limit]

    async def trim(self, tenant: str, records: Sequence[MemoryRecord]) -> None:
        for record in records:
            self._words.pop((tenant, record.namespace, record.seq), None)


def words(text: str) -> set[str]:
    return {word.strip(".,?!") for word in text.casefold().split()}


def make(_memory: CompiledMemory, deps: MemoryDeps) -> SharedWords:
    return SharedWords(deps)


KIND = MemoryKind(name="shared_words", make=make)

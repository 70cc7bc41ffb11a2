"""Rows that an earlier version wrote rank as before, and many records of one commit are counted as one by one."""

import pytest

from app.core.clock import ManualClock
from app.core.settings import Settings
from app.memory.contract import MemoryCandidate, RecordQuery, RunIdentity
from app.policy.redaction import CurrentRedaction
from app.store.engine import Sql
from app.wiring.memory import open_memory
from app.wiring.store import open_store
from app.workspace.compiled import CompiledMemory
from app.workspace.specs.others import MemorySpec

WHO = RunIdentity("acme", "clerk", "lena", "t", None, "user:lena")
FACTS = CompiledMemory("facts", "", {}, MemorySpec())
COUNTED = Sql(
    "SELECT t.term, t.records, count(p.seq) FROM memory_terms t LEFT JOIN memory_postings p ON p.term_key = t.key "
    "GROUP BY t.term, t.records ORDER BY t.term"
)


@pytest.mark.requirement("SH-17")
async def test_rows_without_the_columns_of_ranking_are_ranked_by_what_they_hold(settings: Settings) -> None:
    clock = ManualClock()
    async with open_store(settings) as store:
        service = open_memory(store, clock, CurrentRedaction())
        for number in range(12):
            clock.advance(20 * 86_400)
            said = [MemoryCandidate(f"word number {number}", "semantic", "user", 0.2 + number % 3 * 0.3)]
            await service.submit(WHO, FACTS, said, str(number))
        index = service.index_of(FACTS, "acme")
        query = RecordQuery("acme", "acme/clerk/lena", "word", 5, clock.now_ms())
        before = [(one.record.id, one.score) for one in await index.search(query)]
        forget = Sql("UPDATE memory_records SET touched_at = NULL, confidence = NULL")
        await store.database.write(lambda tx: tx.rows(forget))
        assert [(one.record.id, one.score) for one in await index.search(query)] == before and len(before) == 5


async def test_records_of_one_commit_are_counted_as_those_of_many(settings: Settings) -> None:
    async with open_store(settings) as store:
        service = open_memory(store, ManualClock(), CurrentRedaction())
        texts = [f"My hat{number % 2} is red {number}." for number in range(9)]
        # The later of those about the same supersede the earlier, within the commit.
        await service.submit(WHO, FACTS, [MemoryCandidate(text, "semantic", "user", 0.9) for text in texts], "all")
        await service.submit(WHO, FACTS, [MemoryCandidate("My hat0 is blue.", "semantic", "user", 0.9)], "one")
        counted = await store.database.look(lambda tx: tx.rows(COUNTED))
        assert counted and all(records == postings for _, records, postings in map(tuple, counted))
        namespace = await service.table.counts("acme")
        kept = await service.table.newest("acme", "acme/clerk/lena", 20)
        assert namespace == {"acme/clerk/lena": len(kept)}
        await service.forget("acme", kept, reason="test", by="test")
        assert await store.database.look(lambda tx: tx.rows(COUNTED)) == []

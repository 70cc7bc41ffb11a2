"""Vectors: one order on both databases, pgvector's index against an exact search, and Postgres without pgvector."""

import random
import sqlite3
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any

import asyncpg
import numpy
import pytest

from app.core.clock import ManualClock
from app.core.settings import Settings
from app.memory.contract import MemoryCandidate, RecordFilter, RunIdentity
from app.memory.index_entries import index_entry
from app.memory.kinds import vector_matrices as matrices
from app.memory.kinds.vector_matrices import Matrices
from app.models.embeddings import packed
from app.policy.redaction import CurrentRedaction
from app.store import memory_pgvector
from app.store.memory import MemoryTable
from app.store.memory_pgvector import PgVector, index_name
from app.views.memory_record import MemoryRecord
from app.wiring.memory import open_memory
from app.wiring.store import Store, open_store
from app.workspace.compiled import CompiledMemory
from app.workspace.specs.others import MemorySpec

PLACE = "acme/clerk/lena"
SIZE = 24
COUNT = 150
MODEL = "m1"


def drawn(chance: random.Random) -> bytes:
    return packed([chance.gauss(0, 1) for _ in range(SIZE)])


@asynccontextmanager
async def filled(
    settings: Settings, pgvector: PgVector | None = None
) -> AsyncIterator[tuple[Store, MemoryTable, dict[int, bytes], list[MemoryRecord]]]:
    """Records with vectors drawn by chance."""
    chance = random.Random(11)
    async with open_store(settings) as store:
        service = open_memory(store, ManualClock(), CurrentRedaction())
        who = RunIdentity("acme", "clerk", "lena", "t", None, "user:lena")
        memory = CompiledMemory("facts", "", {}, MemorySpec())
        for start in range(0, COUNT, 25):  # each is one commit, which has to end in time also under load
            offered = [MemoryCandidate(f"number {n}", "semantic", "user", 0.9) for n in range(start, start + 25)]
            await service.submit(who, memory, offered, f"from {start}")
        records = await service.table.records("acme", RecordFilter(status="accepted"), 0, 1000)
        url = settings.database_url
        table = MemoryTable(store.database, pgvector or (PgVector(url) if url is not None else None))
        vectors = {record.seq: drawn(chance) for record in records}
        await table.put_vectors("acme", PLACE, MODEL, vectors)
        yield store, table, vectors, records


def exact(vectors: dict[int, bytes], asked: bytes, limit: int) -> list[int]:
    query = numpy.frombuffer(asked, dtype="<f4").astype("f8")
    scored = [
        (round(float(numpy.frombuffer(data, dtype="<f4").astype("f8") @ query), 6), seq)
        for seq, data in vectors.items()
    ]
    return [seq for _, seq in sorted(scored, reverse=True)[:limit]]


async def nearest(table: MemoryTable, asked: bytes, limit: int = 10) -> list[int]:
    return [seq for seq, _ in await Matrices(table).nearest("acme", PLACE, MODEL, asked, limit)]


async def test_both_databases_give_the_order_of_an_exact_search(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(12)
    async with filled(settings) as (_, table, vectors, records):
        assert (await table.nearest("acme", PLACE, MODEL, drawn(chance), 5) is not None) == settings.is_postgres
        for _ in range(20):
            asked = drawn(chance)
            assert await nearest(table, asked) == exact(vectors, asked, 10)
        # A namespace that is too large to keep is read in pages, with the same result.
        monkeypatch.setattr(matrices, "KEPT_BYTES", 2000)
        monkeypatch.setattr(matrices, "_PAGE", 70)
        monkeypatch.setattr(matrices, "_ON_THE_LOOP", 100)
        asked = drawn(chance)
        assert await nearest(table, asked) == exact(vectors, asked, 10)
        await table.unindex("acme", records[0])
        del vectors[records[0].seq]
        gone = struct.pack(f"<{SIZE}f", *([0.0] * SIZE))
        assert records[0].seq not in await nearest(table, gone, COUNT)


async def test_a_search_reads_only_the_vectors_that_were_added_since_the_last_one(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(14)
    async with filled(settings) as (_, table, vectors, records):
        read: list[int] = []
        since, pages = table.vectors_since, table.vectors

        async def counted_since(*asked: Any) -> Any:
            answer = await since(*asked)
            read.append(len(answer[1]))
            return answer

        async def counted(*asked: Any) -> Any:
            answer = await pages(*asked)
            read.append(len(answer))
            return answer

        async def none(*_asked: Any) -> None:
            """As on a database that cannot search vectors."""

        monkeypatch.setattr(table, "nearest", none)
        monkeypatch.setattr(table, "vectors_since", counted_since)
        monkeypatch.setattr(table, "vectors", counted)
        kept, last = Matrices(table), max(vectors)
        left_out = {seq: vectors.pop(seq) for seq in sorted(vectors)[-3:]}
        for seq in left_out:
            record = next(record for record in records if record.seq == seq)
            await table.unindex("acme", record)

        async def asked() -> None:
            read.clear()
            query = drawn(chance)
            near = await kept.nearest("acme", PLACE, MODEL, query, 10)
            assert [seq for seq, _ in near] == exact(vectors, query, 10)

        await asked()
        assert sum(read) == len(vectors)
        await asked()
        assert sum(read) == 0
        for seq, vector in left_out.items():
            record = next(record for record in records if record.seq == seq)
            await table.index("acme", record, index_entry(record.id, f"record {seq}"))
            await table.put_vectors("acme", PLACE, MODEL, {seq: vector})
            vectors[seq] = vector
            await asked()
            assert sum(read) == 1
        assert last in vectors
        # What was taken away, or put again, is not guessed: everything is read once.
        await table.unindex("acme", records[0])
        del vectors[records[0].seq]
        await asked()
        assert sum(read) >= len(vectors)
        await asked()
        assert sum(read) == 0
        other = records[5].seq
        vectors[other] = drawn(chance)
        await table.put_vectors("acme", PLACE, MODEL, {other: vectors[other]})
        await asked()
        assert sum(read) >= len(vectors)


async def test_a_large_namespace_is_searched_by_bytes_and_ranked_by_what_is_stored(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(15)
    async with filled(settings) as (_, table, vectors, records):
        read: list[int] = []
        pages, chosen = table.vectors, table.vectors_of

        async def counted(*asked: Any) -> Any:
            answer = await pages(*asked)
            read.append(len(answer))
            return answer

        async def counted_of(*asked: Any) -> Any:
            answer = await chosen(*asked)
            read.append(len(answer))
            return answer

        async def none(*_asked: Any) -> None:
            """As on a database that cannot search vectors."""

        for name, value in (("nearest", none), ("vectors", counted), ("vectors_of", counted_of)):
            monkeypatch.setattr(table, name, value)
        # Too large as they are, small enough as bytes.
        for name, size in (("KEPT_BYTES", 40_000), ("_PAGE", 40), ("_SPARE", 2), ("_CHUNK", 7)):
            monkeypatch.setattr(matrices, name, size)
        kept = Matrices(table)

        async def asked() -> None:
            read.clear()
            query = drawn(chance)
            near = await kept.nearest("acme", PLACE, MODEL, query, 3)
            assert [seq for seq, _ in near] == exact(vectors, query, 3)

        await asked()
        assert sum(read) == COUNT - 40, "the rest of all of them"
        for _ in range(30):
            await asked()
            assert read == [20], "four times the five that are compared exactly"
        left_out = max(vectors)
        record = next(record for record in records if record.seq == left_out)
        await table.unindex("acme", record)
        removed = vectors.pop(left_out)
        await asked()
        assert sum(read) >= COUNT - 41, "what was taken away is kept nowhere"
        await table.index("acme", record, index_entry(record.id, "again"))
        await table.put_vectors("acme", PLACE, MODEL, {left_out: removed})
        vectors[left_out] = removed
        await asked()
        assert read == [20]


async def test_the_vectors_of_one_record_are_deleted_by_an_index(settings: Settings) -> None:
    statement = "DELETE FROM memory_vectors WHERE namespace_key = 1 AND seq = 5"
    async with filled(settings):
        if settings.is_postgres:
            connection = await asyncpg.connect(settings.database_url)
            # So few rows would be read from the table itself.
            await connection.execute("SET enable_seqscan = off; SET enable_bitmapscan = off")
            plan = str(await connection.fetch(f"EXPLAIN {statement}"))
            await connection.close()
        else:
            with closing(sqlite3.connect(settings.sqlite_path)) as file:
                plan = str(file.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall())
        assert "memory_vectors_by_record" in plan


@pytest.mark.parametrize("settings", ["postgres"], indirect=True)
async def test_an_index_of_pgvector_finds_what_an_exact_search_finds(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_pgvector, "INDEX_FROM", 100)
    chance = random.Random(13)
    async with filled(settings) as (_, table, vectors, records):
        connection = await asyncpg.connect(settings.database_url)
        ((key,),) = await connection.fetch("SELECT key FROM memory_namespaces")
        assert await table.tend_vectors(lambda: False) == 1
        assert await table.tend_vectors(lambda: False) == 0
        await connection.execute("SET enable_sort = off; SET enable_seqscan = off; SET enable_bitmapscan = off")
        statement = memory_pgvector._by_index(key, MODEL, SIZE).postgres
        asked = drawn(chance)
        plan = await connection.fetch(f"EXPLAIN {statement}", memory_pgvector.as_text(asked), 24)
        assert index_name(key, MODEL) in str(plan)
        hits = 0
        for asked in [drawn(chance) for _ in range(30)]:
            hits += len(set(await nearest(table, asked)) & set(exact(vectors, asked, 10)))
        assert hits >= 0.98 * 300  # the bound that docs/memory.md states
        for record in records[:60]:
            await table.unindex("acme", record)
        assert await connection.fetchval("SELECT count(*) FROM memory_embeddings") == COUNT - 60
        assert await table.tend_vectors(lambda: False) == 0
        left = await connection.fetchval("SELECT count(*) FROM pg_class WHERE relname LIKE 'memory_near_%'")
        await connection.close()
        assert left == 0


@pytest.mark.parametrize("settings", ["postgres"], indirect=True)
async def test_without_pgvector_vectors_are_compared_in_the_server_and_copied_once_it_is_there(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert settings.database_url is not None
    with monkeypatch.context() as missing:
        missing.setattr(memory_pgvector, "_CREATE", ("CREATE EXTENSION vector_that_nobody_installed",))
        without = PgVector(settings.database_url)
        async with filled(settings, without) as (store, table, vectors, _):
            asked = drawn(random.Random(14))
            assert await table.nearest("acme", PLACE, MODEL, asked, 5) is None
            assert await nearest(table, asked) == exact(vectors, asked, 10)
            missing.undo()
            installed = MemoryTable(store.database, PgVector(settings.database_url))
            assert await installed.nearest("acme", PLACE, MODEL, asked, 5) is None, "not searched before it is complete"
            await installed.tend_vectors(lambda: False)
            found = await installed.nearest("acme", PLACE, MODEL, asked, 5)
            assert found is not None and {seq for seq, _ in found} == set(exact(vectors, asked, 5))

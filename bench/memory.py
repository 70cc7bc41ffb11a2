"""Memory: how long recall and put take with many records, what memory costs a run, and how well each search finds.

    python -m bench.memory [--records 1000 20000 200000] [--kinds store vector] [--databases sqlite postgres]
                           [--quick] [--sizes-only]

Prints JSON. The quality figures (recall@5, MRR) are of `bench/memory_labelled.py`; the vectors are those of the
scripted embedding, which knows words and parts of words but no meaning: a floor, not what a real model gives.
"""

import argparse
import asyncio
import json
import logging
import random
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import structlog

from app.core.clock import SystemClock
from app.core.settings import Settings
from app.events.ports import StorageDown
from app.memory.contract import MemoryCandidate, RecordQuery, RunIdentity
from app.memory.ranking import Ranked
from app.memory.service import MemoryService
from app.models.embeddings import scripted_vector
from app.policy.redaction import CurrentRedaction
from app.wiring.memory import open_memory
from app.wiring.store import open_store
from app.workspace.compiled import CompiledMemory
from app.workspace.specs.others import MemorySpec
from bench.memory_labelled import FACTS, QUESTIONS
from tests.memory.scripted_embeddings import ScriptedEmbeddings

SEARCHES: Final = 200
WARM: Final = 20
BATCH: Final = 100
TRIES: Final = 10
WORDS: Final = 5_000
"""The vocabulary of the generated records; how often a word occurs falls as in a language."""
WHO: Final = RunIdentity("default", "clerk", "lena", "t", None, "user:lena")
PLACE: Final = "default/clerk/lena"


def _memory(kind: str) -> CompiledMemory:
    return CompiledMemory("facts", "", {}, MemorySpec(kind=kind, embedding="words" if kind == "vector" else None))


def _text(chance: random.Random, words: list[str], weights: list[float]) -> str:
    return " ".join(chance.choices(words, weights, k=chance.randint(6, 14)))


async def _submitted(service: MemoryService, memory: CompiledMemory, batch: list[MemoryCandidate], key: str) -> None:
    """Again where a loaded machine made the database late: the same key stores nothing twice."""
    for _ in range(TRIES):
        try:
            await service.submit(WHO, memory, batch, key)
            return
        except StorageDown:
            print("the database was late", file=sys.stderr, flush=True)
    raise StorageDown("the database is late all the time")


async def _fill(service: MemoryService, kind: str, count: int, chance: random.Random) -> dict[str, float]:
    words = [f"w{chance.randrange(16**5):05x}" for _ in range(WORDS)]
    weights = [1 / (rank + 3) for rank in range(WORDS)]
    memory = _memory(kind)
    stored = 0
    spent: list[float] = []
    cpu_of_puts: list[float] = []
    while stored < count:
        size = min(BATCH, count - stored)
        batch = [MemoryCandidate(_text(chance, words, weights), "semantic", "user", 0.9) for _ in range(size)]
        begun, used = time.perf_counter(), time.process_time()
        await _submitted(service, memory, batch, f"batch {stored}")
        spent.append((time.perf_counter() - begun) / size)
        cpu_of_puts.append((time.process_time() - used) / size)
        stored += size
    if kind == "vector" and service.vectors is not None:
        await service.vectors.tend_vectors(lambda: False)
    index = service.index_of(memory, "default")
    found: list[float] = []
    cpu: list[float] = []
    for number in range(SEARCHES + WARM):
        query = RecordQuery("default", PLACE, _text(chance, words, weights), 8, SystemClock().now_ms())
        begun, used = time.perf_counter(), time.process_time()
        await index.search(query)
        if number >= WARM:
            found.append(time.perf_counter() - begun)
            cpu.append(time.process_time() - used)
    begun = time.perf_counter()
    for number in range(20):
        await service.submit(WHO, memory, [MemoryCandidate(f"single {number}", "semantic", "user", 0.9)], f"s{number}")
    single = (time.perf_counter() - begun) / 20
    return {
        "putMsInBatches": round(statistics.median(spent[-20:]) * 1000, 3),
        "putCpuMsInBatches": round(statistics.median(cpu_of_puts[-20:]) * 1000, 3),
        "putMsAlone": round(single * 1000, 3),
        "searchCpuMsMedian": round(statistics.median(cpu) * 1000, 3),
        "searchMsMedian": round(statistics.median(found) * 1000, 3),
        "searchMsP95": round(sorted(found)[int(0.95 * len(found))] * 1000, 3),
        "peakMb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }


async def _sizes(settings: Settings, counts: Sequence[int], kinds: Sequence[str]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for kind in kinds:
        for count in counts:
            with tempfile.TemporaryDirectory() as folder:
                own = settings.model_copy(update={"data_dir": Path(folder)})
                async with open_store(own) as store:
                    service = open_memory(store, SystemClock(), CurrentRedaction(), ScriptedEmbeddings)
                    made[f"{kind}.{count}"] = await _fill(service, kind, count, random.Random(7))
                    database = "postgres" if settings.is_postgres else "sqlite"
                    print(database, kind, count, json.dumps(made[f"{kind}.{count}"]), file=sys.stderr, flush=True)
    return made


async def _quality() -> dict[str, dict[str, float]]:
    with tempfile.TemporaryDirectory() as folder:
        async with open_store(Settings(data_dir=Path(folder))) as store:
            service = open_memory(store, SystemClock(), CurrentRedaction(), ScriptedEmbeddings)
            memory = _memory("vector")
            offered = [
                MemoryCandidate(text, "semantic", "operator", 0.9, slot=f"fact {n}") for n, text in enumerate(FACTS)
            ]
            learned = await service.submit(WHO, memory, offered, "labelled")
            ids = [one.record_id for one in learned.submitted]
            now = SystemClock().now_ms()
            ranks: dict[str, list[int | None]] = {"lexical": [], "vector": [], "hybrid": []}
            hybrid, lexical = service.index_of(memory, "default"), service.index_of(_memory("store"), "default")
            for text, fact in QUESTIONS:
                query = RecordQuery("default", PLACE, text, 50, now)
                ranks["lexical"].append(_rank(await lexical.search(query), ids[fact]))
                ranks["hybrid"].append(_rank(await hybrid.search(query), ids[fact]))
                found: Any = hybrid
                near = await found.matrices.nearest("default", PLACE, "words", scripted_vector(text), 50)
                records = await service.table.by_seq("default", [seq for seq, _ in near])
                ranks["vector"].append(_rank([Ranked(records[seq], cos) for seq, cos in near], ids[fact]))
    return {name: _figures(found) for name, found in ranks.items()}


def _rank(hits: Sequence[Ranked], wanted: str | None) -> int | None:
    return next((place for place, hit in enumerate(hits, 1) if hit.record.id == wanted), None)


def _figures(ranks: Sequence[int | None]) -> dict[str, float]:
    return {
        "recallAt5": round(sum(rank is not None and rank <= 5 for rank in ranks) / len(ranks), 3),
        "mrr": round(sum(1 / rank for rank in ranks if rank is not None) / len(ranks), 3),
        "questions": float(len(ranks)),
    }


async def _runs(count: int) -> dict[str, float]:
    """Processor time of a run of the same agent with and without memory, side by side."""
    from app.wiring.runtime import open_holdfast
    from tests.memory.workspaces import agent, memory, model, rule, write
    from tests.runs import ended, submit

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        documents = (
            model(rule("{contains: hello}", "{text: Hello.}")),
            memory("facts", "{type: semantic}"),
            agent("clerk", "{model: script, memory: [facts]}"),
        )
        workspace = write(folder / "ws", *documents, agent("plain", "{model: script}"))
        settings = Settings(data_dir=folder / "data", workspace=workspace)
        spent: dict[str, list[float]] = {"plain": [], "clerk": []}
        async with open_holdfast(settings) as holdfast:
            for number in range(count):
                for who in ("plain", "clerk"):
                    begun = time.process_time()
                    await ended(holdfast, await submit(holdfast, who, f"I have the number {number} today."))
                    spent[who].append(time.process_time() - begun)
    off, on = (statistics.median(spent[who][5:]) * 1000 for who in ("plain", "clerk"))
    return {"offCpuMs": round(off, 3), "onCpuMs": round(on, 3), "ratio": round(on / off, 3)}


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, nargs="*", default=[1_000, 20_000])
    parser.add_argument("--kinds", nargs="*", default=["store", "vector"])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument(
        "--databases", nargs="*", default=["sqlite"], help="`postgres` is a server that is started for it"
    )
    parser.add_argument("--sizes-only", action="store_true", help="leave out the quality figures and the runs")
    asked = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    counts = [1_000] if asked.quick else asked.records
    made: dict[str, Any] = {}
    if not asked.sizes_only:
        made = {"quality": await _quality(), "runs": await _runs(20 if asked.quick else 60)}
    if "sqlite" in asked.databases:
        made["sqlite"] = await _sizes(Settings(data_dir=Path()), counts, asked.kinds)
    if "postgres" in asked.databases:
        from tests.databases import create_database
        from tests.postgres import PostgresServer

        with tempfile.TemporaryDirectory() as folder:
            server = PostgresServer(Path(folder))
            server.start()
            try:
                for count in counts:
                    for kind in asked.kinds:
                        name = f"memory_{kind}_{count}"
                        await create_database(server, name)
                        settings = Settings(data_dir=Path(folder), database_url=server.url(name))
                        made.setdefault("postgres", {}).update(await _sizes(settings, [count], [kind]))
            finally:
                server.stop()
    print(json.dumps(made, indent=2))


if __name__ == "__main__":
    asyncio.run(main())

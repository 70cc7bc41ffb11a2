"""`make bench-log`: what the log costs over a raw group-commit writer, side by side in one run, as one JSON line.

Raw writes rows of the same number, columns and size in the same kind of transactions; it stamps, validates, redacts,
hashes, folds and publishes nothing. Both go through the same database object, so the ratio is the price of the log.
The interpreter is set up as `holdfast serve` does it: else a fifth of an append is garbage collection.
"""

import argparse
import asyncio
import gc
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncpg
import uvloop

from app.cli.serve import configure_interpreter
from app.core.ids import new_id
from app.core.settings import Settings
from app.events.catalog.builders import BuiltStepCompleted
from app.events.catalog.execution import StepCompleted
from app.events.catalog.request import RequestQueued
from app.events.catalog.thread import ThreadCreated
from app.events.chain import ChainCheck
from app.events.recorder import Scope
from app.store.engine import Database, Tx
from app.wiring.store import Store, open_store
from tests.postgres import PostgresServer

TEXT = "a result of ordinary length, as a tool or a step would leave it in the log. " * 2
RESULT = {"text": TEXT, "count": 17, "ok": True}


class RawWriter:
    """Group commit and nothing else. Its transactions begin and end by statements of their own, as they did when the
    goals were set; `alone`, each is one statement, as what the log writes on Postgres."""

    def __init__(self, database: Database, *, alone: bool = False) -> None:
        self._database, self._alone = database, alone
        self._waiting: list[tuple[tuple[Any, ...], asyncio.Future[None]]] = []
        self._something = asyncio.Event()
        self._task = asyncio.create_task(self._forever())

    async def append(self, row: tuple[Any, ...]) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((row, done))
        self._something.set()
        await done

    async def _forever(self) -> None:
        while True:
            await self._something.wait()
            self._something.clear()
            while self._waiting:
                batch, self._waiting = self._waiting, []
                rows = [row for row, _ in batch]

                async def work(tx: Tx, rows: list[tuple[Any, ...]] = rows) -> None:
                    await tx.append(rows, alone=self._alone)

                await self._database.write(work)
                for _, done in batch:
                    done.set_result(None)

    def close(self) -> None:
        self._task.cancel()


async def load(producers: int, each: int, append: Callable[[int, int], Awaitable[Any]]) -> tuple[float, list[float]]:
    """Events a second, and the latency of every append."""
    latencies: list[float] = []

    async def produce(number: int) -> None:
        for n in range(each):
            started = time.perf_counter()
            await append(number, n)
            latencies.append(time.perf_counter() - started)

    gc.collect()
    started = time.perf_counter()
    await asyncio.gather(*(produce(number) for number in range(producers)))
    return producers * each / (time.perf_counter() - started), latencies


def raw_append(raw: RawWriter, base: int, payload: bytes) -> Callable[[int, int], Awaitable[None]]:
    at = time.time_ns() // 1_000_000
    run_id = new_id("run")

    async def append(number: int, n: int) -> None:
        await raw.append((base + number, n + 1, new_id("event"), run_id, n + 1, StepCompleted.type, "system", at, None,
                          payload, b"\0" * 32, b"\1" * 32))  # fmt: skip

    return append


async def scopes(store: Store, count: int) -> list[Scope]:
    made = [Scope("default", new_id("thread"), new_id("run")) for _ in range(count)]
    await asyncio.gather(*(store.recorder.record(s, ThreadCreated(), RequestQueued(agent="bench")) for s in made))
    return made


def log_append(store: Store, where: list[Scope]) -> Callable[[int, int], Awaitable[Any]]:
    async def append(number: int, n: int) -> None:
        await store.recorder.record(where[number], BuiltStepCompleted(step="bench", key=f"bench:{n}", result=RESULT))

    return append


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


async def side_by_side(store: Store, producers: int, each: int, rounds: int) -> dict[str, float]:
    """Rounds alternate, so that a noisy moment of the machine hits both."""
    payload = json.dumps({"key": "bench:1", "result": RESULT, "step": "bench"}).encode()
    ours: list[float] = []
    latencies: list[float] = []
    raws: dict[str, list[float]] = {"raw": [], **({"raw_alone": []} if store.settings.is_postgres else {})}
    for number in range(rounds):
        for nth, (name, rates) in enumerate(raws.items()):
            raw = RawWriter(store.database, alone=name == "raw_alone")
            base = 1_000_000 * (1 + number) + 100_000 * nth + producers * 1_000
            rate, _ = await load(producers, each, raw_append(raw, base, payload))
            raw.close()
            rates.append(rate)
        rate, taken = await load(producers, each, log_append(store, await scopes(store, producers)))
        ours.append(rate)
        latencies += taken

    def ratio(rates: list[float]) -> float:
        return round(statistics.median(log / raw for log, raw in zip(ours, rates, strict=True)), 3)

    return {
        **{f"{name}_per_s": round(statistics.median(rates)) for name, rates in raws.items()},
        "log_per_s": round(statistics.median(ours)),
        **{name.replace("raw", "ratio"): ratio(rates) for name, rates in raws.items()},
        "p50_ms": round(percentile(latencies, 0.5) * 1000, 2),
        "p99_ms": round(percentile(latencies, 0.99) * 1000, 2),
    }


def rss_mb() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


async def growth(store: Store, total: int) -> dict[str, Any]:
    """Cost per event and memory while the log grows: at 10 thousand stored events and at the end."""
    producers, each = 100, 100
    marks: list[tuple[int, float, float]] = []
    stored = 0
    while stored < total:
        cpu, started = time.process_time(), time.perf_counter()
        await load(producers, each, log_append(store, await scopes(store, producers)))
        wall = time.perf_counter() - started
        stored += producers * each
        marks.append((stored, (time.process_time() - cpu) / (producers * each) * 1e6, wall / (producers * each) * 1e6))
        if stored == producers * each * 3:
            early_rss = rss_mb()
    window = max(3, len(marks) // 20)
    early = marks[1 : 1 + window]
    late = marks[-window:]
    return {
        "events": stored,
        "cpu_us_early": round(statistics.median(m[1] for m in early), 2),
        "cpu_us_late": round(statistics.median(m[1] for m in late), 2),
        "wall_us_early": round(statistics.median(m[2] for m in early), 2),
        "wall_us_late": round(statistics.median(m[2] for m in late), 2),
        "late_to_early": round(statistics.median(m[2] for m in late) / statistics.median(m[2] for m in early), 3),
        "rss_mb_early": round(early_rss, 1),
        "rss_mb_late": round(rss_mb(), 1),
    }


async def reading(store: Store, count: int) -> dict[str, float]:
    (scope,) = await scopes(store, 1)
    append = log_append(store, [scope] * 200)
    await load(200, count // 200, append)
    read_rates, verify_rates = [], []
    for _ in range(3):
        after, seen, started = 0, 0, time.perf_counter()
        while page := await store.reader.events("default", scope.thread_id, after, 1000):
            seen, after = seen + len(page), page[-1].seq
        read_rates.append(seen / (time.perf_counter() - started))
        check, after, started = ChainCheck(), 0, time.perf_counter()
        while page := await store.reader.events("default", scope.thread_id, after, 1000):
            assert check.feed(page), check.broken
            after = page[-1].seq
        verify_rates.append(seen / (time.perf_counter() - started))
    return {
        "thread_events": seen,
        "read_per_s": round(max(read_rates)),
        "verify_per_s": round(max(verify_rates)),
    }


async def measure(settings: Settings, scale: float, total: int) -> dict[str, Any]:
    async with open_store(settings) as store:
        return {
            "one_producer": await side_by_side(store, 1, int(1000 * scale), 5),
            "hundred_producers": await side_by_side(store, 100, int(200 * scale), 5),
            "reading": await reading(store, 100_000),
            "growth": await growth(store, total) if total else None,
        }


async def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--database", choices=["sqlite", "postgres", "both"], default="both")
    options.add_argument("--scale", type=float, default=1.0)
    options.add_argument("--events", type=int, default=1_000_000, help="how far the log grows; 0 leaves that out")
    chosen = options.parse_args()
    configure_interpreter()
    results: dict[str, Any] = {"bench": "log", "python": sys.version.split()[0], "cores": os.cpu_count()}
    with tempfile.TemporaryDirectory() as folder:
        if chosen.database in ("sqlite", "both"):
            settings = Settings(data_dir=Path(folder) / "sqlite")
            results["sqlite"] = await measure(settings, chosen.scale, chosen.events)
        if chosen.database in ("postgres", "both"):
            server = PostgresServer(Path(tempfile.mkdtemp(prefix="holdfast-bench-", dir=folder)))
            server.start()
            try:
                admin = await asyncpg.connect(server.url("postgres"))
                await admin.execute("CREATE DATABASE bench")
                await admin.close()
                settings = Settings(database_url=server.url("bench"))
                # Raw rows belong to no thread: the comparison is about writing them, not about their parents.
                async with open_store(settings):
                    pass
                bench = await asyncpg.connect(server.url("bench"))
                await bench.execute("ALTER TABLE events DROP CONSTRAINT events_thread_key_fkey")
                await bench.close()
                results["postgres"] = await measure(settings, chosen.scale, chosen.events)
            finally:
                server.stop()
    print(json.dumps(results))


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())

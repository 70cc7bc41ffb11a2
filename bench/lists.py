"""How long lists, pages and a purge take with 1,000 and with 100,000 runs stored, on both databases.

    python -m bench.lists [--runs 1000 100000] [--postgres]

Fills a fresh database with plain rows (no events: none of these queries reads any but the last), then prints a table of
medians in milliseconds. `make bench` does not include it: it is for whoever changes an index.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from app.core.clock import SystemClock
from app.core.settings import Settings
from app.store.codec import encode
from app.store.engine import Database, Row, Sql
from app.store.idle_threads import IdleThreadReader
from app.store.leases import LeaseTable
from app.store.migrate import migrate
from app.store.reader import StoreReader
from app.store.retention import RetentionPurge
from app.store.run_lists import label_rows
from app.views.ports import RunFilter
from app.views.run import Run
from app.views.thread import Thread
from app.views.transcript import Entry
from app.wiring.store import open_database

TENANT: Final = "default"
TIMES: Final = 15
LONG: Final = "thr_long"
_THREAD: Final = Sql(
    "INSERT INTO threads (tenant, id, last_seq, head_hash, updated_at, created_at, deleted_at, state) "
    "VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
)
_RUN: Final = Sql(
    "INSERT INTO runs (tenant, id, thread_key, thread_id, agent, status, parent_run_id, created_at, first_seq, "
    "last_seq, run_seq, state) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"
)
_LEASE: Final = Sql("INSERT INTO leases (tenant, run_id, owner, epoch, until) VALUES ($1, $2, 'nobody', 1, 0)")
_LABEL: Final = Sql(
    "INSERT INTO run_labels (tenant, name, value, created_at, run_id, thread_key) VALUES ($1, $2, $3, $4, $5, $6)"
)
_ENTRY: Final = Sql("INSERT INTO transcript_entries (thread_key, message_id, position, state) VALUES ($1, $2, $3, $4)")
_KEY: Final = Sql("SELECT key FROM threads WHERE tenant = $1 AND id = $2")


async def fill(database: Database, runs: int) -> None:
    """A thread in ten runs; one run in 20,000 failed or carries the rare label; one long transcript."""
    threads = [f"thr_{n:06}" for n in range(max(1, runs // 10))] + [LONG]
    rows: list[Row] = [
        (TENANT, name, 10, b"\0" * 32, 0, 0, None, encode(Thread(name, last_seq=10))) for name in threads
    ]
    await _put(database, _THREAD, rows)
    (found,) = await database.read(lambda tx: tx.rows(_KEY, TENANT, threads[0]))
    first = int(found[0])
    stored: list[Row] = []
    labels: list[Row] = []
    for n in range(runs):
        rare = n % 20_000 == 500
        run = Run(f"run_{n:08}", threads[n // 10], agent="echo", status="failed" if rare else "completed")
        run.created_at, run.first_seq, run.last_seq, run.run_seq = 1_700_000_000_000 + n, n % 10 + 1, n % 10 + 1, 1
        run.labels = {"team": "rare"} if rare else {}
        stored.append((TENANT, run.id, first + n // 10, run.thread_id, run.agent, run.status, None, run.created_at,
                       run.first_seq, run.last_seq, run.run_seq, encode(run)))  # fmt: skip
        labels += label_rows(TENANT, first + n // 10, run)
    await _put(database, _RUN, stored)
    await _put(database, _LABEL, labels)
    await _put(database, _LEASE, [(TENANT, row[1]) for row in stored])
    key = first + len(threads) - 1
    entries = [Entry(f"msg_{n}", n + 1, "run_1", "user", "message", "hello " * 20) for n in range(runs // 10)]
    await _put(database, _ENTRY, [(key, entry.message_id, entry.position, encode(entry)) for entry in entries])


async def _put(database: Database, sql: Sql, rows: list[Row]) -> None:
    for start in range(0, len(rows), 500):
        await database.write(lambda tx, start=start: tx.many(sql, rows[start : start + 500]))  # type: ignore[misc]


async def measure(database: Database, runs: int) -> dict[str, float]:
    reader = StoreReader(database)
    retention = RetentionPurge(database, SystemClock(), 0)
    leases, idle = LeaseTable(database), IdleThreadReader(database)

    def listed(**fields: object) -> Callable[[], Awaitable[object]]:
        return lambda: reader.list_runs(TENANT, RunFilter(**fields), None, 100)  # type: ignore[arg-type]

    async def purge() -> None:
        (found,) = await database.read(lambda tx: tx.rows(_KEY, TENANT, f"thr_{purged[0]:06}"))
        purged[0] += 1
        await retention._purge_threads([int(found[0])], 1, asyncio.Event())

    purged = [0]
    asked: dict[str, Callable[[], Awaitable[object]]] = {
        "all": listed(),
        "status failed": listed(status="failed"),
        "status running": listed(status="running"),
        "absent agent": listed(agent="nobody"),
        "rare label": listed(labels={"team": "rare"}),
        "active of a thread": lambda: reader.runs(TENANT, thread_id=f"thr_{runs // 20:06}", status="running"),
        "newest threads": lambda: reader.newest_threads(TENANT, before=None, system=False, limit=100),
        "older threads": lambda: reader.newest_threads(TENANT, before=runs // 20, system=False, limit=100),
        "company of an owner": lambda: leases.had_company("nobody"),
        "idle threads": lambda: idle.idle_threads(0, (0, 0), 100),
        "transcript page": lambda: reader.transcript_page(TENANT, LONG, runs // 20, 100),
        "purge a thread": purge,
    }
    return {name: await _median(ask) for name, ask in asked.items()}


async def _median(ask: Callable[[], Awaitable[object]]) -> float:
    took = []
    for _ in range(TIMES):
        started = time.perf_counter()
        await ask()
        took.append((time.perf_counter() - started) * 1000)
    return statistics.median(took)


async def _one(settings: Settings, runs: int) -> dict[str, float]:
    await migrate(settings)
    database = open_database(settings)
    try:
        await fill(database, runs)
        return await measure(database, runs)
    finally:
        await database.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, nargs="+", default=[1000, 100_000])
    parser.add_argument("--postgres", action="store_true", help="also on a Postgres of the development dependencies")
    given = parser.parse_args()
    columns: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="holdfast-lists-") as folder:
        for runs in given.runs:
            columns[f"SQLite {runs}"] = asyncio.run(_one(Settings(data_dir=_made(Path(folder), runs)), runs))
        if given.postgres:
            from tests.postgres import PostgresServer

            server = PostgresServer(_made(Path(folder), 0), fsync=False)
            server.start()
            try:
                for runs in given.runs:
                    columns[f"Postgres {runs}"] = asyncio.run(_on_postgres(server.url("postgres"), runs))
            finally:
                server.stop("QUIT")
    print("| ms | " + " | ".join(columns) + " |\n|---|" + "---:|" * len(columns))
    for name in next(iter(columns.values())):
        print(f"| {name} | " + " | ".join(f"{column[name]:.2f}" for column in columns.values()) + " |")


def _made(folder: Path, number: int) -> Path:
    made = folder / str(number)
    made.mkdir()
    return made


async def _on_postgres(url: str, runs: int) -> dict[str, float]:
    import asyncpg

    admin = await asyncpg.connect(url)
    await admin.execute(f"CREATE DATABASE lists_{runs}")
    await admin.close()
    return await _one(Settings(database_url=f"{url.removesuffix('postgres')}lists_{runs}"), runs)


if __name__ == "__main__":
    main()

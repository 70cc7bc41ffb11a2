"""`python -m bench.size`: bytes that a paced token takes in the database for good, as one JSON line.

One delta of about six characters per commit, as a model at an ordinary pace leaves them: of one answer of 1,000 tokens,
and of 50 answers of 200 tokens at the same time. The log is the tables `events` and `deltas` with their indexes; the
file has the rest of the database as well. One of the answers is read back and verified.
"""

import argparse
import asyncio
import json
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import asyncpg
import uvloop

from app.core.ids import new_id
from app.core.settings import Settings
from app.events.catalog.adapter import OUTPUT_DELTA
from app.events.chain import Head, verify
from app.events.recorder import Scope
from app.wiring.store import Store, open_store
from bench.log import scopes
from tests.postgres import PostgresServer

WORDS = ("hello ", "there ", "who ", "reads ", "each ", "token ", "of it ", "slowly ")
_LOG = ("events", "deltas")


async def sizes(settings: Settings) -> tuple[int, int]:
    """Of the log and of the whole database, in bytes; nobody else has it open."""
    if settings.is_postgres:
        connection = await asyncpg.connect(settings.database_url)
        await connection.execute("CHECKPOINT")
        tables = [row[0] for row in await connection.fetch("SELECT relname FROM pg_class WHERE relkind = 'r'")]
        log = [await connection.fetchval(f"SELECT pg_total_relation_size('{name}')") for name in _LOG if name in tables]
        whole: int = await connection.fetchval("SELECT pg_database_size(current_database())")
        await connection.close()
        return sum(log), whole
    file = sqlite3.connect(settings.sqlite_path)
    file.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    owners = "SELECT name FROM sqlite_master WHERE tbl_name IN ('events', 'deltas')"
    (stored,) = file.execute(f"SELECT SUM(pgsize) FROM dbstat WHERE name IN ({owners})").fetchone()
    file.close()
    return stored or 0, settings.sqlite_path.stat().st_size


async def stream(store: Store, scope: Scope, tokens: int) -> None:
    message = new_id("message")
    for n in range(tokens):
        await store.recorder.record_delta(scope, OUTPUT_DELTA, message, 0, WORDS[n % len(WORDS)])


async def answers(settings: Settings, count: int, tokens: int) -> dict[str, float]:
    async with open_store(settings) as store:
        where = [
            Scope(scope.tenant, scope.thread_id, scope.run_id, "backend:model") for scope in await scopes(store, count)
        ]
    log, whole = await sizes(settings)
    async with open_store(settings) as store:
        await asyncio.gather(*(stream(store, scope, tokens) for scope in where))
        events = await store.reader.events(where[0].tenant, where[0].thread_id, 0, tokens + 10)
        assert len(events) == tokens + 2 and isinstance(verify(events), Head), "one event for each token"
    log_after, whole_after = await sizes(settings)
    return {
        "tokens": count * tokens,
        "log_bytes_per_token": round((log_after - log) / (count * tokens), 1),
        "file_bytes_per_token": round((whole_after - whole) / (count * tokens), 1),
    }


async def measure(settings: Settings) -> dict[str, Any]:
    return {"one_answer": await answers(settings, 1, 1000), "fifty_answers": await answers(settings, 50, 200)}


async def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--database", choices=["sqlite", "postgres", "both"], default="both")
    chosen = options.parse_args()
    results: dict[str, Any] = {"bench": "size"}
    with tempfile.TemporaryDirectory() as folder:
        if chosen.database in ("sqlite", "both"):
            results["sqlite"] = await measure(Settings(data_dir=Path(folder) / "sqlite"))
        if chosen.database in ("postgres", "both"):
            server = PostgresServer(Path(tempfile.mkdtemp(prefix="holdfast-bench-", dir=folder)))
            server.start()
            try:
                admin = await asyncpg.connect(server.url("postgres"))
                await admin.execute("CREATE DATABASE bench")
                await admin.close()
                results["postgres"] = await measure(Settings(database_url=server.url("bench")))
            finally:
                server.stop()
    print(json.dumps(results))


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())

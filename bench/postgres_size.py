"""The log on Postgres at size: with and without partitions, from generated events.

    python -m bench.postgres_size --events 1000000 --partitions 0 16

Generates the rows inside Postgres (20 million with `--events 20000000 --partitions 16`), then measures what a server
does to them: appends in batches, pages of a thread, purging a thread, a vacuum, and each kind of query with its plan
(`--plans` prints them whole). All variants in one run, on one machine; the ratios count, not the seconds.
"""

import argparse
import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncpg

from app.core.settings import Settings
from app.store import postgres_append, postgres_session, reader, retention
from app.store.engine import Sql
from app.store.migrate import migrate
from app.store.partitions import TABLES, conversion
from bench.postgres_queries import QUERIES, plan_of, query_times
from tests.postgres import PostgresServer, running_postgres

THREAD_EVENTS = 50
BATCH = 200
ROUNDS = 200

_FILL = """
SET session_replication_role = replica; -- nobody has to look whether the threads exist
INSERT INTO threads (key, tenant, id, last_seq, head_hash, updated_at, created_at, state)
    SELECT n, 't' || n % 100, 'thr_' || n, {each} * 2, repeat('h', 32)::bytea, n, n, repeat('x', 300)::bytea
    FROM generate_series({first}, {last}) AS n;
INSERT INTO runs (tenant, id, thread_key, thread_id, agent, status, created_at, first_seq, last_seq, run_seq, state)
    SELECT 't' || n % 100, 'run_' || n, n, 'thr_' || n, CASE WHEN n % 500 = 7 THEN 'rare' ELSE 'usual' END,
    CASE WHEN n % 4000 = 9 THEN 'queued' WHEN n % 200 = 11 THEN 'failed' ELSE 'completed' END,
    n, 1, {each} * 2, {each} * 2, repeat('x', 600)::bytea FROM generate_series({first}, {last}) AS n;
INSERT INTO run_labels (tenant, name, value, created_at, run_id, thread_key)
    SELECT 't' || n % 100, 'team', CASE WHEN n % 1000 < 100 THEN 'x' ELSE 'y' END, n, 'run_' || n, n
    FROM generate_series({first}, {last}) AS n;
INSERT INTO leases (tenant, run_id, owner, epoch, until)
    SELECT 't' || n % 100, 'run_' || n, 'owner', 1, 0 FROM generate_series({first}, {last}) AS n;
INSERT INTO events (thread_key, seq, id, run_id, run_seq, type, actor, at, payload, prev_hash, hash)
    SELECT n, 2 * s - 1, 'evt_' || md5((n * {each} + s)::text), 'run_' || n, s, 'runtime.model.completed', 'agent:a', n,
    convert_to(repeat(md5((n + s)::text), 8), 'UTF8'), repeat('h', 32)::bytea, repeat('g', 32)::bytea
    FROM generate_series({first}, {last}) AS n, generate_series(1, {each}) AS s;
INSERT INTO deltas (thread_key, seq, back, uuid, text, hash)
    SELECT n, 2 * s, 1, substr(decode(md5((n * s)::text), 'hex'), 1, 16), 'a few words', repeat('g', 32)::bytea
    FROM generate_series({first}, {last}) AS n, generate_series(1, {each}) AS s;
"""
_SIZES = """
SELECT sum(pg_relation_size(c.oid)) FILTER (WHERE c.relkind = 'r'),
    sum(pg_relation_size(c.oid)) FILTER (WHERE c.relkind = 'i')
FROM pg_class c WHERE c.relname LIKE '{table}%' AND c.relkind IN ('r', 'i')
"""


async def _unpartitioned(connection: "asyncpg.Connection[Any]") -> None:
    for table in TABLES:
        await connection.execute(
            f"CREATE TABLE plain (LIKE {table} INCLUDING DEFAULTS); DROP TABLE {table}; "
            f"ALTER TABLE plain RENAME TO {table}; "
            f"ALTER TABLE {table} ADD CONSTRAINT {table}_by_seq PRIMARY KEY (thread_key, seq); "
            f"ALTER TABLE {table} ADD FOREIGN KEY (thread_key) REFERENCES threads (key)"
        )


async def prepared(server: PostgresServer, events: int, partitions: int) -> "asyncpg.Connection[Any]":
    name = f"size_{partitions}"
    admin = await asyncpg.connect(server.url("postgres"))
    await admin.execute(f"CREATE DATABASE {name}")
    await admin.close()
    await migrate(Settings(database_url=server.url(name)))
    connection = await asyncpg.connect(server.url(name))
    await _unpartitioned(connection)
    if partitions:
        for table in TABLES:
            for statement in conversion(table, partitions):
                await connection.execute(statement)
    began, threads = time.perf_counter(), events // THREAD_EVENTS
    for first in range(1, threads + 1, 2000):
        last = min(threads, first + 1999)
        await connection.execute(_FILL.format(first=first, last=last, each=THREAD_EVENTS))
    await connection.execute("VACUUM ANALYZE")
    await connection.execute("CHECKPOINT")
    print(f"partitions {partitions}: {threads:,} threads filled in {time.perf_counter() - began:.0f} s", flush=True)
    await connection.execute(postgres_session.READER_SETTINGS + "; SET statement_timeout = 0")
    return connection


async def _timed(name: str, rounds: int, work: Callable[[int], Awaitable[object]]) -> dict[str, float]:
    took = []
    for number in range(rounds):
        began = time.perf_counter()
        await work(number)
        took.append((time.perf_counter() - began) * 1000)
    return {f"{name}_p50_ms": statistics.median(took), f"{name}_p99_ms": statistics.quantiles(took, n=100)[98]}


async def measured(connection: "asyncpg.Connection[Any]", events: int) -> dict[str, float]:
    threads = events // THREAD_EVENTS
    result: dict[str, float] = {}
    for table in TABLES:
        rows, index = await connection.fetchrow(_SIZES.format(table=table)) or (0, 0)
        result |= {f"{table}_mb": float(rows) / 1e6, f"{table}_index_mb": float(index) / 1e6}
    statement = postgres_append.append((True, False, True, False))

    async def append(number: int) -> None:
        """As the log's writer: a batch of events of many threads, and their counters."""
        keys = [1 + (number * 7919 + n * 104_729) % threads for n in range(BATCH)]
        keys = list(dict.fromkeys(keys))
        seq = 10_000 + number
        count = len(keys)
        columns = [
            keys, [seq] * count, [f"evt_{number}_{n}" for n in range(count)], [None] * count, [None] * count,
            ["type"] * count, ["system"] * count, [0] * count, [None] * count, [b"x" * 256] * count,
            [b"h" * 32] * count, [b"h" * 32] * count, keys, [seq] * count, [b"h" * 32] * count, [0] * count,
        ]  # fmt: skip
        await connection.execute(statement, *columns)

    def page(sql: Sql) -> Callable[[int], Awaitable[object]]:
        return lambda number: connection.fetch(sql.postgres, 1 + (number * 7919) % threads, 0, 100)

    async def purge(number: int) -> None:
        key = 1 + (number * 104_729) % threads
        async with connection.transaction():
            await connection.execute(retention._DELTAS.postgres, key, 0)
            await connection.execute(retention._EVENTS.postgres, key, 0)

    vacuumed = await _vacuum_load(connection)
    result |= await _timed("append_200", ROUNDS, append)
    result |= await _timed("page_100", ROUNDS * 5, page(reader._EVENTS))
    result |= await _timed("purge_thread", ROUNDS, purge)
    result["dead_rows"] = float(await _dead_rows(connection))
    began, cpu = time.perf_counter(), await _backend_cpu_seconds(connection)
    for table in (*TABLES, "threads"):
        await connection.execute(f"VACUUM {table}")
    result["vacuum_s"] = time.perf_counter() - began
    result["vacuum_cpu_s"] = await _backend_cpu_seconds(connection) - cpu
    result["automatic_vacuums"] = float(await _vacuum_load(connection) - vacuumed)
    return result


async def _backend_cpu_seconds(connection: "asyncpg.Connection[Any]") -> float:
    """Of the process of Postgres behind this connection, which is on this machine."""
    pid = connection.get_server_pid()
    fields = (await asyncio.to_thread(Path(f"/proc/{pid}/stat").read_text)).rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / float(os.sysconf("SC_CLK_TCK"))


async def _dead_rows(connection: "asyncpg.Connection[Any]") -> int:
    return int(await connection.fetchval("SELECT sum(n_dead_tup) FROM pg_stat_user_tables") or 0)


async def _vacuum_load(connection: "asyncpg.Connection[Any]") -> int:
    return int(await connection.fetchval("SELECT sum(autovacuum_count) FROM pg_stat_user_tables") or 0)


async def compare(server: PostgresServer, events: int, variants: list[int], plans: bool) -> dict[int, dict[str, float]]:
    results = {}
    for partitions in variants:
        connection = await prepared(server, events, partitions)
        times = await query_times(connection, events // THREAD_EVENTS)
        print("\n| query | p50 ms | p99 ms | plan |\n|---|---|---|---|")
        for name, (middle, most, shape) in times.items():
            print(f"| {name} | {middle:.2f} | {most:.2f} | {shape} |", flush=True)
        if plans:
            for name, query in QUERIES.items():
                print(f"\n{name}\n{await plan_of(connection, query, events // THREAD_EVENTS)}", flush=True)
        results[partitions] = await measured(connection, events)
        await connection.close()
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000, help="and as many deltas")
    parser.add_argument("--partitions", type=int, nargs="+", default=[0, 16])
    parser.add_argument("--plans", action="store_true", help="print the plan of each query")
    options = parser.parse_args()
    with running_postgres() as server:
        results = asyncio.run(compare(server, options.events, options.partitions, options.plans))
    names = list(next(iter(results.values())))
    print(f"\n{options.events:,} events and as many deltas\n")
    print("| | " + " | ".join(f"{count} partitions" if count else "one table" for count in results) + " |")
    print("|---|" + "---|" * len(results))
    for name in names:
        print(f"| {name} | " + " | ".join(f"{result[name]:.2f}" for result in results.values()) + " |")


if __name__ == "__main__":
    main()

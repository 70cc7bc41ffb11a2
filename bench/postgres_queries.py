"""The queries that a server asks of a large log on Postgres: their plans, and their times, as prepared statements.

Used by `bench.postgres_size`, whose generated rows they read. A query that does not follow an index is marked.
"""

import re
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import asyncpg

from app.store import idle_threads, reader, retention, run_lists, thread_positions
from app.store.engine import Sql

TENANTS = 100
ROUNDS = 300


@dataclass(frozen=True, slots=True)
class Query:
    sql: Sql
    values: Callable[[int, int], tuple[object, ...]]
    """Of the number of the round, and of the number of threads."""


def _thread(number: int, threads: int) -> int:
    return 1 + (number * 7919) % threads


def _tenant(number: int) -> str:
    return f"t{number % TENANTS}"


QUERIES = {
    "list: newest runs": Query(run_lists._BY_TIME, lambda n, count: (_tenant(n), 2**62, "", 50)),
    "list: page in the middle": Query(run_lists._BY_TIME, lambda n, count: (_tenant(n), _thread(n, count), "", 50)),
    "list: failed runs": Query(run_lists._RESTING, lambda n, count: (_tenant(n), 2**62, "", 50, "failed")),
    "list: runs of an agent": Query(run_lists._BY_AGENT, lambda n, count: (_tenant(n), 2**62, "", 50, "rare")),
    "list: runs with a label": Query(run_lists._BY_LABEL, lambda n, count: (_tenant(n), 2**62, "", 50, "team", "x")),
    "list: newest threads": Query(reader._NEWEST_THREADS, lambda n, count: (_tenant(n), 2**62, 0, 50)),
    "backfill: page of a thread": Query(reader._EVENTS, lambda n, count: (_thread(n, count), 20, 100)),
    "backfill: events of a run": Query(
        reader._RUN_EVENTS, lambda n, count: (_thread(n, count), 0, 2**40, f"run_{_thread(n, count)}", 100)
    ),
    "poll: positions of 500 threads": Query(
        thread_positions._LAST,
        lambda n, count: (_tenant(n), [f"thr_{TENANTS * k + n % TENANTS}" for k in range(1, 501)]),
    ),
    "poll: threads of the newest runs": Query(thread_positions._RECENT, lambda n, count: (_tenant(n), 500)),
    "claim: runs that wait": Query(reader._ACTIVE, lambda n, count: (100,)),
    "retention: deleted threads": Query(retention._DUE, lambda n, count: (2**62,)),
    "retention: idle threads": Query(idle_threads._IDLE, lambda n, count: (2**62, _thread(n, count), 0, 100)),
}


async def plan_of(connection: "asyncpg.Connection[Any]", query: Query, threads: int) -> str:
    """As it is carried out, with the pages it touched."""
    rows = await connection.fetch(
        f"EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF) {query.sql.postgres}",
        *query.values(1, threads),
    )
    return "\n".join(row[0] for row in rows)


def shape_of(plan: str) -> str:
    """In one line: the indexes it follows, what it reads whole, what it sorts, and the pages it touched."""
    # A partition's index has a name of its own; the partitioned one is what the plan is about.
    indexes = sorted({re.sub(r"_p?\d+", "", name) for name in re.findall(r"using (\w+)", plan)})
    scanned = sorted({re.sub(r"_p?\d+$", "", name) for name in re.findall(r"Seq Scan on (\w+)", plan)})
    pages = [sum(int(number) for number in re.findall(r"(?:hit|read)=(\d+)", line)) for line in plan.splitlines()]
    parts = [", ".join(indexes) or "no index"]
    parts += [f"READS ALL OF {', '.join(scanned)}"] if scanned else []
    parts += ["sorts"] if re.search(r"^\s*(->\s+)?Sort \(", plan, re.MULTILINE) else []
    return "; ".join([*parts, f"{max(pages)} pages"])


async def query_times(connection: "asyncpg.Connection[Any]", threads: int) -> dict[str, tuple[float, float, str]]:
    """p50 and p99 in milliseconds, and the shape of the plan."""
    found = {}
    for name, query in QUERIES.items():
        statement = await connection.prepare(query.sql.postgres)
        took = []
        for number in range(ROUNDS):
            began = time.perf_counter()
            await statement.fetch(*query.values(number, threads))
            took.append((time.perf_counter() - began) * 1000)
        shape = shape_of(await plan_of(connection, query, threads))
        found[name] = (statistics.median(took), statistics.quantiles(took, n=100)[98], shape)
    return found

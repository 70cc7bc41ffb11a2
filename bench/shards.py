"""What a shard (one Postgres with its servers) can carry, and what a large installation takes: a simulation.

    python -m bench.shards [--measure]

The costs are measured: those of a server by `bench.runs` and `bench.fanout` (bench/results.md), those of Postgres here
with `--measure`. The simulation is of one shard: runs arrive at random, each writes its events, every server commits
what has gathered as one transaction at a time, and all of them share the database's processors. It looks for the rate
at which the commit of an event still takes less than `TARGET_MS` at the 99th percentile. Locks inside Postgres, the
bandwidth of its disk and replication are not in it: a real shard carries less, so plan with half of it at most.
"""

import argparse
import asyncio
import heapq
import os
import random
import statistics
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from app.store import postgres_append
from bench.postgres_size import prepared
from tests.postgres import running_postgres

TARGET_MS = 50.0


@dataclass(frozen=True)
class Costs:
    """In milliseconds of one processor, unless it says otherwise."""

    run_server: float = 1.94
    """A run with one model call in a server (`postgres.model.cpu_ms`)."""
    stream_server: float = 3.36
    """The same run streamed to an OpenAI client (`burst.cpuMsPerStream.ours`)."""
    events: int = 7
    event_database: float = 0.034
    """One event in Postgres, as part of a batch; --measure."""
    commit_database: float = 0.86
    """One transaction in Postgres, apart from its events; --measure."""
    commit_disk: float = 1.0
    """Milliseconds until the log disk has synced; an SSD with a protected cache is faster, a cloud disk slower."""
    socket_kb: float = 35.0
    """Memory of an idle websocket in its server, without the kernel's buffers."""


@dataclass(frozen=True)
class Shard:
    servers: int = 16
    database_cores: int = 16


def p99_commit(costs: Costs, shard: Shard, runs_per_second: float, seconds: float = 2.0, seed: int = 1) -> float:
    """Milliseconds from an event to its commit, 99th percentile."""
    random.seed(seed)
    arrivals: list[tuple[float, int]] = []
    at = 0.0
    while at < seconds * 1000:
        at += random.expovariate(runs_per_second / 1000)
        server, moment = random.randrange(shard.servers), at
        for _ in range(costs.events):
            arrivals.append((moment, server))
            moment += random.expovariate(1 / 30)  # events of a run come while it works
    arrivals.sort()
    waiting: list[deque[float]] = [deque() for _ in range(shard.servers)]
    busy = [False] * shard.servers
    cores = [0.0] * shard.database_cores
    ends: list[tuple[float, int]] = []
    took: list[float] = []
    position = 0

    def begin(server: int, now: float) -> None:
        batch = list(waiting[server])
        waiting[server].clear()
        busy[server] = True
        free = heapq.heappop(cores)
        done = max(now, free) + costs.commit_database + len(batch) * costs.event_database
        heapq.heappush(cores, done)
        ended = done + costs.commit_disk * random.uniform(0.7, 1.6)
        took.extend(ended - came for came in batch)
        heapq.heappush(ends, (ended, server))

    while position < len(arrivals) or ends:
        if ends and (position == len(arrivals) or ends[0][0] <= arrivals[position][0]):
            now, server = heapq.heappop(ends)
            busy[server] = False
        else:
            now, server = arrivals[position]
            position += 1
            waiting[server].append(now)
        if waiting[server] and not busy[server]:
            begin(server, now)
    return statistics.quantiles(took, n=100)[98]


def most_runs(costs: Costs, shard: Shard) -> int:
    """Runs a second that the shard carries within the target, to about 5%."""
    low, high = 10.0, shard.database_cores / (costs.events * costs.event_database) * 1000 * 1.2
    while high > low * 1.05:
        middle = (low + high) / 2
        if p99_commit(costs, shard, middle) <= TARGET_MS:
            low = middle
        else:
            high = middle
    return round(low)


def _cpu_ms(parent: int) -> float:
    """Of a process and its children, those that ended included."""
    pids = [parent, *map(int, Path(f"/proc/{parent}/task/{parent}/children").read_text().split())]
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(int(field) for field in fields[11:15])
    return ticks * 1000 / os.sysconf("SC_CLK_TCK")


async def measured(threads: int = 2000) -> tuple[float, float]:
    """Processor milliseconds of Postgres for one more event of a batch, and for a transaction."""
    with running_postgres() as server:
        connection = await prepared(server, threads * 50, 16)
        assert server._process is not None
        pid = server._process.pid
        large = [await _batches(connection, pid, 200, threads) for _ in range(3)]
        small = [await _batches(connection, pid, 10, threads) for _ in range(3)]
        await connection.close()
    per_event = (statistics.median(large) - statistics.median(small)) / 190
    return per_event, statistics.median(small) - 10 * per_event


async def _batches(connection: "asyncpg.Connection[object]", parent: int, size: int, threads: int) -> float:
    statement, rounds = postgres_append.append((True, False, True, False)), 100
    await connection.execute(statement, *_columns([1], 999_999 + random.randrange(10**9)))
    before = _cpu_ms(parent)
    for number in range(rounds):
        keys = random.sample(range(1, threads + 1), size)
        await connection.execute(statement, *_columns(keys, random.randrange(10**6, 10**12) + number))
    return (_cpu_ms(parent) - before) / rounds


def _columns(keys: list[int], seq: int) -> list[list[object]]:
    count = len(keys)
    return [
        [*keys], [seq] * count, [f"evt_{seq}_{n}" for n in range(count)], [None] * count, [None] * count,
        ["type"] * count, ["system"] * count, [0] * count, [None] * count, [b"x" * 256] * count, [b"h" * 32] * count,
        [b"h" * 32] * count, [*keys], [seq] * count, [b"h" * 32] * count, [0] * count,
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", action="store_true", help="measure the costs of Postgres here first")
    costs = Costs()
    if parser.parse_args().measure:
        event, commit = asyncio.run(measured())
        print(f"Postgres: {event:.4f} ms an event, {commit:.3f} ms a transaction, of one processor")
        costs = Costs(event_database=event, commit_database=commit)
    print("| database cores | servers | runs/s within the target | events/s | server cores, not streamed | streamed |")
    print("|---|---|---|---|---|---|")
    carried: dict[int, int] = {}
    for cores in (4, 16):
        shard = Shard(servers=cores, database_cores=cores)
        best = carried[cores] = most_runs(costs, shard)
        plain, streamed = (best * cost / 1000 for cost in (costs.run_server, costs.stream_server))
        print(f"| {cores} | {cores} | {best:,} | {best * costs.events:,} | {plain:.0f} | {streamed:.0f} |")
    shards = -(-100_000 // (carried[16] // 2))
    workers = 100_000 * costs.stream_server / 1000 / 0.7
    print(f"\n100,000 runs/s: {shards} shards of 16 cores at half load, and {workers:.0f} worker processes at 70%")
    print(f"1,000,000 idle sockets: {1_000_000 * costs.socket_kb / 1e6:.0f} GB of memory over all workers")


if __name__ == "__main__":
    main()

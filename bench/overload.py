"""Four times as many clients as runs at once: `python -m bench.overload [--quick]` prints one JSON object.

The server executes 64 runs at once (its default). First 64 clients stream one answer after the other, then 256. The
fake model sends 20 tokens 5 ms apart, the first of them immediately. `firstTokenLaterMs` is the time from a client's
request to its first token, less what the model takes for it through a minimal proxy that serves one client. With 256
clients a run waits for its turn while three others are executed: at least `turnsMs`, which is the model's own time and
part of the figure.

Meanwhile the server's metrics are read: the most that waited in each queue, next to its bound. `moreMb` is how much
more memory the server has taken at its peak than with as many clients as runs.
"""

import argparse
import asyncio
import os
import shutil
import statistics
import tempfile
import urllib.request
from pathlib import Path
from typing import Any, Final

import orjson
import uvloop

from app.core.settings import Settings
from bench.edge import Load, Peak, measure, servers

RUNS: Final = 64
TIMES: Final = 4
GOAL_MS: Final = 1200.0
GOAL_MB: Final = 64.0
"""A quarter of a megabyte for each client more."""
LOOK_SECONDS: Final = 0.25


def bounds(settings: Settings) -> dict[str, int]:
    """The queues between a request and its answer, and how many may wait in each."""
    return {
        "requests_in_flight": settings.max_requests_per_tenant,
        "runs_wanted": settings.max_queued_runs_per_tenant,
        "runs_running": RUNS,
        "model_calls_running": settings.model_calls,
        "events_waiting": settings.max_pending_events,
    }


async def longest(port: int, names: dict[str, int], into: dict[str, int]) -> None:
    """The most that each metric has shown, until cancelled."""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        text = await asyncio.to_thread(_metrics, port)
        for line in text.splitlines():
            name, _, value = line.partition(" ")
            if (queue := name.partition("{")[0].removeprefix("holdfast_")) in names:
                into[queue] = max(into.get(queue, 0), int(float(value)))


def _metrics(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        return str(answer.read().decode())


async def loaded(server: tuple[int, int], clients: int, seconds: float, own_ms: float) -> dict[str, Any]:
    limits, queues = bounds(Settings(max_concurrent_runs=RUNS)), dict[str, int]()
    peak, watching = Peak(server[1]), asyncio.create_task(longest(server[0], limits, queues))
    made = await measure(server, Load("pace5", clients, seconds))
    watching.cancel()
    later = [first - own_ms for first in made.first]
    hundredths = statistics.quantiles(later, n=100)
    return {
        "clients": clients,
        "streams": made.streams,
        "streamsPerSecond": round(made.rate),
        "cpuMsPerStream": round(made.cpu / made.streams * 1000, 3),
        "firstTokenLaterMs": {"p50": round(hundredths[49]), "p95": round(hundredths[94]), "p99": round(hundredths[98])},
        "peakMb": peak.mb,
        "queues": {name: {"most": queues.get(name), "bound": bound} for name, bound in limits.items()},
    }


async def bench(seconds: float) -> dict[str, Any]:
    if shutil.which("taskset"):
        os.sched_setaffinity(0, {1} if (os.cpu_count() or 1) > 1 else {0})
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder, servers(Path(folder), None, RUNS) as made:
        own = await measure(made["lean"], Load("pace5", 1, 1.0))
        first_ms, whole_ms = statistics.median(own.first), own.seconds / own.streams * 1000
        await measure(made["ours"], Load("burst", 8, 1.0))
        even = await loaded(made["ours"], RUNS, seconds, first_ms)
        more = await loaded(made["ours"], RUNS * TIMES, seconds, first_ms)
        more["turnsMs"] = round((TIMES - 1) * whole_ms)
        more["moreMb"] = round(more["peakMb"] - even["peakMb"], 1)
    within = all((queue["most"] or 0) <= queue["bound"] for queue in more["queues"].values())
    return {
        "bench": "overload",
        "runsAtOnce": RUNS,
        "even": even,
        "fourTimes": more,
        "goals": {
            f"fourTimes.firstTokenLaterMs.p95 < {GOAL_MS:g}": more["firstTokenLaterMs"]["p95"] < GOAL_MS,
            f"fourTimes.moreMb < {GOAL_MB:g}": more["moreMb"] < GOAL_MB,
            "every queue within its bound": within,
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.overload")
    parser.add_argument("--quick", action="store_true", help="five seconds of each load instead of twenty")
    options = parser.parse_args()
    print(orjson.dumps(uvloop.run(bench(5.0 if options.quick else 20.0)), option=orjson.OPT_INDENT_2).decode())


if __name__ == "__main__":
    main()

"""Memory of a server that has worked: `python -m bench.resident [--runs N]` prints one JSON object.

A server in front of the fake model of `bench.edge`: its resident memory once it is ready, and after more and more
streamed answers of 20 tokens, 32 at once, each stored in a thread of its own. What grows with their number is kept for
nobody.
"""

import argparse
import asyncio
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Final

import orjson
import uvloop

from bench.edge import Measured, Peak, servers, stream

CLIENTS: Final = 32
GOAL_MB: Final = 140.0
SETTLED_SECONDS: Final = 3.0
"""After the start, and after the last answer: what is done in the background is done then."""


async def answered(port: int, count: int) -> None:
    """So many answers, by clients that ask one after the other."""
    left = iter(range(count))

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in left:
            await stream(reader, writer, "burst", Measured(first=[], lags=[]))
        writer.close()

    await asyncio.gather(*(client() for _ in range(CLIENTS)))


def resident_mb(pid: int) -> float:
    return round(int(Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()[0]) / 1024, 1)


async def bench(runs: int) -> dict[str, Any]:
    if shutil.which("taskset"):
        os.sched_setaffinity(0, {1} if (os.cpu_count() or 1) > 1 else {0})
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder, servers(Path(folder), None) as made:
        port, pid = made["ours"]
        await asyncio.sleep(SETTLED_SECONDS)
        peak, after, done = Peak(pid), {"0": resident_mb(pid)}, 0
        for share in (20, 4, 2, 1):
            await answered(port, runs // share - done)
            done = runs // share
            await asyncio.sleep(SETTLED_SECONDS)
            after[str(done)] = resident_mb(pid)
        most = peak.mb
    last = after[str(done)]
    goals = {f"residentMb < {GOAL_MB:g}": last < GOAL_MB}
    return {"bench": "resident", "residentMb": last, "peakMb": most, "mbAfterRuns": after, "goals": goals}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.resident")
    parser.add_argument("--runs", type=int, default=20_000)
    options = parser.parse_args()
    print(orjson.dumps(uvloop.run(bench(options.runs)), option=orjson.OPT_INDENT_2).decode())


if __name__ == "__main__":
    main()

"""Several servers on one Postgres: streams per second and CPU per stream with 1, 2 and 3 of them, and latency of news.

Streams are submitted and followed at one server each, in turn, as a load balancer sends them; there are as many clients
for each server, however many servers there are. The latency of news is the time from an event's arrival at a reader of
the server that works on the run to its arrival at a reader of another server. On a busy machine compare the CPU per
stream, not the seconds. `python -m bench.replicas` prints one JSON line.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx2

from tests.bus.servers import running_nats
from tests.databases import create_database
from tests.postgres import PostgresServer, running_postgres
from tests.server import ServerProcess

WORDS = " ".join(f"w{n}" for n in range(20))
TICK = os.sysconf("SC_CLK_TCK")


def _cpu(server: ServerProcess) -> float:
    fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


async def _servers(folder: Path, url: str, count: int, bus: str) -> list[ServerProcess]:
    variables = {"HOLDFAST_BUS": bus, "HOLDFAST_LOG_LEVEL": "error"}
    # One after the other: on a busy machine three at once, cold, take longer than a start may.
    return [await asyncio.to_thread(ServerProcess.start, folder / str(n), url, None, variables) for n in range(count)]


async def _streams(servers: list[ServerProcess], clients: int, each: int) -> dict[str, float]:
    # A server closes a connection that has rested for 5 s: on a busy machine a client must let go of it before.
    async with httpx2.AsyncClient(timeout=120, limits=httpx2.Limits(keepalive_expiry=1)) as http:

        async def work(n: int, many: int) -> None:
            for k in range(many):
                url = servers[(n + k) % len(servers)].url
                body = {"agent": "echo", "input": WORDS}
                async with http.stream("POST", f"{url}/api/runs?stream=sse", json=body) as answer:
                    assert answer.status_code == 200, await answer.aread()
                    async for _ in answer.aiter_bytes():
                        pass

        await asyncio.gather(*(work(n, 1) for n in range(clients)))  # warm
        used, began = sum(map(_cpu, servers)), time.perf_counter()
        await asyncio.gather(*(work(n, each) for n in range(clients)))
        seconds, cpu = time.perf_counter() - began, sum(map(_cpu, servers)) - used
    streams = clients * each
    return {"streamsPerSecond": round(streams / seconds, 1), "cpuMsPerStream": round(cpu / streams * 1000, 2)}


async def _compared(servers: list[ServerProcess], each: int, rounds: int) -> dict[str, dict[str, float]]:
    """With 1, 2 and 3 servers in turn, several times over: what the machine does besides changes within minutes."""
    seen: dict[int, list[dict[str, float]]] = {1: [], 2: [], 3: []}
    for _ in range(rounds):
        for count, found in seen.items():
            found.append(await _streams(servers[:count], 12 * count, each))
    return {
        str(count): {name: statistics.median(one[name] for one in found) for name in found[0]}
        for count, found in seen.items()
    }


async def _arrivals(url: str, run_id: str, times: dict[int, float]) -> None:
    async with httpx2.AsyncClient(timeout=120) as http, http.stream("GET", f"{url}/api/runs/{run_id}/stream") as answer:
        rest = b""
        async for chunk in answer.aiter_bytes():
            now = time.perf_counter()
            *blocks, rest = (rest + chunk).split(b"\n\n")
            for block in blocks:
                for line in block.split(b"\n"):
                    if line.startswith(b"id: "):
                        times[int(line[4:])] = now


async def _news(servers: list[ServerProcess], runs: int) -> dict[str, float]:
    """One word at a time, so that each is a commit and a message of its own."""
    late: list[float] = []
    async with httpx2.AsyncClient(timeout=120) as http:
        for _ in range(runs):
            here: dict[int, float] = {}
            there: dict[int, float] = {}
            body = {"agent": "echo", "input": WORDS}
            run = (await http.post(f"{servers[0].url}/api/runs", json=body)).json()
            await asyncio.gather(
                _arrivals(servers[0].url, run["id"], here), _arrivals(servers[1].url, run["id"], there)
            )
            late += [there[seq] - here[seq] for seq in here if seq in there]
    late.sort()
    return {
        "events": len(late),
        "p50Ms": round(late[len(late) // 2] * 1000, 2),
        "p99Ms": round(late[int(len(late) * 0.99)] * 1000, 2),
    }


async def _commands(servers: list[ServerProcess], runs: int) -> dict[str, float]:
    """From the request to cancel at one server to the end of the run at another, as its reader sees it."""
    took: list[float] = []
    async with httpx2.AsyncClient(timeout=120) as http:
        for _ in range(runs):
            body = {"agent": "echo", "input": " ".join(["word"] * 5000)}
            run = (await http.post(f"{servers[0].url}/api/runs", json=body)).json()
            following = asyncio.create_task(_arrivals(servers[0].url, run["id"], {}))
            await asyncio.sleep(0.1)
            began = time.perf_counter()
            await http.post(f"{servers[1].url}/api/runs/{run['id']}/cancel")
            await following
            took.append(time.perf_counter() - began)
    took.sort()
    return {
        "runs": runs,
        "p50Ms": round(took[len(took) // 2] * 1000, 1),
        "p99Ms": round(took[int(len(took) * 0.99)] * 1000, 1),
    }


async def measure(postgres: PostgresServer, nats: str, quick: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"loadAverage": os.getloadavg()[0]}
    each, runs = (4, 20) if quick else (20, 100)
    for number, (bus, setting) in enumerate((("postgres", "postgres"), ("nats", nats))):
        with tempfile.TemporaryDirectory() as folder:
            await create_database(postgres, f"bench_{number}")
            servers = await _servers(Path(folder), postgres.url(f"bench_{number}"), 3, setting)
            try:
                await asyncio.sleep(3)  # until they know each other
                news, cancel = await _news(servers, runs), await _commands(servers, runs)
                streams = await _compared(servers, each, 3 if quick else 9)
                found[bus] = {
                    "news": news,
                    "cancel": cancel,
                    "streams": streams,
                    "cpuRatio3To1": round(streams["3"]["cpuMsPerStream"] / streams["1"]["cpuMsPerStream"], 2),
                }
                print(bus, json.dumps(found[bus]), file=sys.stderr, flush=True)
            finally:
                for server in servers:
                    server.kill()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    with running_postgres() as postgres, running_nats() as nats:
        print(json.dumps(asyncio.run(measure(postgres, nats.url, quick))))


if __name__ == "__main__":
    main()

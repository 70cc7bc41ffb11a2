"""`make bench-runs`: what a run costs end to end, in process, with the scripted model, as one JSON line and a table.

Two cases: one model call and no tool; one tool call between two model calls. CPU is the process's own, all threads; by
room it is what a sampling profiler saw on top of the stack, or below it for code that is not ours.
"""

import argparse
import asyncio
import gc
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import asyncpg
import uvloop

from app.core.ids import new_id
from app.core.principal import DEFAULT_TENANT, LOCAL
from app.core.resources import shipped
from app.core.settings import Settings
from app.events.catalog.model import ModelCompleted, ModelRequested
from app.events.catalog.request import TERMINAL, RequestCompleted, RequestQueued, RequestStarted
from app.events.catalog.thread import ThreadCreated
from app.events.catalog.values import Usage
from app.events.hub import Subscription
from app.events.recorder import Scope
from app.runtime.intake.submission import Submission
from app.views.run import Run
from app.wiring.runtime import Holdfast, open_holdfast
from tests.postgres import PostgresServer
from tests.server import secret_file

CASES: Final = {"model": "hello", "tool": "please use the tool"}
GOAL_MS: Final = 3.0
"""CPU per run of the first case, beyond which the runtime is in the way."""
AT_ONCE: Final = 32
SEED_AT_ONCE: Final = 400

WORKSPACE: Final = """
apiVersion: holdfast/v1
kind: Model
metadata: {name: script}
spec:
  provider: scripted
  model: script
  capabilities: {streaming: true, tools: true}
  script:
    rules:
      - {match: {afterTool: echo}, reply: {text: "done"}}
      - {match: {contains: tool}, reply: {toolCalls: [{name: echo, args: {text: "hi"}}]}}
    default: {text: "You said: {{ input }}"}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: worker}
spec: {model: script, tools: [echo], instructions: Answer briefly.}
"""


def workspace(folder: Path) -> Path:
    root = folder / "workspace"
    shutil.copytree(shipped("workspaces") / "demo", root)
    (root / "models" / "bench.yaml").write_text(WORKSPACE)
    return root


class Ends:
    """Hears every event, counts them, and lets whoever submitted a run know that it ended."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self._ended: dict[str, asyncio.Future[str]] = {}
        self.events = 0

    async def listen(self) -> None:
        while not self._subscription.closed:
            await self._subscription.wait()
            for event in self._subscription.take():
                self.events += event.run_id is not None
                if event.type in TERMINAL and event.run_id is not None:
                    self._of(event.run_id).set_result(event.type)

    def _of(self, run_id: str) -> "asyncio.Future[str]":
        return self._ended.setdefault(run_id, asyncio.get_running_loop().create_future())

    def forget(self) -> None:
        """The ends of seeded runs, which nobody waits for; a million of them would take 300 MB."""
        self._ended.clear()

    async def end(self, run_id: str) -> str:
        ended = await self._of(run_id)
        del self._ended[run_id]
        return ended


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[tuple[Holdfast, Ends]]:
    async with open_holdfast(settings) as holdfast:
        ends = Ends(holdfast.store.hub.subscribe(DEFAULT_TENANT, None, max_events=10**7, max_bytes=10**10))
        listening = asyncio.create_task(ends.listen())
        yield holdfast, ends
        listening.cancel()


async def play(holdfast: Holdfast, ends: Ends, text: str, count: int, at_once: int = AT_ONCE) -> dict[str, float]:
    """`count` runs, each in a thread of its own, `at_once` under way at any moment."""
    latencies: list[float] = []

    async def client(number: int) -> None:
        for _ in range(count // at_once):
            begun = time.perf_counter()
            run = await holdfast.service.submit(LOCAL, Submission("worker", text))
            assert isinstance(run, Run), run
            assert await ends.end(run.id) == RequestCompleted.type
            latencies.append(time.perf_counter() - begun)

    gc.collect()
    before, cpu, started = ends.events, time.process_time(), time.perf_counter()
    await asyncio.gather(*(client(number) for number in range(at_once)))
    wall, used = time.perf_counter() - started, time.process_time() - cpu
    runs = len(latencies)
    return {
        "runs_per_s": round(runs / wall, 1),
        "cpu_ms": round(used / runs * 1000, 3),
        "events": round((ends.events - before) / runs, 2),
        "p50_ms": round(statistics.median(latencies) * 1000, 1),
        "p99_ms": round(sorted(latencies)[int(runs * 0.99) - 1] * 1000, 1),
    }


async def seed(holdfast: Holdfast, runs: int) -> None:
    """Runs that ended long ago, through the real log; each in a thread of its own, as the measured ones are."""
    recorder = holdfast.store.recorder

    async def one() -> None:
        scope = Scope(DEFAULT_TENANT, new_id("thread"), new_id("run"))
        message = new_id("message")
        asked = ModelRequested(message_id=message, model="script", provider="scripted", provider_model="script",
                               attempt=1, request_hash="h", parameters={})  # fmt: skip
        said = ModelCompleted(message_id=message, model="script", provider="scripted", text="hello", tool_calls=[],
                              finish_reason="stop", usage=Usage(input_tokens=9, output_tokens=3))  # fmt: skip
        await recorder.record(
            scope, ThreadCreated(), RequestQueued(agent="worker", input="hello"),
            RequestStarted(executor="seed", epoch=1), asked, said, RequestCompleted(output="hello", message_id=message),
        )  # fmt: skip

    for start in range(0, runs, SEED_AT_ONCE):
        await asyncio.gather(*(one() for _ in range(min(SEED_AT_ONCE, runs - start))))


async def growth(settings: Settings, sizes: list[int], count: int) -> dict[str, Any]:
    """The cost of a run when so many are stored already."""
    costs: dict[str, float] = {}
    async with opened(settings) as (holdfast, ends):
        await play(holdfast, ends, CASES["model"], 2 * AT_ONCE)
        stored = 2 * AT_ONCE
        for size in sizes:
            await seed(holdfast, max(0, size - stored))
            # The least of some rounds: what else the machine does only ever adds.
            rounds = [await play(holdfast, ends, CASES["model"], count) for _ in range(3)]
            costs[str(size)] = min(one["cpu_ms"] for one in rounds)
            stored = max(stored, size) + 3 * count
    first, last = costs[str(sizes[0])], costs[str(sizes[-1])]
    return {"cpu_ms_at": costs, "last_to_first": round(last / first, 3)}


async def cases(settings: Settings, count: int) -> dict[str, Any]:
    async with opened(settings) as (holdfast, ends):
        found: dict[str, Any] = {}
        for name, text in CASES.items():
            await play(holdfast, ends, text, 2 * AT_ONCE)
            rounds = [await play(holdfast, ends, text, count) for _ in range(3)]
            found[name] = min(rounds, key=lambda one: one["cpu_ms"])
        found["one_at_a_time"] = await play(holdfast, ends, CASES["model"], count // 4, at_once=1)
    return found


# -- by room ---------------------------------------------------------------------------------------------


async def _work(settings: Settings, seconds: float) -> None:
    """The process that is looked at: the first case, for some time."""
    async with opened(settings) as (holdfast, ends):
        await play(holdfast, ends, CASES["model"], 4 * AT_ONCE)
        print("begun", flush=True)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            await play(holdfast, ends, CASES["model"], 4 * AT_ONCE)


def profile(settings: Settings, folder: Path, seconds: float) -> dict[str, float]:
    """Shares of CPU by room, in percent; '' if the profiler may not look."""
    given = ["--workspace", str(settings.workspace), "--data-dir", str(settings.data_dir)]
    given += ["--database-url", settings.database_url] if settings.database_url else []
    worker = subprocess.Popen(
        [sys.executable, "-m", "bench.runs", "--work", str(seconds + 3), *given], stdout=subprocess.PIPE, text=True
    )
    assert worker.stdout is not None
    worker.stdout.readline()
    raw = folder / "profile.raw"
    spy = Path(sys.executable).with_name("py-spy")
    command = [str(spy), "record", "--pid", str(worker.pid), "--format", "raw", "--rate", "200", "--nonblocking"]
    looked = subprocess.run(
        [*command, "--duration", str(int(seconds)), "--output", str(raw)], capture_output=True, check=False
    )
    worker.terminate()
    worker.wait()
    return by_room(raw.read_text().splitlines()) if looked.returncode == 0 and raw.exists() else {}


def by_room(stacks: list[str]) -> dict[str, float]:
    """Each sample counts for the innermost frame of ours; below none of ours it is the loop's or a library's."""
    samples: Counter[str] = Counter()
    for line in stacks:
        stack, _, count = line.rpartition(" ")
        samples[_room(stack.split(";"))] += int(count)
    whole = samples.total() or 1
    return {room: round(count / whole * 100, 1) for room, count in samples.most_common()}


def _room(frames: list[str]) -> str:
    for frame in reversed(frames):
        _, found, path = frame.rpartition("app/")
        if found and ".py" in path and "site-packages" not in frame:
            return path.split("/")[0].partition(".py")[0]
    return "loop and libraries"


# -- the report ------------------------------------------------------------------------------------------


async def measure(settings: Settings, chosen: argparse.Namespace, folder: Path) -> dict[str, Any]:
    count = 256 if chosen.quick else 1024
    sizes = [100, 5_000] if chosen.quick else [100, 10_000, 100_000]
    found = await cases(settings, count)
    if not chosen.no_profile:
        found["rooms"] = await asyncio.to_thread(profile, settings, folder, 4 if chosen.quick else 10)
    found["growth"] = await growth(settings, sizes, count // 2)
    found["rss_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)
    found["goal_met"] = found["model"]["cpu_ms"] <= GOAL_MS
    return found


def table(name: str, found: dict[str, Any]) -> str:
    lines = [f"{name}: {'case':<15} {'runs/s':>8} {'CPU ms':>8} {'events':>7} {'p50 ms':>7} {'p99 ms':>7}"]
    for case in ("model", "tool", "one_at_a_time"):
        it = found[case]
        lines.append(f"{'':<{len(name)}}  {case:<15} {it['runs_per_s']:>8} {it['cpu_ms']:>8} {it['events']:>7} "
                     f"{it['p50_ms']:>7} {it['p99_ms']:>7}")  # fmt: skip
    per_run = found["model"]["cpu_ms"]
    for room, share in list(found.get("rooms", {}).items())[:12]:
        lines.append(f"{'':<{len(name)}}  {room:<20} {share:>5} %  {per_run * share / 100:>7.3f} ms")
    lines.append(f"{'':<{len(name)}}  CPU ms by stored runs: {found['growth']['cpu_ms_at']}")
    return "\n".join(lines)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=["sqlite", "postgres", "both"], default="both")
    parser.add_argument("--quick", action="store_true", help="fewer runs, and 5,000 stored ones instead of 100,000")
    parser.add_argument("--no-profile", action="store_true")
    parser.add_argument("--work", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--workspace", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--data-dir", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--database-url", help=argparse.SUPPRESS)
    return parser.parse_args()


async def main() -> None:
    chosen = options()
    if chosen.work is not None:
        given = Settings(
            data_dir=chosen.data_dir,
            workspace=chosen.workspace,
            database_url=chosen.database_url,
            secret_file=None if chosen.database_url is None else secret_file(chosen.data_dir),
        )
        await _work(given, chosen.work)
        return
    results: dict[str, Any] = {"bench": "runs", "python": sys.version.split()[0], "cores": os.cpu_count()}
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name:
        folder = Path(name)
        root = workspace(folder)
        if chosen.database in ("sqlite", "both"):
            settings = Settings(data_dir=folder / "sqlite", workspace=root, log_level="error")
            results["sqlite"] = await measure(settings, chosen, folder)
        if chosen.database in ("postgres", "both"):
            (folder / "postgres").mkdir()
            server = PostgresServer(folder / "postgres")
            server.start()
            try:
                admin = await asyncpg.connect(server.url("postgres"))
                await admin.execute("CREATE DATABASE bench")
                await admin.close()
                data, url = folder / "data", server.url("bench")
                data.mkdir()
                settings = Settings(data_dir=data, workspace=root, database_url=url, secret_file=secret_file(data))
                results["postgres"] = await measure(settings, chosen, folder)
            finally:
                server.stop()
    for database in ("sqlite", "postgres"):
        if database in results:
            print(table(database, results[database]), file=sys.stderr)
    print(json.dumps(results))


if __name__ == "__main__":
    import structlog

    # Logging is not what is measured, and the line that is printed is for machines.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())

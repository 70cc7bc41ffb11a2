"""What grows with the log: `python -m bench.growth [--runs 1000 100000] [--database both] [--events N] [--sockets N]`.

On a database that holds so many runs already: the CPU of a run, of a stored token and of a list call. On one long
thread: an append, a page at its end, and the start of a stream there. And the memory of a server with idle sockets.
Prints one JSON object, and each size on the way to standard error. Runs are seeded through the real log: a million
(`--runs 1000 100000 1000000`) take a quarter of an hour on SQLite, longer on Postgres, and gigabytes in `--folder`.
"""

import argparse
import asyncio
import multiprocessing
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import asyncpg
import structlog
import uvloop

from app.core import json
from app.core.ids import new_id
from app.core.principal import DEFAULT_TENANT, LOCAL
from app.core.settings import Settings
from app.events.catalog.builders import BuiltStepCompleted
from app.events.catalog.request import RequestQueued
from app.events.catalog.thread import ThreadCreated
from app.events.follow import follow
from app.events.recorder import Scope
from app.runtime.intake.submission import Submission
from app.views.ports import RunFilter
from app.views.run import Run
from app.wiring.runtime import Holdfast
from bench.fanout import _read_forever
from bench.runs import CASES, Ends, opened, play, seed, workspace
from tests.patience import be_patient
from tests.postgres import PostgresServer
from tests.server import ServerProcess, secret_file

COUNT: Final = 128
WORDS: Final = 400
TIMES: Final = 15
BATCH: Final = 500
TURNS: Final = 5
SEED_STEP: Final = 50_000
SOCKETS_MB: Final = 600.0


async def _median_ms(ask: Callable[[], Awaitable[object]]) -> float:
    took = []
    for _ in range(TIMES):
        began = time.perf_counter()
        await ask()
        took.append((time.perf_counter() - began) * 1000)
    return round(statistics.median(took), 3)


async def _token_us(holdfast: Holdfast, ends: Ends) -> float:
    """CPU of one word of the echo agent: each is awaited, so each is an event."""
    least = float("inf")
    for _ in range(3):
        began = time.process_time()
        run = await holdfast.service.submit(LOCAL, Submission("echo", "word " * WORDS))
        assert isinstance(run, Run)
        await ends.end(run.id)
        least = min(least, (time.process_time() - began) / WORDS * 1e6)
    return round(least, 1)


async def stored_runs(settings: Settings, sizes: list[int], place: Path) -> dict[str, Any]:
    """`place` is the folder of the database."""
    found: dict[str, Any] = {}
    async with opened(settings) as (holdfast, ends):
        await play(holdfast, ends, CASES["model"], COUNT)
        reader, stored = holdfast.store.reader, COUNT
        for size in sizes:
            began = time.monotonic()
            while stored < size:
                more = min(SEED_STEP, size - stored)
                await seed(holdfast, more)
                ends.forget()
                stored += more
                _say(f"{stored:,} of {size:,} runs after {time.monotonic() - began:.0f} s")
            rounds = [await play(holdfast, ends, CASES["model"], COUNT) for _ in range(3)]
            stored += 3 * COUNT
            found[str(size)] = {
                "run cpu ms": min(one["cpu_ms"] for one in rounds),
                "token cpu us": await _token_us(holdfast, ends),
                "list runs ms": await _median_ms(lambda: reader.list_runs(DEFAULT_TENANT, RunFilter(), None, 100)),
                "list failed ms": await _median_ms(
                    lambda: reader.list_runs(DEFAULT_TENANT, RunFilter(status="failed"), None, 100)
                ),
                "list threads ms": await _median_ms(
                    lambda: reader.newest_threads(DEFAULT_TENANT, before=None, system=False, limit=100)
                ),
                "resident MB": _resident_mb("self"),
                "stored MB": _stored_mb(place),
            }
            _say(f"{size:,} runs: {found[str(size)]}")
    return found


def _stored_mb(place: Path) -> float:
    return round(sum(file.stat().st_size for file in place.rglob("*") if file.is_file()) / 1e6, 1)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


async def long_thread(settings: Settings, events: int) -> dict[str, Any]:
    """A short thread and a long one, in turns: right after so much was written, everything takes longer for a while."""
    async with opened(settings) as (holdfast, _):
        threads = {size: await _thread_of(holdfast, size) for size in (1000, events)}
        turns = [{size: await _thread_ms(holdfast, scope) for size, scope in threads.items()} for _ in range(TURNS)]
    return {
        str(size): {name: statistics.median(turn[size][name] for turn in turns) for name in turns[0][size]}
        for size in threads
    }


async def _thread_of(holdfast: Holdfast, events: int) -> Scope:
    scope = Scope(DEFAULT_TENANT, new_id("thread"), new_id("run"))
    await holdfast.store.recorder.record(scope, ThreadCreated(), RequestQueued(agent="echo", input="hello"))
    for start in range(0, events, BATCH):
        numbers = range(start, min(events, start + BATCH))
        await asyncio.gather(*(_append(holdfast, scope, number) for number in numbers))
    return scope


async def _append(holdfast: Holdfast, scope: Scope, number: int) -> None:
    step = BuiltStepCompleted(step="grow", key=f"grow:{number}", result={"n": number})
    await holdfast.store.recorder.record(scope, step)


async def _thread_ms(holdfast: Holdfast, scope: Scope) -> dict[str, float]:
    store, tenant = holdfast.store, scope.tenant

    async def last_page() -> None:
        last = await _last(holdfast, scope)
        assert await store.reader.events(tenant, scope.thread_id, last - 100, 100)

    async def open_stream() -> None:
        batches = follow(store.hub, store.reader.events, tenant, scope.thread_id, await _last(holdfast, scope) - 10)
        assert await anext(batches)
        await batches.aclose()

    return {
        "append ms": await _median_ms(lambda: _append(holdfast, scope, time.monotonic_ns())),
        "last page ms": await _median_ms(last_page),
        "open stream ms": await _median_ms(open_stream),
    }


async def _last(holdfast: Holdfast, scope: Scope) -> int:
    thread = await holdfast.store.reader.thread(scope.tenant, scope.thread_id)
    return int(getattr(thread, "last_seq", 0))


def _resident_mb(pid: int | str) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return round(int(status.split("VmRSS:")[1].split()[0]) / 1024, 1)


def idle_sockets(sockets: int) -> dict[str, Any]:
    """Websockets that follow a thread in which nothing happens."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = sockets + 1000
    if hard != resource.RLIM_INFINITY and hard < wanted:
        return {"notMeasured": f"the machine allows {hard} open files"}
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    with tempfile.TemporaryDirectory() as folder:
        server = ServerProcess.start(Path(folder))
        try:
            before = _resident_mb(server.pid)
            ours, theirs = multiprocessing.Pipe()
            host, _, port = server.url.removeprefix("http://").partition(":")
            address = f"/api/stream?threadId={quote('thr_idle')}"
            reading = multiprocessing.get_context("spawn").Process(
                target=_read_forever, args=(theirs, host, int(port), address, sockets), daemon=True
            )
            reading.start()
            assert ours.poll(300), "the sockets were not opened in time"
            ours.recv()
            after = _resident_mb(server.pid)
            reading.kill()
            reading.join()
        finally:
            server.stop()
    each = round((after - before) / sockets * 1024, 1)
    return {"sockets": sockets, "residentMb": after, "kbEach": each, "goal": after < SOCKETS_MB}


async def databases(chosen: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="holdfast-growth-", dir=chosen.folder) as name:
        folder = Path(name)
        root = workspace(folder)
        if chosen.database in ("sqlite", "both"):
            settings = Settings(data_dir=folder / "sqlite", workspace=root, log_level="error")
            found["sqlite"] = await _both(settings, chosen, folder / "sqlite")
        if chosen.database in ("postgres", "both"):
            (folder / "postgres").mkdir()
            server = PostgresServer(folder / "postgres")
            server.start()
            try:
                admin = await asyncpg.connect(server.url("postgres"))
                await admin.execute("CREATE DATABASE growth")
                await admin.close()
                data, url = folder / "data", server.url("growth")
                data.mkdir()
                settings = Settings(data_dir=data, workspace=root, database_url=url, secret_file=secret_file(data))
                found["postgres"] = await _both(settings, chosen, folder / "postgres")
            finally:
                server.stop()
    return found


async def _both(settings: Settings, chosen: argparse.Namespace, place: Path) -> dict[str, Any]:
    return {
        "stored runs": await stored_runs(settings, chosen.runs, place),
        "events of a thread": await long_thread(settings, chosen.events),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.growth")
    parser.add_argument("--runs", type=int, nargs="+", default=[1000, 100_000])
    parser.add_argument("--database", choices=["sqlite", "postgres", "both", "none"], default="both")
    parser.add_argument("--events", type=int, default=100_000, help="events of the long thread")
    parser.add_argument("--sockets", type=int, default=10_000, help="idle websockets; 0 leaves them out")
    parser.add_argument("--folder", type=Path, help="where the databases are made; else the system's temporary folder")
    parser.add_argument("--quick", action="store_true", help="5,000 runs, 5,000 events and 500 sockets")
    chosen = parser.parse_args()
    be_patient()  # seeding keeps the database busier than any client, and a checkpoint stalls it for seconds
    if chosen.quick:
        chosen.runs, chosen.events, chosen.sockets = [1000, 5000], 5000, 500
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    result: dict[str, Any] = {"bench": "growth", "python": sys.version.split()[0]}
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        result |= runner.run(databases(chosen))
    if chosen.sockets:
        result["idle sockets"] = idle_sockets(chosen.sockets)
    print(json.dumps(result).decode())


if __name__ == "__main__":
    main()

"""Streaming an agent's answer to OpenAI clients: `python -m bench.edge [--quick] [--against CHECKOUT]` prints JSON.

The server has one core to itself, the load and the fake model have the other. Everything is stored with
`synchronous=FULL`. Each figure is a ratio to `bench.lean_proxy` from the same run, in turns, because absolute figures
of a shared machine mean little. Next to it are the peak of each server's memory and the CPU of a run: that of the event
loop's thread, split by room by a profile (`py-spy`) of the same load, and that of the other threads, nearly all of it
the writer's.
"""

import argparse
import asyncio
import collections
import contextlib
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
import uvloop

ROOT = Path(__file__).parents[1]
TOKENS = 20
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
PACES = {"burst": 0.0, "pace5": 0.005, "pace20": 0.020}
_STAMP = re.compile(rb"@(\d+)@")


@dataclass(frozen=True)
class Load:
    """So many clients at once, for so long."""

    model: str
    clients: int
    seconds: float
    apart: float = 0.0
    """Seconds over which the clients' first requests are spread."""


@dataclass
class Measured:
    streams: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    first: list[float] = None  # type: ignore[assignment]  # set by `measure`
    lags: list[float] = None  # type: ignore[assignment]

    @property
    def rate(self) -> float:
        return self.streams / self.seconds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--upstream", action="store_true", help="be the fake model")
    parser.add_argument("--quick", action="store_true", help="a few seconds instead of a minute")
    parser.add_argument("--only", default="", help="burst, pace5, pace20, first or fanout")
    parser.add_argument("--stacks", type=Path, help="keep the profile's stacks here")
    parser.add_argument("--against", type=Path, help="another checkout with its .venv, measured in turns with this one")
    options = parser.parse_args()
    if options.upstream:
        uvloop.run(upstream())
    else:
        print(orjson.dumps(uvloop.run(bench(options)), option=orjson.OPT_INDENT_2).decode())


# -- the fake model -----------------------------------------------------------------------------------


def _event(delta: dict[str, Any], finish: str | None = None) -> bytes:
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "usage": None}
    body = base | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return b"data: " + orjson.dumps(body) + b"\n\n"


def _chunked(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _token() -> bytes:
    """A token that says when it was sent; the clock is the machine's, the same in every process."""
    return _chunked(_event({"content": f" @{time.monotonic_ns()}@"}))


_END = _chunked(_event({}, "stop") + b"data: [DONE]\n\n") + b"0\r\n\r\n"


async def upstream() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]))
                pace = PACES[head.split(b" ")[1].split(b"/")[1].decode()]
                writer.write(HEAD)
                if pace == 0:
                    writer.write(b"".join(_token() for _ in range(TOKENS)))
                else:
                    for _ in range(TOKENS):
                        writer.write(_token())
                        await asyncio.sleep(pace)
                writer.write(_END)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


# -- the servers --------------------------------------------------------------------------------------


def started(
    core: int, *command: str, env: dict[str, str] | None = None, checkout: Path = ROOT
) -> "subprocess.Popen[str]":
    python = sys.executable if checkout == ROOT else str(checkout / ".venv/bin/python")
    pinned = [python, *command]
    if shutil.which("taskset") and (os.cpu_count() or 1) > 1:
        pinned = ["taskset", "-c", str(core), *pinned]
    made = {**os.environ, "PYTHONPATH": str(checkout), **(env or {})}
    return subprocess.Popen(pinned, stdout=subprocess.PIPE, text=True, cwd=checkout, env=made)


def port_of(process: "subprocess.Popen[str]") -> int:
    assert process.stdout is not None
    for line in process.stdout:
        found = re.search(r"(\d+)\s*$", line)
        if found and ("listening" in line or line.strip().isdigit()):
            return int(found[1])
    raise AssertionError("the process ended before it listened")


def workspace(folder: Path, port: int) -> Path:
    head = "apiVersion: holdfast/v1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec:\n"
    (folder / "models").mkdir(parents=True)
    (folder / "agents").mkdir()
    runtime = head.format(kind="Runtime", name="bench") + "  defaultAgent: burst\n  outgoing: {private: [127.0.0.1]}\n"
    (folder / "runtime.yaml").write_text(runtime)
    for name in PACES:
        spec = f"  provider: openai\n  model: m\n  baseUrl: http://127.0.0.1:{port}/{name}\n"
        (folder / "models" / f"{name}.yaml").write_text(head.format(kind="Model", name=name) + spec)
        spec = f"  model: {name}\n  instructions: You are helpful.\n"
        (folder / "agents" / f"{name}.yaml").write_text(head.format(kind="Agent", name=name) + spec)
    return folder


@contextlib.contextmanager
def servers(folder: Path, against: Path | None, runs: int = 512) -> Iterator[dict[str, "tuple[int, int]"]]:
    """Name to (port, pid) of the server, of the lean proxy and of the other checkout, all on the first core. Each
    server executes so many runs at once."""
    processes: list[subprocess.Popen[str]] = []
    try:
        processes.append(model := started(1, "-m", "bench.edge", "--upstream"))
        port = port_of(model)
        processes.append(lean := started(0, "-m", "bench.lean_proxy", f"http://127.0.0.1:{port}"))
        made = {"lean": (port_of(lean), lean.pid)}
        space = str(workspace(folder / "workspace", port))
        checkouts = {"against": against, "ours": ROOT} if against is not None else {"ours": ROOT}
        for name, checkout in checkouts.items():
            settings = {
                "HOLDFAST_WORKSPACE": space,
                "HOLDFAST_LOG_LEVEL": "error",
                "HOLDFAST_DATA_DIR": str(folder / f"data-{name}"),
                "HOLDFAST_MAX_CONCURRENT_RUNS": str(runs),
                "HOLDFAST_RATE_PER_KEY": "0",
            }
            command = ("-m", "app.main", "serve", "--port", "0")
            processes.append(server := started(0, *command, env=settings, checkout=checkout))
            made[name] = port_of(server), server.pid
        yield made
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait(20)


# -- the load -----------------------------------------------------------------------------------------


def request(model: str) -> bytes:
    body = orjson.dumps({"model": model, "stream": True, "messages": [{"role": "user", "content": "Tell me a story."}]})
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


async def client(port: int, load: Load, until: float, into: Measured, wait: float) -> None:
    await asyncio.sleep(wait)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while time.monotonic() < until:
        await stream(reader, writer, load.model, into)
    writer.close()


async def stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, model: str, into: Measured) -> None:
    """Asks once and reads the answer to its end."""
    began = time.monotonic_ns()
    writer.write(request(model))
    seen, first = b"", 0
    while not seen.endswith(b"\r\n0\r\n\r\n"):
        piece = await reader.read(65536)
        assert piece, "the server hung up"
        now = time.monotonic_ns()
        for stamp in _STAMP.findall(piece):
            into.lags.append((now - int(stamp)) / 1e6)
            first = first or now
        seen = (seen + piece)[-200:]
    assert b"[DONE]" in seen, seen
    into.first.append((first - began) / 1e6)
    into.streams += 1


async def measure(server: tuple[int, int], load: Load) -> Measured:
    port, pid = server
    made = Measured(first=[], lags=[])
    cpu, began = cpu_seconds(pid), time.monotonic()
    step = load.apart / load.clients
    await asyncio.gather(*(client(port, load, began + load.seconds, made, n * step) for n in range(load.clients)))
    made.seconds, made.cpu = time.monotonic() - began, cpu_seconds(pid) - cpu
    return made


def cpu_seconds(pid: int, *, loop: bool = False) -> float:
    """Of the process, or of its first thread, which is the event loop's."""
    place = f"/proc/{pid}/task/{pid}/stat" if loop else f"/proc/{pid}/stat"
    fields = Path(place).read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Peak:
    """The most memory that a process has had since this was made, where the system says it."""

    def __init__(self, pid: int) -> None:
        self._status = Path(f"/proc/{pid}/status")
        with contextlib.suppress(OSError):
            Path(f"/proc/{pid}/clear_refs").write_text("5")

    @property
    def mb(self) -> float:
        try:
            return round(int(self._status.read_text().split("VmHWM:")[1].split()[0]) / 1024, 1)
        except OSError:
            return float("nan")


async def profiled(server: tuple[int, int], load: Load, keep: Path | None) -> dict[str, Any]:
    """Milliseconds of CPU a run, those of the event loop by the innermost room of ours on the stack."""
    with tempfile.TemporaryDirectory() as folder:
        stacks = Path(folder) / "stacks"
        spy = Path(sys.executable).parent / "py-spy"
        command = [str(spy), "record", "-p", str(server[1]), "-f", "raw", "-o", str(stacks), "-r", "500",
                   "-d", str(max(2, int(load.seconds))), "--gil"]  # fmt: skip
        quiet = asyncio.subprocess.DEVNULL
        spying = await asyncio.create_subprocess_exec(*command, stdout=quiet, stderr=quiet)
        began = cpu_seconds(server[1], loop=True)
        made = await measure(server, Load(load.model, load.clients, load.seconds + 1))
        on_loop = (cpu_seconds(server[1], loop=True) - began) / max(1, made.streams) * 1000
        await asyncio.wait_for(spying.wait(), 30)
        lines = stacks.read_text().splitlines() if stacks.exists() else []
        if keep is not None:
            await asyncio.to_thread(keep.write_text, "\n".join(lines))
    rooms: collections.Counter[str] = collections.Counter()
    for line in lines:
        stack, _, count = line.rpartition(" ")
        if "_bootstrap" not in stack:  # with which the stack of every other thread begins
            rooms[room_of(stack)] += int(count)
    total, each = sum(rooms.values()), made.cpu / max(1, made.streams) * 1000
    split = {room: round(on_loop * n / total, 3) for room, n in rooms.most_common() if n / total > 0.005}
    return {"cpuMs": round(each, 3), "otherThreadsMs": round(each - on_loop, 3), "rooms": split}


def room_of(stack: str) -> str:
    for frame in reversed(stack.split(";")):
        found = re.search(r"app/(\w+)/", frame) or re.search(r"(sqlite3|uvicorn|starlette|fastapi|asyncio)", frame)
        if found:
            return found[1]
    return "loop"


# -- the figures --------------------------------------------------------------------------------------


async def compare(both: dict[str, tuple[int, int]], load: Load, rounds: int) -> dict[str, Any]:
    rates: dict[str, list[float]] = {name: [] for name in both}
    cpu: dict[str, list[float]] = {name: [] for name in both}
    peaks = {name: Peak(pid) for name, (_, pid) in both.items()}
    for _ in range(rounds):
        for name in rates:
            made = await measure(both[name], load)
            rates[name].append(made.rate)
            cpu[name].append(made.cpu / made.streams * 1000)
    ratios = [ours / lean for ours, lean in zip(rates["ours"], rates["lean"], strict=True)]
    return {
        "clients": load.clients,
        "streamsPerSecond": {name: round(statistics.median(values)) for name, values in rates.items()},
        "cpuMsPerStream": {name: round(statistics.median(values), 3) for name, values in cpu.items()},
        "ratio": round(statistics.median(ratios), 3),
        # What the ratio is when both have the core to themselves and nothing else holds them back.
        "cpuRatio": round(statistics.median(cpu["lean"]) / statistics.median(cpu["ours"]), 3),
        "rounds": [round(ratio, 3) for ratio in ratios],
        "peakMb": {name: peak.mb for name, peak in peaks.items()},
        **against(cpu),
    }


def against(cpu: dict[str, list[float]]) -> dict[str, Any]:
    """CPU of this checkout to that of the other one, of rounds that followed each other."""
    if "against" not in cpu:
        return {}
    ratios = [ours / other for ours, other in zip(cpu["ours"], cpu["against"], strict=True)]
    return {"cpuToAgainst": {"median": round(statistics.median(ratios), 3), "rounds": [round(r, 3) for r in ratios]}}


async def first_tokens(both: dict[str, tuple[int, int]], seconds: float, folder: Path, rounds: int) -> dict[str, Any]:
    """One client after the other, so that nobody waits for a neighbour. A run is stored twice before its first token
    is seen: when it is accepted, and with the token."""
    syncs = sync_ms(folder)
    first: dict[str, list[float]] = {name: [] for name in both}
    for _ in range(rounds):
        for name, values in first.items():
            values += (await measure(both[name], Load("burst", 1, seconds))).first
    medians = {name: statistics.median(values) for name, values in first.items()}
    return {
        "ms": {name: round(value, 2) for name, value in medians.items()},
        "laterMs": round(medians["ours"] - medians["lean"], 2),
        "syncMs": round(syncs, 2),
        "laterThanTwoSyncsMs": round(medians["ours"] - medians["lean"] - 2 * syncs, 2),
    }


def sync_ms(folder: Path) -> float:
    """The median time of making a page durable in that folder."""
    took = []
    with (folder / "sync").open("wb", buffering=0) as file:
        for _ in range(100):
            file.write(b"\0" * 4096)
            began = time.monotonic()
            os.fdatasync(file.fileno())
            took.append((time.monotonic() - began) * 1000)
    return statistics.median(took)


async def lag(both: dict[str, tuple[int, int]], load: Load) -> dict[str, Any]:
    made = {name: (await measure(both[name], load)).lags for name in ("lean", "ours")}
    return {
        name: {"p50": round(statistics.median(values), 2), "p99": round(statistics.quantiles(values, n=100)[98], 2)}
        for name, values in made.items()
    }


async def bench(options: argparse.Namespace) -> dict[str, Any]:
    if shutil.which("taskset"):
        os.sched_setaffinity(0, {1} if (os.cpu_count() or 1) > 1 else {0})
    seconds, rounds = (3.0, 1) if options.quick else (4.0, 3)
    if options.against is not None:
        seconds, rounds = 2.0, 7  # short turns: the machine's own speed changes within minutes
    result: dict[str, Any] = {"bench": "edge", "tokens": TOKENS, "synchronous": "FULL"}

    def wanted(name: str) -> bool:
        return options.only in ("", name)

    with (
        tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder,
        servers(Path(folder), options.against) as both,
    ):
        for server in both.values():
            await measure(server, Load("burst", 8, 1.0))
        for name, clients in (("burst", 32), ("pace5", 100)):
            if wanted(name):
                load = Load(name, clients, seconds)
                result[name] = await compare(both, load, rounds)
                result[name]["profile"] = await profiled(both["ours"], load, options.stacks)
        if wanted("first"):
            result["firstToken"] = await first_tokens(both, seconds, Path(folder), rounds)
        if wanted("pace20"):
            together = Load("pace20", 50, seconds)
            result["lagMs"] = {
                "together": await lag(both, together),
                "apart": await lag(both, replace(together, apart=TOKENS * PACES["pace20"])),
            }
    if wanted("fanout"):
        os.sched_setaffinity(0, set(range(os.cpu_count() or 1)))  # it pins its own processes
        result["fanout"] = await fan_out(options.quick)
    result["goals"] = goals(result)
    return result


async def fan_out(quick: bool) -> dict[str, Any]:
    """In a process of its own: it forks its readers, and this one has a loop."""
    command = [sys.executable, "-m", "bench.fanout", *(["--runs", "1", "--sockets", "50"] if quick else [])]
    running = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, cwd=ROOT)
    printed, _ = await running.communicate()
    measured: dict[str, Any] = orjson.loads(printed.splitlines()[-1])["fanout"]
    return measured


def goals(result: dict[str, Any]) -> dict[str, bool]:
    made: dict[str, bool] = {}
    if "burst" in result:
        made["burst.peakMb.ours <= 120"] = result["burst"]["peakMb"]["ours"] <= 120
        made["burst.ratio >= 0.5"] = result["burst"]["ratio"] >= 0.5
    if "pace5" in result:
        made["pace5.ratio >= 0.75"] = result["pace5"]["ratio"] >= 0.75
    if "firstToken" in result:
        made["firstToken.laterThanTwoSyncsMs <= 1"] = result["firstToken"]["laterThanTwoSyncsMs"] <= 1
    if "lagMs" in result:
        made["lagMs.together.ours.p99 <= 30"] = result["lagMs"]["together"]["ours"]["p99"] <= 30
        made["lagMs.apart.ours.p99 <= 15"] = result["lagMs"]["apart"]["ours"]["p99"] <= 15
    if result.get("fanout"):
        made["fanout.own.frames_per_second >= 100000"] = result["fanout"]["own"]["frames_per_second"] >= 100_000
    return made


if __name__ == "__main__":
    main()

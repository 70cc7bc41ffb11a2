"""Instructions and Python calls of one streamed answer: `python -m bench.instructions [--against CHECKOUT]`.

Prints JSON. The calls of `bench.lean_proxy` for the same answer are counted too. Seconds depend on what else the
machine does; these counts hardly do (they repeat to about 1%). The server runs under callgrind, which makes it some
fifty times slower, so the fake model is slower still. A second server counts the calls of its loop's thread. Needs
`valgrind`.
"""

import argparse
import asyncio
import collections
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import orjson
import uvloop

from bench import edge

SLOWER: Final = 100
"""Slow enough that the server keeps up and every token comes by itself."""
LOADS: Final = {"burst": (16, 12), "pace5": (16, 2)}
"""Clients at once, and the streams of each."""
WARM: Final = 3
IDLE_SECONDS: Final = 15
QUIET: Final = 0.06
"""Seconds of CPU in a second, at most, of a server in valgrind that has nothing to do: it takes 0.02, and 0.2 while it
prepares its routes."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--upstream", type=float, help="be the fake model, so many times slower")
    parser.add_argument("--serve", type=Path, help="serve, and write the calls between two SIGUSR2 into this file")
    parser.add_argument("--lean", help="with `--serve`: be the lean proxy before this model")
    parser.add_argument("--only", default="", help="burst or pace5")
    parser.add_argument("--against", type=Path, help="another checkout with its .venv")
    parser.add_argument("--keep", type=Path, help="keep callgrind's files and the lists of calls in this folder")
    parser.add_argument("--calls-only", action="store_true", help="no callgrind")
    options = parser.parse_args()
    if options.upstream is not None:
        edge.PACES = {name: pace * options.upstream for name, pace in edge.PACES.items()}
        uvloop.run(edge.upstream())
    elif options.serve is not None:
        serve_counted(options.serve, options.lean)
    else:
        print(orjson.dumps(bench(options), option=orjson.OPT_INDENT_2).decode())


# -- the counted server -------------------------------------------------------------------------------


def serve_counted(into: Path, lean: str | None) -> None:
    """The server of the checkout in the working folder, or the lean proxy, counting its loop's calls while it is asked
    to."""
    calls: collections.Counter[Any] = collections.Counter()

    def count(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            calls[frame.f_code] += 1
        elif event == "c_call":
            calls[getattr(argument, "__qualname__", repr(argument))] += 1

    def toggle(*_: object) -> None:
        if sys.getprofile() is None:
            sys.setprofile(count)
            return
        sys.setprofile(None)
        made = {"python": {}, "builtin": {}}  # type: dict[str, dict[str, int]]
        for key, times in calls.most_common():
            if isinstance(key, str):
                made["builtin"][key] = times
            else:
                name = f"{key.co_filename.rpartition('/site-packages/')[2]}:{key.co_firstlineno} {key.co_qualname}"
                made["python"][name] = made["python"].get(name, 0) + times
        partial = into.with_suffix(".partial")
        partial.write_bytes(orjson.dumps(made))
        partial.rename(into)

    signal.signal(signal.SIGUSR2, toggle)
    sys.path.insert(0, os.getcwd())
    if lean is not None:
        sys.argv = ["lean", lean]
        from bench.lean_proxy import serve as serve_lean

        uvloop.run(serve_lean())
        return
    sys.argv = ["holdfast", "serve", "--port", "0"]
    from app.main import main as serve

    serve()


@contextlib.contextmanager
def served(checkout: Path, folder: Path, slower: float, *prefix: str) -> Iterator[tuple[int, int]]:
    """(port, pid) of a server of that checkout, in front of a fake model of its own."""
    python = sys.executable if checkout == edge.ROOT else str(checkout / ".venv/bin/python")
    model = edge.started(1, "-m", "bench.instructions", "--upstream", str(slower))
    processes = [model]
    try:
        model_port = edge.port_of(model)
        settings = {
            "HOLDFAST_WORKSPACE": str(edge.workspace(folder / "workspace", model_port)),
            "HOLDFAST_LOG_LEVEL": "error",
            "HOLDFAST_DATA_DIR": str(folder / "data"),
            "HOLDFAST_MAX_CONCURRENT_RUNS": "512",
            "HOLDFAST_RATE_PER_KEY": "0",
            "PYTHONPATH": str(checkout),
            "PYTHONHASHSEED": "0",
        }
        command = prefix[1:] if prefix[0] == "--" else (*prefix, python, "-m", "app.main", "serve", "--port", "0")
        words = {"{python}": python, "{model}": f"http://127.0.0.1:{model_port}"}
        command = tuple(words.get(word, word) for word in command)
        server = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, cwd=checkout, env={**os.environ, **settings}
        )
        processes.append(server)
        yield edge.port_of(server), server.pid
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait(120)


async def streams(port: int, model: str, clients: int, each: int) -> int:
    made = edge.Measured(first=[], lags=[])

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(each):
            await edge.stream(reader, writer, model, made)
        writer.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    return made.streams


# -- the figures --------------------------------------------------------------------------------------


def instructions(checkout: Path, model: str, keep: Path | None) -> tuple[float, float]:
    """Of a stream, and of a second in which nobody asks for anything."""
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as made:
        folder = Path(made)
        out = folder / "callgrind.out"
        grind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}", "-q"]
        clients, each = LOADS[model]
        with served(checkout, folder, SLOWER, *grind) as (port, pid):
            with contextlib.suppress(AssertionError):  # what it imports now may take longer than a write may wait
                uvloop.run(streams(port, model, 1, 1))
            uvloop.run(streams(port, model, clients, WARM if model == "burst" else 1))
            wait_until_quiet(pid)
            control(pid, "-i", "on")
            started = time.monotonic()
            count = uvloop.run(streams(port, model, clients, each))
            control(pid, "-d")
            seconds = time.monotonic() - started
            time.sleep(IDLE_SECONDS)
            control(pid, "-d")
            control(pid, "-i", "off")
        at_work, at_rest = (total(folder / f"callgrind.out.{number}") for number in (1, 2))
        if keep is not None:
            shutil.copy(folder / "callgrind.out.1", keep / f"{checkout.name}.{model}.callgrind.out")
        # What the server does every so often it also does while the streams take their time.
        return (at_work - at_rest * seconds / IDLE_SECONDS) / count, at_rest / IDLE_SECONDS


def total(dump: Path) -> int:
    return sum(int(found[1]) for found in re.finditer(r"(?m)^totals: (\d+)", dump.read_text()))


def wait_until_quiet(pid: int) -> None:
    """What a server still does after its start is not counted as work for the streams: preparing its routes, in pieces
    with breaks in between, takes it half a minute there."""
    quiet = 0
    for _ in range(240):
        before = cpu_seconds(pid)
        time.sleep(1)
        quiet = quiet + 1 if cpu_seconds(pid) - before < QUIET else 0
        if quiet == 3:
            return
    raise AssertionError("the server does not come to rest")


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def control(pid: int, *words: str) -> None:
    subprocess.run(["callgrind_control", *words, str(pid)], check=True, stdout=subprocess.DEVNULL, timeout=120)


def calls(checkout: Path, model: str, keep: Path | None, *lean: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as made:
        folder = Path(made)
        into = folder / "calls.json"
        script = str(Path(__file__).resolve())
        with served(checkout, folder, 5, "--", "{python}", script, "--serve", str(into), *lean) as (port, pid):
            clients, each = LOADS[model]
            uvloop.run(streams(port, model, clients, WARM))
            os.kill(pid, signal.SIGUSR2)
            count = uvloop.run(streams(port, model, clients, each))
            os.kill(pid, signal.SIGUSR2)
            for _ in range(100):
                if into.exists():
                    break
                uvloop.run(streams(port, model, 1, 1))  # the signal is seen when the loop turns
                time.sleep(0.05)
            counted = orjson.loads(into.read_bytes())
        if keep is not None:
            lines = [f"{n / count:9.2f} {name}" for kind in counted.values() for name, n in kind.items()]
            (keep / f"{'lean' if lean else checkout.name}.{model}.calls").write_text("\n".join(lines))
        return {kind: round(sum(made.values()) / count, 1) for kind, made in counted.items()}


def bench(options: argparse.Namespace) -> dict[str, Any]:
    result: dict[str, Any] = {"bench": "instructions", "tokens": edge.TOKENS}
    checkouts = {"ours": edge.ROOT} | ({"against": options.against.resolve()} if options.against else {})
    for model in LOADS:
        if options.only not in ("", model):
            continue
        counted = {name: calls(checkout, model, options.keep) for name, checkout in checkouts.items()}
        counted["lean"] = calls(edge.ROOT, model, options.keep, "--lean", "{model}")
        made: dict[str, Any] = {"callsPerStream": counted}
        if not options.calls_only:
            counts = {name: instructions(checkout, model, options.keep) for name, checkout in checkouts.items()}
            made["instructionsPerStream"] = {name: round(value) for name, (value, _) in counts.items()}
            made["instructionsPerSecondAtRest"] = {name: round(value) for name, (_, value) in counts.items()}
            if "against" in counts:
                made["toAgainst"] = round(counts["ours"][0] / counts["against"][0], 3)
        result[model] = made
    return result


if __name__ == "__main__":
    main()

"""What a start costs: `python -m bench.start [--quick]` prints one JSON object.

From the start of the process to the first `ready`, with the demo workspace: with an empty data folder (it is migrated)
and with one that is there already; the memory of a server that has nothing to do; what `holdfast --help` takes; and the
time of imports by package. Each is the median of several starts, in wall time and in CPU time of the process, because
on a machine that others use only the latter can be repeated. The modules are compiled before, as an installation does
it; `uncompiledSeconds` is a start from source alone (a read-only checkout, or `PYTHONDONTWRITEBYTECODE`).

`--against PYTHON` starts the server alternately with the interpreter of another environment as well, such as one with
the agent frameworks (`.venv/extras/bin/python`), and counts the modules that each has imported when it is ready.
"""

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

from app.core import json

ROOT = Path(__file__).parents[1]
LIMIT_SECONDS = 60.0
IDLE_SECONDS = 2.0
_BY_PACKAGE = """
import importlib._bootstrap_external as loading, json, sys, time
spent, open_ = {}, []
execute = loading._LoaderBasics.exec_module
def timed(self, module):
    began = time.process_time(); open_.append(0.0)
    try:
        return execute(self, module)
    finally:
        took = time.process_time() - began
        spent[module.__name__] = took - open_.pop()
        if open_: open_[-1] += took
loading._LoaderBasics.exec_module = timed
import app.cli.serve
print(json.dumps(spent))
"""


def environment(compiled: Path | None = None) -> dict[str, str]:
    """With `compiled`, a folder of our own for compiled modules; without, whatever the machine has."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "PYTHON"))}
    kept |= {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    if compiled is None:
        return kept | {"PYTHONDONTWRITEBYTECODE": "1"}
    return kept | {"PYTHONPYCACHEPREFIX": str(compiled)}


_MODULES = """
import asyncio, sys
from pathlib import Path
from app.core.settings import Settings
from app.wiring.runtime import open_holdfast
import app.wiring.web

async def main():
    async with open_holdfast(Settings(data_dir=Path(sys.argv[1]))):
        print(len(sys.modules))

asyncio.run(main())
"""


def start(data_dir: Path, compiled: Path | None = None, python: str = sys.executable) -> dict[str, float]:
    """One start, measured to the first `ready`, then left alone for a moment, then stopped."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [python, "-m", "app.main", "serve", "--port", "0", "--data-dir", str(data_dir)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment(compiled), cwd=ROOT,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        url = process.stdout.readline().removeprefix("listening on ").strip()
        while not _is_ready(url):
            assert time.perf_counter() - began < LIMIT_SECONDS, "the server is not ready"
            time.sleep(0.002)
        ready, cpu = time.perf_counter() - began, _cpu_seconds(process.pid)
        time.sleep(IDLE_SECONDS)
        memory = _memory_mb(process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=LIMIT_SECONDS)
    return {"readySeconds": ready, "readyCpuSeconds": cpu, "idleMb": memory}


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return float("nan")


def help_seconds(compiled: Path) -> dict[str, float]:
    began, before = time.perf_counter(), os.times().children_user + os.times().children_system
    subprocess.run([sys.executable, "-m", "app.main", "--help"], check=True, capture_output=True,
                   env=environment(compiled), cwd=ROOT)  # fmt: skip
    spent = os.times().children_user + os.times().children_system - before
    return {"seconds": time.perf_counter() - began, "cpuSeconds": spent}


def imports(compiled: Path) -> dict[str, float]:
    """CPU milliseconds by package (by room for ours), the dearest first."""
    printed = subprocess.run(
        [sys.executable, "-c", _BY_PACKAGE], check=True, capture_output=True, env=environment(compiled), cwd=ROOT
    )
    spent: Counter[str] = Counter()
    for name, seconds in json.loads(printed.stdout).items():
        parts = name.split(".")
        spent[".".join(parts[: 2 if parts[0] == "app" else 1])] += seconds
    return {name: round(seconds * 1000, 1) for name, seconds in spent.most_common(25)}


def modules(data_dir: Path, python: str) -> int:
    printed = subprocess.run(
        [python, "-c", _MODULES, str(data_dir)], check=True, capture_output=True, env=environment(), cwd=ROOT
    )
    return int(printed.stdout.split()[-1])


def against(folder: Path, other: str, rounds: int) -> dict[str, Any]:
    """The same server from two environments, one start after the other."""
    pythons = {"this": sys.executable, "other": other}
    taken: dict[str, list[dict[str, float]]] = {name: [] for name in pythons}
    for number in range(rounds + 1):  # the first start of each compiles
        for name, python in pythons.items():
            sample = start(folder / f"data-{name}", folder / f"compiled-{name}", python)
            taken[name] += [sample] if number else []
    found = {name: median(samples) for name, samples in taken.items()}
    return {
        name: found[name] | {"modules": modules(folder / f"data-{name}", python)} for name, python in pythons.items()
    }


def median(samples: list[dict[str, float]]) -> dict[str, float]:
    return {name: round(statistics.median(sample[name] for sample in samples), 3) for name in samples[0]}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.start")
    parser.add_argument("--quick", action="store_true", help="two starts instead of five")
    parser.add_argument("--against", metavar="PYTHON", help="compare with another environment, and nothing else")
    asked = parser.parse_args()
    rounds = 2 if asked.quick else 5
    if asked.against:
        with tempfile.TemporaryDirectory() as folder:
            compared = against(Path(folder), asked.against, rounds)
        print(json.dumps({"bench": "start", "against": compared}).decode())
        return
    with tempfile.TemporaryDirectory() as folder:
        compiled = Path(folder) / "compiled"
        start(Path(folder) / "compiling", compiled)
        first = [start(Path(folder) / str(number), compiled) for number in range(rounds)]
        again = [start(Path(folder) / "0", compiled) for _ in range(rounds)]
        result: dict[str, Any] = {
            "bench": "start",
            "first": median(first),
            "again": median(again),
            "uncompiledSeconds": round(start(Path(folder) / "0")["readySeconds"], 3),
            "help": median([help_seconds(compiled) for _ in range(rounds)]),
            "importCpuMs": imports(compiled),
        }
    result["goals"] = {
        "again.readySeconds < 1": result["again"]["readySeconds"] < 1,
        "again.idleMb < 120": result["again"]["idleMb"] < 120,
    }
    print(json.dumps(result).decode())


if __name__ == "__main__":
    main()

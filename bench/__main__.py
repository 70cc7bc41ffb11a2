"""All benchmarks, one after the other, and one table of them: `python -m bench [NAME ...] [--quick]`.

Each is a program of its own that prints JSON; here it is only run, read and laid out in `bench/results.md`, with the
machine and the date. A benchmark that fails is said to have failed. A goal that was missed stands there as missed.
"""

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench" / "results.md"
LIMIT_SECONDS = 3600
QUICK: dict[str, list[str]] = {
    "log": ["--scale", "0.2", "--events", "0"],
    "size": [],
    "workspace": [],
    "models": [],
    "guard": ["--tools", "40"],
    "guardrails": ["--quick"],
    "runs": ["--quick"],
    "edge": ["--quick"],
    "overload": ["--quick"],
    "resident": ["--runs", "2000"],
    "fanout": ["--sockets", "500", "--runs", "1"],
    "large": ["--quick"],
    "media": [],
    "start": ["--quick"],
    "growth": ["--quick"],
    "ui": ["--turns", "50"],
}
"""The benchmarks in the order of the table, with what makes each of them short."""
GOALS: dict[str, tuple[str, float]] = {
    "log sqlite.one_producer.ratio": (">=", 0.5),
    "log sqlite.hundred_producers.ratio": (">=", 0.5),
    "log postgres.one_producer.ratio": (">=", 0.5),
    "log postgres.hundred_producers.ratio": (">=", 0.5),
    "size sqlite.one_answer.file_bytes_per_token": ("<=", 100.0),
    "size sqlite.fifty_answers.file_bytes_per_token": ("<=", 100.0),
    "workspace coldSeconds": ("<", 3.0),
    "workspace changeSeconds": ("<", 0.15),
    "workspace memoryMb": ("<", 300.0),
    "models spaced.ratio": ("<=", 2.0),
    "models heldMegabytes": ("<", 150.0),
    "runs sqlite.model.cpu_ms": ("<=", 3.0),
    "runs postgres.model.cpu_ms": ("<=", 3.0),
    "runs sqlite.tool.cpu_ms": ("<=", 3.0),
    "runs postgres.tool.cpu_ms": ("<=", 3.0),
    "large worstBlockedMs": ("<", 50.0),
    "media megabytesAbove.upload": ("<", 20.0),
    "media megabytesAbove.download": ("<", 20.0),
    "media megabytesAbove.part to a model": ("<", 100.0),
    "start again.readySeconds": ("<", 1.0),
    "start again.idleMb": ("<", 120.0),
    "edge burst.ratio": (">=", 0.5),
    "edge burst.peakMb.ours": ("<=", 120.0),
    "edge pace5.ratio": (">=", 0.75),
    "edge firstToken.laterThanTwoSyncsMs": ("<=", 1.0),
    "edge lagMs.together.ours.p99": ("<=", 30.0),
    "edge lagMs.apart.ours.p99": ("<=", 15.0),
    "edge fanout.own.frames_per_second": (">=", 100_000.0),
    "resident residentMb": ("<", 140.0),
    "overload fourTimes.firstTokenLaterMs.p95": ("<", 1200.0),
    "overload fourTimes.moreMb": ("<", 64.0),
}
"""What was promised, by benchmark and figure."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(QUICK)}; all if absent")
    parser.add_argument("--quick", action="store_true", help="shorter, for a look")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    present = [name for name in QUICK if (ROOT / "bench" / f"{name}.py").is_file()]
    wanted = options.names or present
    if unknown := set(wanted) - set(present):
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}")
    results: dict[str, Any] = {}
    for name in wanted:
        print(f"{name} ...", file=sys.stderr, flush=True)
        results[name] = measured(name, QUICK[name] if options.quick else [])
    options.output.write_text(table(results, quick=options.quick), encoding="utf-8")
    print(f"wrote {options.output}", file=sys.stderr)
    return 1 if any(result is None for result in results.values()) else 0


def measured(name: str, arguments: list[str]) -> Any:
    """What the benchmark printed; None when it failed."""
    ran = subprocess.run(
        [sys.executable, "-m", f"bench.{name}", *arguments], cwd=ROOT, stdout=subprocess.PIPE, timeout=LIMIT_SECONDS,
        check=False,
    )  # fmt: skip
    if ran.returncode != 0:
        return None
    text = ran.stdout.decode()
    return json.loads(text[text.index("{") :])


def table(results: dict[str, Any], *, quick: bool) -> str:
    lines = ["# Results of the benchmarks", "", f"Written by `make bench`{' (quick)' if quick else ''}.", ""]
    lines += [f"- {fact}" for fact in machine()]
    lines += ["", "[docs/performance.md](../docs/performance.md) says what each figure means."]
    for name, result in results.items():
        lines += ["", f"## {name}", "", f"`python -m bench.{name}`", ""]
        if result is None:
            lines.append("FAILED: see what it printed.")
            continue
        lines += ["| figure | value | goal | |", "|---|---|---|---|"]
        lines += [_row(name, path, value) for path, value in flat(result) if path != "bench" and path[:6] != "goals."]
    return "\n".join(lines) + "\n"


def machine() -> Iterator[str]:
    now = datetime.datetime.now(datetime.UTC)
    yield f"{now:%Y-%m-%d %H:%M} UTC, revision {_revision()}"
    yield f"{platform.system()} {platform.machine()}, Python {platform.python_version()}, {os.cpu_count()} cores"
    if (cpu := _cpu()) is not None:
        yield cpu
    load, _, _ = os.getloadavg()
    busy = " (above the number of cores: absolute figures mean little)" if load > (os.cpu_count() or 1) else ""
    yield f"load before the table was written: {load:.1f}{busy}"


def _cpu() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return None
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), None)


def _revision() -> str:
    printed = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return printed.stdout.strip() or "unknown"


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Figures by dotted path; of a list only how long it is, since its summary is next to it."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from flat(inner, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list):
        if value and isinstance(value[0], dict):
            yield path, f"{len(value)} entries"
    elif value is not None:
        yield path, value


def _row(name: str, path: str, value: Any) -> str:
    goal = GOALS.get(f"{name} {path}")
    shown = f"{value:,.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else f"{value}"
    if goal is None:
        return f"| `{path}` | {shown} | | |"
    word, limit = goal
    met = {"<": value < limit, "<=": value <= limit, ">=": value >= limit}[word]
    return f"| `{path}` | {shown} | {word} {limit:g} | {'met' if met else 'MISSED'} |"


if __name__ == "__main__":
    sys.exit(main())

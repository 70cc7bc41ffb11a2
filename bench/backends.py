"""What each agent framework adds to a run over `native`: CPU, first token, memory, import. Prints JSON.

    .venv/extras/bin/python -m bench.backends [--runs 20]

Each backend runs alone in a process of its own, on the example workspace `workspaces/compare`, with a scripted model.
"""

import argparse
import asyncio
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
INPUT = "What is the state of order 7?"


async def measure(name: str, runs: int) -> dict[str, Any]:
    from app.core.principal import LOCAL
    from app.core.settings import Settings
    from app.events.follow import follow
    from app.runtime.intake.submission import Submission
    from app.views.run import Run
    from app.wiring.comparison import OneBackend
    from app.wiring.kinds import Backends, installed_backends
    from app.wiring.runtime import open_holdfast

    before, cpu = _memory(), time.process_time()
    backend = Backends(installed_backends())[name]
    imported, memory = time.process_time() - cpu, _memory() - before
    spent, first = [], []
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data_dir=Path(folder), workspace=ROOT / "workspaces" / "compare")
        async with open_holdfast(settings, backends=OneBackend(backend, installed_backends())) as holdfast:
            for _ in range(runs + 2):
                begun, cpu = time.perf_counter(), time.process_time()
                run = await holdfast.service.submit(LOCAL, Submission("clerk", INPUT))
                assert isinstance(run, Run)
                token = None
                store = holdfast.store
                async for batch in follow(store.hub, store.reader.events, "default", run.thread_id, run.first_seq - 1):
                    deltas = [e for e in batch if e.type == "runtime.adapter.event" and e.payload["event"].get("text")]
                    token = token or (time.perf_counter() - begun if deltas else None)
                    if any(event.type == "runtime.request.completed" for event in batch):
                        break
                spent.append((time.process_time() - cpu) * 1000)
                first.append((token or 0) * 1000)
    # The first two warm up.
    return {
        "backend": name,
        "cpuMs": round(statistics.median(spent[2:]), 1),
        "firstTokenMs": round(statistics.median(first[2:]), 1),
        "importCpuMs": round(imported * 1000),
        "importMiB": round(memory, 1),
    }


def _memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--backend")
    options = parser.parse_args()
    if options.backend:
        import logging

        import structlog

        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
        print(json.dumps(asyncio.run(measure(options.backend, options.runs))))
        return
    from app.wiring.comparison import comparable

    results = []
    for name in comparable():
        command = [sys.executable, "-m", "bench.backends", "--backend", name, "--runs", str(options.runs)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
        results.append(json.loads(done.stdout.splitlines()[-1]))
    native = results[0]
    for result in results:
        result["cpuOverNative"] = round(result["cpuMs"] / native["cpuMs"], 2)
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()

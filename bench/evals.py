"""What shadow gates cost: runs of an agent with and without them, side by side, in time to their end and in CPU.

    python -m bench.evals [runs]

Prints the seconds until the client has its answer (p50, p95) and the CPU of the whole process per run, in turns so that
a busy machine hits both alike.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

from app.core.logs import configure_logs
from app.core.principal import LOCAL
from app.core.settings import Settings
from app.events.catalog import request
from app.events.follow import follow
from app.runtime.intake.submission import Submission
from app.views.run import Run
from app.wiring.runtime import Holdfast, open_holdfast

GATES = "[{evaluator: polite}, {evaluator: short}, {evaluator: shaped}]"
WORKSPACE = """\
apiVersion: holdfast/v1
kind: Runtime
metadata: {name: bench}
spec: {defaultAgent: plain}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: main}
spec: {provider: scripted, model: main, script: {default: {text: "Yes, please: {{ input }}", chunkSize: 5}}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: plain}
spec: {model: main}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: shadowed}
spec: {model: main, gates: %s}
---
apiVersion: holdfast/v1
kind: Evaluator
metadata: {name: polite}
spec: {kind: contains, config: {texts: [please]}}
---
apiVersion: holdfast/v1
kind: Evaluator
metadata: {name: short}
spec: {kind: cel, config: {expression: 'size(output) < 200'}}
---
apiVersion: holdfast/v1
kind: Evaluator
metadata: {name: shaped}
spec: {kind: regex, config: {pattern: '^[A-Z]'}}
"""
BATCH = 20


async def one(holdfast: Holdfast, agent: str) -> float:
    began = time.perf_counter()
    run = await holdfast.service.submit(LOCAL, Submission(agent, "hello"))
    assert isinstance(run, Run)
    store = holdfast.store
    async for batch in follow(store.hub, store.reader.events, "default", run.thread_id, 0):
        if any(event.type in request.TERMINAL for event in batch):
            break
    return time.perf_counter() - began


async def measure(runs: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "workspace"
        root.mkdir()
        (root / "workspace.yaml").write_text(WORKSPACE % GATES)
        settings = Settings(data_dir=Path(folder) / "data", workspace=root)
        async with open_holdfast(settings) as holdfast:
            seconds: dict[str, list[float]] = {"plain": [], "shadowed": []}
            cpu = dict.fromkeys(seconds, 0.0)
            for agent in seconds:
                await one(holdfast, agent)
            for _ in range(max(1, runs // BATCH)):
                for agent, found in seconds.items():
                    began = time.process_time()
                    for _ in range(BATCH):
                        found.append(await one(holdfast, agent))
                    await asyncio.sleep(0.2)  # what is judged afterwards is part of the cost
                    cpu[agent] += time.process_time() - began
    for agent, found in seconds.items():
        p95 = statistics.quantiles(found, n=20)[-1]
        print(
            f"{agent:9} p50 {statistics.median(found) * 1000:7.2f} ms  p95 {p95 * 1000:7.2f} ms  "
            f"cpu {cpu[agent] / len(found) * 1000:6.2f} ms per run  ({len(found)} runs)"
        )
    ratio = statistics.median(seconds["shadowed"]) / statistics.median(seconds["plain"])
    print(f"shadowed to plain: latency {ratio:.3f}, CPU {cpu['shadowed'] / cpu['plain']:.3f}")


if __name__ == "__main__":
    configure_logs("error", str)
    asyncio.run(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 400))

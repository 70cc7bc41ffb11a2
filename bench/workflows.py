"""What a step of a workflow costs: CPU time and events per step, for graphs of 10 to 1,000 steps.

python -m bench.workflows [STEPS ...]
"""

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

from app.core.principal import LOCAL
from app.core.settings import Settings
from app.events.catalog import request
from app.events.follow import follow
from app.runtime.intake.submission import Submission
from app.views.run import Run
from app.wiring.runtime import Holdfast, open_holdfast

_BASE = """
apiVersion: holdfast/v1
kind: Runtime
metadata: {name: bench}
spec: {defaultAgent: nobody}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: nobody}
spec: {backend: echo}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: echo}
spec: {kind: builtin}
"""


def _flow(steps: int) -> str:
    lines = "".join(f'    - {{id: n{n}, ref: tools.echo, with: {{text: "{{{{ input }}}}"}}}}\n' for n in range(steps))
    return f"---\napiVersion: holdfast/v1\nkind: Workflow\nmetadata: {{name: line{steps}}}\nspec:\n  nodes:\n{lines}"


async def _measured(holdfast: Holdfast, steps: int) -> dict[str, float]:
    store, began, cpu = holdfast.store, time.perf_counter(), time.process_time()
    run = await holdfast.service.submit(LOCAL, Submission(None, "x", workflow=f"line{steps}"))
    assert isinstance(run, Run), run
    last = run.first_seq
    async for batch in follow(store.hub, store.reader.events, LOCAL.tenant, run.thread_id, 0):
        last = batch[-1].seq
        if any(event.type in request.TERMINAL for event in batch):
            break
    ended = await store.reader.run(LOCAL.tenant, run.id)
    assert ended is not None and ended.status == "completed", ended
    return {
        "steps": steps,
        "events_per_step": round(last / steps, 2),
        "cpu_ms_per_step": round((time.process_time() - cpu) * 1000 / steps, 3),
        "wall_ms_per_step": round((time.perf_counter() - began) * 1000 / steps, 3),
    }


async def main(sizes: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder) / "workspace"
        workspace.mkdir()  # before anything is measured
        text = _BASE + "".join(_flow(steps) for steps in sizes)
        (workspace / "workspace.yaml").write_text(text)  # as above
        async with open_holdfast(Settings(data_dir=Path(folder) / "data", workspace=workspace)) as holdfast:
            await _measured(holdfast, sizes[0])
            for steps in sizes:
                print(json.dumps(await _measured(holdfast, steps)), flush=True)


if __name__ == "__main__":
    asyncio.run(main([int(size) for size in sys.argv[1:]] or [10, 100, 1000]))

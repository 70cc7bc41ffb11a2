"""Draws the graph of a real run: runs the workflow of an example until it waits, and writes a picture of its steps.

python -m scripts.workflow_picture [WORKSPACE] [WORKFLOW] [FILE]
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from app.core.principal import LOCAL
from app.core.settings import Settings
from app.events.catalog import request
from app.events.follow import follow
from app.runtime.intake.submission import Submission
from app.views.flow_states import FlowStates
from app.views.run import Run
from app.wiring.runtime import open_holdfast
from app.workspace.flow_drawing import svg

ROOT = Path(__file__).parents[1] / "workspaces" / "release-notes"
INPUT = {"version": "1.0", "changes": "workflows, timers, a lost answer"}


async def draw(workspace: Path, workflow: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data_dir=Path(folder), workspace=workspace)
        async with open_holdfast(settings) as holdfast:
            run = await holdfast.service.submit(LOCAL, Submission(None, INPUT, workflow=workflow))
            assert isinstance(run, Run), run
            store, stops = holdfast.store, {request.RequestSuspended.type, *request.TERMINAL}
            async with asyncio.timeout(60):
                async for batch in follow(store.hub, store.reader.events, LOCAL.tenant, run.thread_id, 0):
                    if any(event.run_id == run.id and event.type in stops for event in batch):
                        break
            events = await store.reader.events(LOCAL.tenant, run.thread_id, 0, 1000)
            states = FlowStates(run.id).apply_all(events)
            flow = holdfast.workspace.current.workflows[workflow]
            return svg(flow, states.nodes)


if __name__ == "__main__":
    given = sys.argv[1:]
    folder_of = Path(given[0]) if given else ROOT
    named = given[1] if len(given) > 1 else "release-notes"
    target = Path(given[2]) if len(given) > 2 else folder_of / "run.svg"
    target.write_text(asyncio.run(draw(folder_of, named)))

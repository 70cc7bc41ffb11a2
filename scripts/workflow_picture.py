"""Makes the pictures of the example workflows from real runs: the graph with the state of each step, and the events.

Writes `run.svg` into each example, and the lines below `<!-- run -->` in its README. Everything comes from the log of a
run on an empty database; the models of the examples are scripted.

    python -m scripts.workflow_picture [--check]
"""

import asyncio
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from app.core.principal import LOCAL
from app.core.settings import Settings
from app.events.catalog import request
from app.events.envelope import Event
from app.events.follow import follow
from app.runtime.intake.submission import Submission
from app.views.flow_states import FlowStates
from app.views.run import Run
from app.wiring.runtime import Holdfast, open_holdfast
from app.workspace.flow_drawing import svg

WORKSPACES: Final = Path(__file__).parents[1] / "workspaces"
PLACE: Final = re.compile(r"(<!-- run -->\n```\n).*?(```\n)", re.DOTALL)
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_SHOWN: Final = ("runtime.workflow.", "runtime.specDriven.", "runtime.artifact.created", "runtime.interrupt.raised")
_LEFT_OUT: Final = frozenset({"adapter", "visit", "kind", "artifact"})


@dataclass(frozen=True, slots=True)
class Example:
    workspace: str
    workflow: str
    input: Any
    answers: Mapping[str, Any] = field(default_factory=dict)
    """What is delivered when a phase asks for it; without any, the picture is of the run that waits."""


EXAMPLES: Final = (
    Example("release-notes", "release-notes", {"version": "1.0", "changes": "workflows, timers, a lost answer"}),
    Example("brainstorm-cycle", "brainstorm", "A name for the release"),
    Example("spec-driven", "feature", "a counter", {"requirements.md": "Count things."}),
)


@dataclass(frozen=True, slots=True)
class Picture:
    svg: str
    lines: str


async def draw(example: Example) -> Picture:
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data_dir=Path(folder), workspace=WORKSPACES / example.workspace)
        async with open_holdfast(settings) as holdfast:
            run = await holdfast.service.submit(LOCAL, Submission(None, example.input, workflow=example.workflow))
            assert isinstance(run, Run), run
            async with asyncio.timeout(60):
                await _until_stop(holdfast, run, example.answers)
            events = await holdfast.store.reader.events(LOCAL.tenant, run.thread_id, 0, 1000)
            flow = holdfast.workspace.current.workflows[example.workflow]
            drawn = svg(flow, FlowStates(run.id).apply_all(events).nodes)
            return Picture(drawn, "".join(_lines(event for event in events if event.run_id == run.id)))


async def _until_stop(holdfast: Holdfast, run: Run, answers: Mapping[str, Any]) -> None:
    """Returns when the run has ended, or waits for what the example does not answer."""
    store, asked = holdfast.store, ""
    async for batch in follow(store.hub, store.reader.events, LOCAL.tenant, run.thread_id, 0):
        for event in batch:
            if event.run_id == run.id and event.type in request.TERMINAL:
                return
            if event.type == "runtime.interrupt.raised":
                asked = event.payload["interruptId"]
            if event.run_id == run.id and event.type == request.RequestSuspended.type:
                if not answers:
                    return
                await holdfast.interrupts.answer(LOCAL, asked, {"answers": dict(answers)})


def _lines(events: Iterable[Event]) -> Iterable[str]:
    for event in events:
        if event.type.startswith(_SHOWN):
            yield f"{event.type:<36}{_about(event)}".rstrip() + "\n"


def _about(event: Event) -> str:
    payload = event.payload
    if event.type == "runtime.artifact.created":
        return str(payload["artifact"]["name"])
    if event.type == "runtime.interrupt.raised":
        return str(payload["title"])
    if event.type == "runtime.workflow.policy_gated":
        return f"{payload['policyId']} {payload['decision']}: {payload['reason']}"
    if event.type == "runtime.workflow.phase_advanced":
        return f"{payload['fromPhase']} -> {payload['toPhase']}, generation {payload['generation']}"
    told = {name: value for name, value in payload.items() if name not in _LEFT_OUT and value is not None}
    if "phaseId" in told:
        told.pop("workflowId", None)
    return ", ".join(f"{name} {value}" for name, value in told.items())


def with_lines(readme: str, lines: str) -> str:
    return PLACE.sub(lambda found: found[1] + lines + found[2], readme)


def same(one: str, other: str) -> bool:
    """Of runs on different days."""
    return _DATE.sub("", one) == _DATE.sub("", other)


def main(check: bool) -> int:
    stale: list[str] = []
    for example in EXAMPLES:
        folder = WORKSPACES / example.workspace
        picture, readme = asyncio.run(draw(example)), folder / "README.md"
        text = with_lines(readme.read_text(), picture.lines)
        drawn = folder / "run.svg"
        fresh = drawn.exists() and drawn.read_text() == picture.svg and same(readme.read_text(), text)
        if not fresh:
            stale.append(example.workspace)
            if not check:
                drawn.write_text(picture.svg)
                readme.write_text(text)
    for name in stale:
        print(f"workspaces/{name}: stale{'' if check else ', now fresh'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv))

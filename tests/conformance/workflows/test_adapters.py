"""Each workflow adapter gives the same outputs and completes the steps in the same order, on both databases.

`langgraph` needs its extra: it is tested in the environment of the extras and left out elsewhere.
"""

from pathlib import Path
from typing import Any

import pytest

from app.core.principal import LOCAL
from app.core.settings import Settings
from app.events.envelope import Event
from app.wiring.kinds import workflow_adapters
from tests.conformance.workflows.documents import SAMPLES, Sample
from tests.runs import events_until, opened, submit
from tests.scenarios.flows import make_workspace

ADAPTERS = [name for name in ("native", "langgraph") if workflow_adapters().usable(name) is not None]


def order(events: list[Event]) -> list[str]:
    signals = [event.payload["event"] for event in events if event.type == "runtime.adapter.event"]
    return [signal["nodeId"] for signal in signals if signal["phase"] == "agent.node.completed"]


@pytest.mark.requirement("SH-5", "SH-6")
@pytest.mark.parametrize("adapter", ADAPTERS)
async def test_every_document_gives_the_same_outputs_in_the_same_order(
    settings: Settings, tmp_path: Path, adapter: str
) -> None:
    flows = {sample.name: f"\n  adapter: {adapter}{sample.spec}" for sample in SAMPLES}
    workspace = make_workspace(tmp_path / "workspace", flows | {"release": flows["line"]})
    async with opened(settings, workspace) as holdfast:
        for sample in SAMPLES:
            events = await _run(holdfast, sample)
            ended = events[-1].payload
            assert ended.get("output") == sample.output, (sample.name, ended)
            assert (ended.get("error") or {}).get("code") == sample.error, (sample.name, ended)
            assert _by_name(order(events), sample.parallel) == list(sample.order), sample.name
            facts = [event.type for event in events if event.type.startswith("runtime.workflow.")]
            last = "aborted" if sample.error else "completed"
            assert facts == ["runtime.workflow.started", f"runtime.workflow.{last}"], sample.name


def _by_name(nodes: list[str], parallel: frozenset[str]) -> list[str]:
    """The same, with the parallel ones in the order of their names among their places."""
    names = iter(sorted(node for node in nodes if node in parallel))
    return [next(names) if node in parallel else node for node in nodes]


async def _run(holdfast: Any, sample: Sample) -> list[Event]:
    run = await submit(holdfast, None, sample.input, workflow=sample.name)
    for answer in sample.answers:
        found = await events_until(holdfast, run, "runtime.request.suspended")
        asked = found[-1].payload["waitingOn"][0]
        assert not hasattr(await holdfast.interrupts.answer(LOCAL, asked, answer), "failure")
    return await events_until(holdfast, run)

"""Each adapter resumes as it declares, wherever its server was killed: after every single event of a run."""

import shutil
from pathlib import Path

import pytest

from app.core.settings import Settings
from app.events.catalog import request
from app.events.envelope import Event
from tests.adapters.space import ADAPTERS, write
from tests.cut_runs import left_behind
from tests.runs import ended, events_until, opened, payloads, submit

RULES = (
    "{match: {afterTool: clock}, reply: {text: 'it is {{ toolResult }}'}}",
    "{match: {afterTool: echo}, reply: {toolCalls: [{name: clock, args: {}}]}}",
    "{match: {contains: time}, reply: {text: 'let me see', toolCalls: [{name: echo, args: {text: a}}, "
    "{name: echo, args: {text: b}}]}}",
)
TOOLS = "".join(
    f"---\napiVersion: holdfast/v1\nkind: Tool\nmetadata: {{name: {name}}}\nspec: {{kind: builtin, effect: readonly}}\n"
    for name in ("echo", "clock")
)


QUICK = ("langgraph", "deepagents")
"""Those that report more than the runtime itself. The others run in `make faults`, and in the conformance suite."""
FULL = pytest.mark.faults


def signals(events: list[Event]) -> list[str]:
    """The phases of what the backend reported, without the pieces of answers."""
    found = [event.payload["event"] for event in events if event.type == "runtime.adapter.event"]
    return sorted(signal["phase"] for signal in found if "messageId" not in signal)


@pytest.mark.requirement("SH-9", "G5")
@pytest.mark.parametrize("kind", [kind if kind in QUICK else pytest.param(kind, marks=FULL) for kind in ADAPTERS])
async def test_a_run_killed_after_any_event_ends_as_if_it_had_not_been(
    tmp_path: Path, migrated_file: Path, kind: str
) -> None:
    def settings(name: str) -> Settings:
        made = Settings(data_dir=tmp_path / name)
        made.data_dir.mkdir()
        shutil.copy(migrated_file, made.sqlite_path)
        return made

    root = write(tmp_path, {"clerk": (kind, "")}, RULES)
    text = (root / "workspace.yaml").read_text().replace("tools: [note, publish]", "tools: [echo, clock]")
    (root / "workspace.yaml").write_text(text + TOOLS)
    async with opened(settings("whole"), root) as holdfast:
        run = await submit(holdfast, "clerk", "what is the time?")
        over, events = await ended(holdfast, run), await events_until(holdfast, run)
        assert over.status == "completed", over.error
    started = next(n for n, event in enumerate(events) if event.type == request.RequestStarted.type) + 1
    cuts = settings("cuts")
    async with opened(cuts, root) as holdfast:
        await holdfast.executor.drain(0)
        runs = [(cut, await left_behind(holdfast, events[:cut])) for cut in range(started, len(events))]
    async with opened(cuts, root) as holdfast:
        for cut, cut_off in runs:
            again, resumed = await ended(holdfast, cut_off), await events_until(holdfast, cut_off)
            assert again.status == "completed", (cut, again.error)
            assert len(payloads(resumed, "model.completed")) == 3, f"killed after event {cut}"
            results = payloads(resumed, "tool.resulted")
            assert len({result["callId"] for result in results}) == len(results) == 3, f"killed after event {cut}"
            known = [event.payload for event in events[:cut] if event.type == "runtime.tool.resulted"]
            assert results[: len(known)] == known, "what was recorded is used, not made again"
            assert signals(resumed) == signals(events), f"killed after event {cut}: a signal is missing or repeated"

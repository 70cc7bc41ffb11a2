"""A cycle killed at every event of its run ends with the same verdict, and no phase that had ended runs twice.

A kill is a copy of the run as far as it was stored, taken up by a new server. The witness is a file that a persona's
tool writes to, which no database knows. `make faults` cuts after every event, `make test` after some.
"""

import shutil
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from app.core.settings import Settings
from app.events.catalog import request
from app.events.envelope import Event
from tests.cut_families import contents, left_behind, seen_through, visits, written_by
from tests.runs import opened, submit
from tests.scenarios.cycles import EXAMPLE

SOME: Final = {False: 29, True: 47}
"""Without `faults`: after each so many events, on SQLite and on Postgres."""
_NOTE: Final = """---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: note, description: Writes a line into the ledger.}
spec: {kind: python, entry: "ledger:note", effect: unsafe}
"""
_RULE: Final = """    rules:
      - match: {system: You collect ideas, turn: 1}
        reply: {toolCalls: [{name: note, args: {}}]}
"""
_LEDGER: Final = """
import os


async def note(ctx) -> str:
    with open(os.environ["CYCLE_LEDGER"], "a") as file:
        file.write(f"{ctx.run_id}\\n")
    return "noted"
"""


def make_workspace(folder: Path) -> Path:
    """The example, in which the one who collects ideas notes each time that it does."""
    shutil.copytree(EXAMPLE, folder)
    (folder / "ledger.py").write_text(_LEDGER)
    changes = {
        "agents.yaml": ("  skills: [brainstorm]\n", "  skills: [brainstorm]\n  tools: [note]\n" + _NOTE),
        "runtime.yaml": ("  defaultAgent: thinker\n", "  defaultAgent: thinker\n  env: [CYCLE_LEDGER]\n"),
        "models.yaml": ("    rules:\n", _RULE),
        "workflows/personas/researcher/ideator.md": ("allowed-tools: []", "allowed-tools: [note]"),
    }
    for name, (old, new) in changes.items():
        text = (folder / name).read_text().replace("{streaming: true,", "{streaming: true, tools: true,")
        assert old in text
        (folder / name).write_text(text.replace(old, new, 1))
    return folder


def told(events: list[Event]) -> list[tuple[str, Any]]:
    """The events of the cycle itself, in their order."""
    return [(event.type, event.payload) for event in events if event.type.startswith("runtime.workflow.")]


def without_ids(output: Any) -> Any:
    return {**output, "artifacts": [{**made, "id": ""} for made in output["artifacts"]]}


@pytest.mark.requirement("PX-2", "OS-L8", "G5")
@pytest.mark.parametrize("full", [False, pytest.param(True, marks=pytest.mark.faults)], ids=["some", "all"])
async def test_cycle_killed_after_any_event_ends_the_same_and_repeats_no_phase(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    lines, root = tmp_path / "ledger.txt", make_workspace(tmp_path / "workspace")
    lines.touch()
    monkeypatch.setenv("CYCLE_LEDGER", str(lines))
    async with opened(settings, root) as holdfast:
        run = await submit(holdfast, None, "A name for the release", workflow="brainstorm")
        events = await seen_through(holdfast, run)
        blobs = await contents(holdfast, events)
    output = without_ids(events[-1].payload["output"])
    assert output["verdict"] == "done" and visits(events) == ["explore.1", "review.1", "explore.2", "review.2"]
    assert written_by(events, lines.read_text().splitlines()) == 2
    first = next(n for n, event in enumerate(events) if event.type == request.RequestStarted.type) + 1
    cuts = range(first, len(events), 1 if full else SOME[settings.is_postgres])
    async with opened(settings, root) as holdfast:
        await holdfast.executor.drain(0)
        runs = {cut: await left_behind(holdfast, events[:cut], blobs) for cut in cuts}
    lines.write_text("")
    async with opened(settings, root) as holdfast:
        for cut, cut_off in runs.items():
            after = await seen_through(holdfast, cut_off)
            assert without_ids(after[-1].payload["output"]) == output, f"killed after event {cut}"
            assert visits(after) == visits(events), f"killed after event {cut}"
            assert told(after) == told(events), f"killed after event {cut}"
            asked = Counter(
                e.payload["callId"] for e in after if e.type == request.RequestQueued.type and e.payload.get("callId")
            )
            assert set(asked.values()) == {1} and len(asked) == 6, f"killed after event {cut}"
            ended = {e.run_id for e in after[:cut] if e.type == request.RequestCompleted.type}
            assert not [e for e in after[cut:] if e.run_id in ended], f"killed after event {cut}"
            left = 2 - sum(e.type == "runtime.tool.resulted" for e in events[:cut])
            assert written_by(after, lines.read_text().splitlines()) == left, f"killed after event {cut}"

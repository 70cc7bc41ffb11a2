"""Spec-driven work killed at every event ends with the same artifacts, and nothing that had ended is done twice.

A kill is a copy of the run as far as it was stored, taken up by a new server. The witness is a file that the tool of a
phase writes to, which no database knows. `make faults` cuts after every event, `make test` after some.
"""

from pathlib import Path
from typing import Final

import pytest

from app.core.settings import Settings
from app.events.catalog import request
from app.events.envelope import Event
from tests.cut_families import contents, left_behind, seen_through, visits, written_by
from tests.runs import opened, submit
from tests.scenarios.specs import make_workspace

DELIVERED: Final = {"requirements.md": "Count things."}
SOME: Final = {False: 29, True: 47}
"""Without `faults`: after each so many events, on SQLite and on Postgres."""
ARTIFACTS: Final = [("requirements.md", 1), ("design.json", 1), ("tests.md", 1)]


def told(events: list[Event]) -> list[tuple[str, str]]:
    """The phases in the order of their events."""
    found = (event for event in events if event.type.startswith("runtime.specDriven.phase."))
    return [(event.payload["phaseId"], event.type.rpartition(".")[2]) for event in found]


def verdicts(events: list[Event]) -> list[tuple[str, str, bool]]:
    found = (event.payload for event in events if event.type == "runtime.gate.evaluated")
    return [(one["node"], one["gate"], one["passed"]) for one in found]


def artifacts(events: list[Event]) -> list[tuple[str, int]]:
    made = (event.payload["artifact"] for event in events if event.type == "runtime.artifact.created")
    return [(one["name"], one["version"]) for one in made]


@pytest.mark.requirement("PX-2", "SH-18", "G5")
@pytest.mark.parametrize("full", [False, pytest.param(True, marks=pytest.mark.faults)], ids=["some", "all"])
async def test_phases_killed_after_any_event_end_the_same_and_repeat_nothing(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    lines, root = tmp_path / "ledger.txt", make_workspace(tmp_path / "workspace")
    lines.touch()
    monkeypatch.setenv("SPEC_LEDGER", str(lines))
    async with opened(settings, root) as holdfast:
        run = await submit(holdfast, None, "a counter", workflow="noted")
        events = await seen_through(holdfast, run, DELIVERED)
        blobs = await contents(holdfast, events)
    output = events[-1].payload["output"]
    assert artifacts(events) == ARTIFACTS and len(lines.read_text().splitlines()) == 1
    assert verdicts(events) == [("design", "good", True)]
    first = next(n for n, event in enumerate(events) if event.type == request.RequestStarted.type) + 1
    cuts = range(first, len(events), 1 if full else SOME[settings.is_postgres])
    async with opened(settings, root) as holdfast:
        await holdfast.executor.drain(0)
        runs = {cut: await left_behind(holdfast, events[:cut], blobs) for cut in cuts}
    lines.write_text("")
    async with opened(settings, root) as holdfast:
        for cut, cut_off in runs.items():
            after = await seen_through(holdfast, cut_off, DELIVERED)
            assert after[-1].payload.get("output") == output == "# Tests", f"killed after event {cut}"
            for fold in (told, visits, verdicts, artifacts):
                assert fold(after) == fold(events), f"{fold.__name__}, killed after event {cut}"
            ended = {e.run_id for e in after[:cut] if e.type == request.RequestCompleted.type}
            assert not [e for e in after[cut:] if e.run_id in ended], f"killed after event {cut}"
            done = any(e.type == "runtime.tool.resulted" for e in events[:cut])
            assert written_by(after, lines.read_text().splitlines()) == (0 if done else 1), f"killed after event {cut}"

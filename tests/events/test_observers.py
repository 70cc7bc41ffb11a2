"""Narrators and telemetry sinks beside the runs: fed after the commit, bounded, and without any power over a run."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from app.backends.contract import Context, Resume
from app.core.settings import Settings
from app.events.envelope import Event
from app.events.observers import QUEUE, Observer
from app.protocols.telemetry.sinks import STDOUT, SinkKind
from app.runtime.narration_queue import NarratorKind
from app.wiring import foundation, kinds
from app.workspace.catalog import AnyConfig, Kinds
from tests.runs import ended, events_until, opened, payloads, submit

WORKSPACE = """\
apiVersion: holdfast/v1
kind: Runtime
metadata: {name: observed}
spec:
  defaultAgent: echo
  progress: {narration: {enabled: true, provider: %s, style: %s}}
  telemetry: {sinks: [{kind: list, config: {into: here}}, {kind: broken}]}
  redaction: {traceFields: [input]}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: echo}
spec: {backend: echo}
"""


class Speaking:
    """Says what kind of event it saw; async."""

    async def narrate(self, event: Mapping[str, Any], style: str) -> str | None:
        await asyncio.sleep(0)
        return f"{style}: {event['type']}" if event["type"] == "runtime.request.started" else None


class Plain:
    """The same without `async`: it is called in a thread."""

    def narrate(self, event: Mapping[str, Any], style: str) -> str | None:
        return f"{style}: {event['type']}" if event["type"] == "runtime.request.started" else None


class Failing:
    def narrate(self, event: Mapping[str, Any], style: str) -> str | None:
        raise RuntimeError("no words")


class Patient:
    """A backend that answers when the test wants."""

    kind = "echo"
    resume: Resume = "replay"

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    async def run(self, ctx: Context) -> str:
        await self.go_on.wait()
        return str(ctx.input)


class Listed:
    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config
        LISTED.append(self)
        self.events: list[Mapping[str, Any]] = []

    def send(self, events: Sequence[Mapping[str, Any]]) -> None:
        self.events += events


LISTED: list[Listed] = []


def broken(_config: Mapping[str, Any]) -> Any:
    raise RuntimeError("cannot be made")


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """As installed packages offer them."""
    speaking = NarratorKind(name="speaking", make=Speaking)
    plain = NarratorKind(name="plain", make=Plain)
    failing = NarratorKind(name="failing", make=Failing)
    listed = SinkKind(name="list", make=Listed, config=AnyConfig)
    monkeypatch.setattr(kinds, "narrators", lambda: Kinds([speaking, plain, failing]))
    for module in (kinds, foundation):
        monkeypatch.setattr(module, "sinks", lambda: Kinds([STDOUT, listed, SinkKind(name="broken", make=broken)]))


@pytest.mark.requirement("HK-29", "G13")
async def test_what_an_observer_cannot_take_is_dropped_and_nobody_waits_for_it() -> None:
    let_go, seen = asyncio.Event(), 0

    async def consume(events: Sequence[Event]) -> None:
        nonlocal seen
        await let_go.wait()
        seen += len(events)

    observer = Observer("slow", consume)
    events = [Event("", "", "", None, n, None, "t", "", 0, b"{}", None, "", "", {}) for n in range(QUEUE + 100)]
    observer.offer(events)
    assert (observer.waiting, observer.dropped) == (QUEUE, 100)
    let_go.set()
    await observer.close()
    assert seen == QUEUE


@pytest.mark.requirement("SH-26", "SH-16", "HK-12", "HK-32")
@pytest.mark.usefixtures("packages")
@pytest.mark.parametrize(
    ("narrator", "style"), [("speaking", "concise"), ("plain", "detailed"), ("failing", "concise")]
)
async def test_narrators_and_sinks_of_packages_see_what_is_stored_and_change_no_run(
    settings: Settings, tmp_path: Path, narrator: str, style: str
) -> None:
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "workspace.yaml").write_text(WORKSPACE % (narrator, style))
    LISTED.clear()
    patient = Patient()
    async with opened(settings, root, backends={"echo": patient}) as holdfast:
        run = await submit(holdfast, "echo", "one two three " * 50)
        if narrator != "failing":  # a run that has ended gets no more words
            await events_until(holdfast, run, "runtime.progress.narration")
        patient.go_on.set()
        over, events = await ended(holdfast, run), await events_until(holdfast, run)
        assert over.status == "completed"
    (sink,) = LISTED
    assert dict(sink.config) == {"into": "here"}
    stored = {event.id for event in events}
    sent = [event for event in sink.events if event["runId"] == run.id]
    assert stored == {event["id"] for event in sent}, "everything that was committed, once"
    assert [event["payload"] for event in sent if "payload" in event] == [{"input": "one two three " * 50}]
    narrations = payloads(events, "progress.narration")
    assert len(narrations) == (0 if narrator == "failing" else 1)
    for narration in narrations:
        assert (narration["message"], narration["style"]) == (f"{style}: runtime.request.started", style)
        assert (narration["provider"], narration["sourceEventTypes"]) == (narrator, ["runtime.request.started"])
        assert set(narration["sourceEventIds"]) <= stored

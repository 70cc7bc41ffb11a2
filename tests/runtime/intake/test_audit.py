"""The audit of runs that really happened: complete as recorded, and with each event taken out in turn it says which."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from app.core.principal import LOCAL
from app.core.resources import shipped
from app.core.settings import Settings
from app.events.catalog import adapter, interrupt, log, model, request
from app.events.envelope import Event
from app.events.follow import follow
from app.runtime.intake.submission import Submission
from app.views.audit import audit
from app.views.run import Run
from app.wiring.runtime import Holdfast, open_holdfast

NUMBERED_ONLY = frozenset({adapter.AdapterEvent.type, log.ProgressNarration.type})
"""Optional: deltas, which the finished message replaces, and words for people. The audit knows them by number."""


async def recorded(holdfast: Holdfast, agent: str | None, given: Any, tool: str | None = None) -> list[Event]:
    """The events of a run from its first to its last, with those of its subagents; whatever it asks is approved."""
    run = await holdfast.service.submit(LOCAL, Submission(agent, given, tool=tool))
    assert isinstance(run, Run), run
    events: list[Event] = []
    async with asyncio.timeout(30):
        store = holdfast.store
        async for batch in follow(store.hub, store.reader.events, "default", run.thread_id, run.first_seq - 1):
            for event in batch:
                if event.run_id is not None:
                    events.append(event)
                if event.type == interrupt.InterruptRaised.type:
                    await holdfast.interrupts.answer(LOCAL, event.payload["interruptId"], {"decision": "approve"})
            if events and events[-1].type in request.TERMINAL and events[-1].run_id == run.id:
                return events
    raise AssertionError("the stream ended")


@pytest.mark.requirement("OS-A", "OS-I1")
@pytest.mark.parametrize(
    ("agent", "given"),
    [
        ("echo", "one two"),
        (None, {"text": "directly"}),
        ("team", "hello there"),
        ("assistant", "research it"),
        ("assistant", "please calculate this"),
        ("assistant", "hello there"),
        ("assistant", "publish it now"),
        ("assistant", "try again please"),
        ("assistant", "fail please"),
    ],
)
async def test_each_event_of_a_recorded_run_is_named_when_it_is_missing(
    tmp_path: Path, agent: str | None, given: Any
) -> None:
    settings = Settings(data_dir=tmp_path, workspace=shipped("workspaces") / "demo")
    async with open_holdfast(settings) as holdfast:
        events = await recorded(holdfast, agent, given, tool=None if agent else "echo")
    runs: dict[str, list[Event]] = {}
    for event in events:
        runs.setdefault(event.run_id or "", []).append(event)
    assert len(runs) == (2 if given == "research it" else 1)
    for mine in runs.values():
        names_whatever_is_missing(mine)


def names_whatever_is_missing(events: list[Event]) -> None:
    assert audit(events).missing == ()
    first_choice = next((event for event in events if event.type == model.ModelNegotiated.type), None)
    for gone in events:
        found = audit(event for event in events if event is not gone)
        named = {name for missing in found.missing for name in (missing.type or missing.subject or "").split(" | ")}
        assert not found.complete
        # A choice of models that is recorded again after a resume is bound to nothing either.
        again = gone.type == model.ModelNegotiated.type and gone is not first_choice
        numbered = gone.type in NUMBERED_ONLY or again
        assert (str(gone.run_seq) if numbered else gone.type) in named, (gone, found.missing)

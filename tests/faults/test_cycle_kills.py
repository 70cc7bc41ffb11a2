"""A cycle killed at every event of its run ends with the same verdict, and no phase that had ended runs twice.

A kill is a copy of the run as far as it was stored, taken up by a new server. `make faults` cuts after every event,
`make test` after some.
"""

from collections import Counter
from typing import Any, Final

import pytest

from app.core import json
from app.core.ids import new_id
from app.core.settings import Settings
from app.events.catalog import request, thread
from app.events.catalog.base import EVENTS
from app.events.envelope import Event
from app.events.ports import Appended
from app.events.recorder import PayloadEntry, Scope
from app.views.run import Run
from app.wiring.runtime import Holdfast
from tests.runs import events_until, opened, submit
from tests.scenarios.cycles import EXAMPLE

SOME: Final = {False: 9, True: 16}
"""Without `faults`: after each so many events, on SQLite and on Postgres."""


async def family(holdfast: Holdfast, run: Run) -> list[Event]:
    return [event for event in await holdfast.store.reader.events("default", run.thread_id, 0, 1000) if event.run_id]


async def left_behind(holdfast: Holdfast, events: list[Event]) -> Run:
    """The same runs on a thread of their own, as far as a server had come that was killed."""
    ids = {str(event.run_id): new_id("run") for event in events}
    scope = Scope("default", new_id("thread"), next(iter(ids.values())))
    entries: list[Any] = []
    for event in events:
        text = json.dumps(event.payload).decode()
        for old, new in ids.items():
            text = text.replace(old, new)
        payload = EVENTS[event.type].unchecked(json.loads(text))
        entries.append(PayloadEntry(payload, run_id=ids[str(event.run_id)], actor=event.actor))
    assert isinstance(await holdfast.store.recorder.record(scope, thread.ThreadCreated(), *entries), Appended)
    found = await holdfast.store.reader.run("default", scope.run_id or "")
    assert found is not None
    return found


def visits(events: list[Event]) -> list[str]:
    steps = (event.payload for event in events if event.type == "runtime.step.completed")
    return [step["key"] for step in steps if step["step"] == "node"]


def told(events: list[Event]) -> list[tuple[str, Any]]:
    """The events of the cycle itself, in their order."""
    return [(event.type, event.payload) for event in events if event.type.startswith("runtime.workflow.")]


def without_ids(output: Any) -> Any:
    return {**output, "artifacts": [{**made, "id": ""} for made in output["artifacts"]]}


@pytest.mark.requirement("PX-2", "OS-L8", "G5")
@pytest.mark.parametrize("full", [False, pytest.param(True, marks=pytest.mark.faults)], ids=["some", "all"])
async def test_cycle_killed_after_any_event_ends_the_same_and_repeats_no_phase(settings: Settings, full: bool) -> None:
    async with opened(settings, EXAMPLE) as holdfast:
        run = await submit(holdfast, None, "A name for the release", workflow="brainstorm")
        output = without_ids((await events_until(holdfast, run))[-1].payload["output"])
        events = await family(holdfast, run)
    assert output["verdict"] == "done" and visits(events) == ["explore.1", "review.1", "explore.2", "review.2"]
    first = next(n for n, event in enumerate(events) if event.type == request.RequestStarted.type) + 1
    cuts = range(first, len(events), 1 if full else SOME[settings.is_postgres])
    async with opened(settings, EXAMPLE) as holdfast:
        await holdfast.executor.drain(0)
        runs = {cut: await left_behind(holdfast, events[:cut]) for cut in cuts}
    async with opened(settings, EXAMPLE) as holdfast:
        for cut, cut_off in runs.items():
            ending = (await events_until(holdfast, cut_off))[-1].payload
            assert without_ids(ending["output"]) == output, f"killed after event {cut}"
            after = await family(holdfast, cut_off)
            assert visits(after) == visits(events), f"killed after event {cut}"
            assert told(after) == told(events), f"killed after event {cut}"
            asked = Counter(
                e.payload["callId"] for e in after if e.type == request.RequestQueued.type and e.payload.get("callId")
            )
            assert set(asked.values()) == {1} and len(asked) == 6, f"killed after event {cut}"
            ended = {e.run_id for e in after[:cut] if e.type == request.RequestCompleted.type}
            assert not [e for e in after[cut:] if e.run_id in ended], f"killed after event {cut}"

"""A workflow killed at every event of its run ends with the same outputs, and no step that had ended runs twice.

A kill is a copy of the run as far as it was stored, taken up by a new server. The witness is the ledger: a file that
the tools write to, which no database knows. `make faults` cuts after every event, `make test` after some.
"""

import os
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from app.core import json
from app.core.ids import new_id
from app.core.principal import LOCAL
from app.core.settings import Settings
from app.events.catalog import request, thread
from app.events.catalog.base import EVENTS
from app.events.envelope import Event
from app.events.ports import Appended
from app.events.recorder import PayloadEntry, Scope
from app.views.run import Run
from app.wiring.runtime import Holdfast
from tests.runs import events_until, opened, submit
from tests.scenarios.flows import make_workspace

MARK: Final = "MARK-OF-THE-RUN"
INPUT: Final = {"mark": MARK, "items": ["a", "b", "c"]}
LINES: Final = ("one @", "three a @", "three b @", "three c @", "leaf wrote two @")
SOME: Final = {False: 13, True: 23}
"""Without `faults`: after each so many events, on SQLite and on Postgres."""


def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "ledger.txt"
    path.touch()
    monkeypatch.setenv("FLOW_LEDGER", str(path))
    return path


async def answer_all(holdfast: Holdfast, run: Run) -> list[Event]:
    """The run's events at its end; a person approves, an operator lets calls that were cut off be repeated."""
    while True:
        stops = ("runtime.request.suspended", "runtime.interrupt.raised", *request.TERMINAL)
        await events_until(holdfast, run, *stops)
        found = await holdfast.store.reader.run("default", run.id)
        assert found is not None
        if found.terminal:
            return await events_until(holdfast, run)
        for asked in found.waiting_on if found.status == "waiting" else ():
            interrupt = await holdfast.store.reader.interrupt("default", asked)
            if interrupt is not None and interrupt.status == "open":
                answer = {"decision": "retry" if interrupt.kind == "recovery" else "approve"}
                await holdfast.interrupts.answer(LOCAL, asked, answer)
        await holdfast.executor.idle()
        holdfast.executor.sweep_now()


async def family(holdfast: Holdfast, run: Run) -> list[Event]:
    return [event for event in await holdfast.store.reader.events("default", run.thread_id, 0, 1000) if event.run_id]


async def left_behind(holdfast: Holdfast, events: list[Event], mark: str) -> Run:
    """The same runs on a thread of their own, as far as a server had come that was killed; with another mark."""
    ids = {event.run_id: new_id("run") for event in events}
    names = {**ids, MARK: mark}
    for event in events:
        if event.type == "runtime.interrupt.raised":
            names[event.payload["interruptId"]] = new_id("interrupt")
    scope = Scope("default", new_id("thread"), next(iter(ids.values())))
    entries: list[Any] = []
    for event in events:
        text = json.dumps(event.payload).decode()
        for old, new in names.items():
            text = text.replace(str(old), new)
        payload = EVENTS[event.type].unchecked(json.loads(text))
        entries.append(PayloadEntry(payload, run_id=ids[event.run_id], actor=event.actor))
    assert isinstance(await holdfast.store.recorder.record(scope, thread.ThreadCreated(), *entries), Appended)
    found = await holdfast.store.reader.run("default", scope.run_id or "")
    assert found is not None
    return found


def effects_in(events: list[Event]) -> set[str]:
    """The lines whose tools had given their result."""
    done = (event.payload for event in events if event.type == "runtime.tool.resulted")
    return {payload["output"]["text"].replace(MARK, "@") for payload in done if payload.get("ok")}


def visits_in(events: list[Event]) -> list[str]:
    steps = (event.payload for event in events if event.type == "runtime.step.completed")
    return [step["key"] for step in steps if step["step"] == "node"]


@pytest.mark.requirement("G5", "SH-5")
@pytest.mark.parametrize("full", [False, pytest.param(True, marks=pytest.mark.faults)], ids=["some", "all"])
async def test_workflow_killed_after_any_event_ends_the_same_and_repeats_nothing(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    lines, root = ledger(tmp_path, monkeypatch), make_workspace(tmp_path / "workspace")
    async with opened(settings, root) as holdfast:
        run = await submit(holdfast, None, INPUT, workflow="chain")
        whole = await answer_all(holdfast, run)
        output, visits = whole[-1].payload["output"], visits_in(await family(holdfast, run))
        events = await family(holdfast, run)
        assert output["three"][2] == {"text": f"three c {MARK}"}
        assert Counter(lines.read_text().splitlines()) == Counter(line.replace("@", MARK) for line in LINES)
    first = next(n for n, event in enumerate(events) if event.type == request.RequestStarted.type) + 1
    cuts = range(first, len(events), 1 if full else SOME[settings.is_postgres])
    async with opened(settings, root) as holdfast:
        await holdfast.executor.drain(0)
        runs = {cut: await left_behind(holdfast, events[:cut], f"cut{cut}") for cut in cuts}
    lines.write_text("")
    async with opened(settings, root) as holdfast:
        for cut, cut_off in runs.items():
            again = (await answer_all(holdfast, cut_off))[-1].payload
            assert json.dumps(again.get("output")).decode() == json.dumps(output).decode().replace(MARK, f"cut{cut}"), (
                cut,
                again,
            )
            assert visits_in(await family(holdfast, cut_off)) == visits, f"killed after event {cut}"
    written = Counter(lines.read_text().splitlines())
    for cut in cuts:
        done = effects_in(events[:cut])
        for line in LINES:
            times = written[line.replace("@", f"cut{cut}")]
            assert times == (0 if line in done else 1), f"{line!r}, killed after event {cut}"
    assert os.environ["FLOW_LEDGER"] == str(lines)

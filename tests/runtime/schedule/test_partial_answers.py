"""A run that is cancelled in the middle of its answer keeps what it had said; on both databases."""

from pathlib import Path

import pytest

from app.core.principal import LOCAL
from app.core.settings import Settings
from app.events.envelope import Event
from app.runtime.intake.rejection import Rejected
from tests.runs import events_until, is_delta, opened, submit, until_said
from tests.runtime.schedule.test_last_moment_commands import Pauses, workspace


def said(events: list[Event]) -> str:
    return "".join(event.payload["event"]["text"] for event in events if is_delta(event))


@pytest.mark.requirement("G8")
async def test_a_cancelled_run_keeps_its_partial_answer(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Pauses(monkeypatch, skipped=1)
    async with opened(settings, workspace(tmp_path)) as holdfast:
        run = await submit(holdfast, "worker", "slowly")
        await until_said(holdfast, run)
        assert not isinstance(await holdfast.lifecycle.cancel(LOCAL, run.id), Rejected)
        events = await events_until(holdfast, run)
        found = await holdfast.store.reader.run("default", run.id)
        assert found is not None and found.status == "cancelled"
        assert found.output and found.output == said(events)
        entries = await holdfast.store.reader.transcript("default", run.thread_id)
        assert [(entry.role, entry.status, entry.content) for entry in entries] == [
            ("user", "complete", "slowly"),
            ("assistant", "canceled", found.output),
        ]


@pytest.mark.requirement("G8")
async def test_a_run_that_had_said_nothing_has_no_output(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Pauses(monkeypatch, skipped=0)
    async with opened(settings, workspace(tmp_path)) as holdfast:
        run = await submit(holdfast, "worker", "slowly")
        assert not isinstance(await holdfast.lifecycle.cancel(LOCAL, run.id), Rejected)
        events = await events_until(holdfast, run)
        found = await holdfast.store.reader.run("default", run.id)
        assert found is not None and found.status == "cancelled"
        assert (found.output or "") == said(events)

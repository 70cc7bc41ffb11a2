"""What a run holds to store it with what it records next, and what becomes of it when nothing follows."""

import asyncio
from typing import Any, cast

import pytest

from app.core.clock import ManualClock
from app.events.catalog import Payload
from app.events.catalog.execution import CheckpointCreated
from app.events.envelope import GENESIS, Event
from app.events.ports import Answer, Appended, Draft, StorageDown
from app.events.recorder import Recorder, Scope
from app.runtime.run.completed_steps import COMPLETES_A_STEP
from app.runtime.run.control import Control
from app.runtime.run.memo import Memo
from app.runtime.run.run_log import RunLog


class PendingRecorder:
    """Accepts everything, and leaves it to the test when it is stored."""

    def __init__(self) -> None:
        self.commands: list[list[str]] = []
        self.answers: list[asyncio.Future[Answer]] = []

    def prepared(self, scope: Scope, *payloads: Payload) -> list[Draft]:
        return [Draft(payload.type, payload.to_json(), scope.run_id) for payload in payloads]

    def record(self, scope: Scope, *entries: Any) -> "asyncio.Future[Answer]":
        self.commands.append([entry.payload["label"] for entry in entries])
        self.answers.append(asyncio.get_running_loop().create_future())
        return self.answers[-1]


def log_of(recorder: PendingRecorder, control: Control) -> RunLog:
    scope = Scope("default", "thr_1", "run_1", "backend:native")
    return RunLog(cast(Recorder, recorder), scope, Memo(), control, ManualClock())


def event(kind: str) -> Event:
    return Event("evt_1", "default", "thr_1", "run_1", 1, 1, kind, "system", 0, b"{}", None, GENESIS, GENESIS)


async def test_what_is_held_until_the_run_waits_is_stored_together() -> None:
    recorder = PendingRecorder()
    log = log_of(recorder, Control())
    log.hold(CheckpointCreated(label="first"))
    log.hold(CheckpointCreated(label="second"))
    assert recorder.commands == []
    await asyncio.sleep(0)
    assert recorder.commands == [["first", "second"]]
    log.hold(CheckpointCreated(label="third"))
    await asyncio.sleep(0)
    assert recorder.commands == [["first", "second"], ["third"]]


async def test_whoever_records_next_waits_for_all_that_was_held() -> None:
    recorder, control = PendingRecorder(), Control()
    log = log_of(recorder, control)
    for label in ("first", "second"):
        log.hold(CheckpointCreated(label=label))
        log.send_held()
    settling = asyncio.ensure_future(log.settle())
    recorder.answers[0].set_result(Appended(()))
    await asyncio.sleep(0)
    assert not settling.done()
    recorder.answers[1].set_result(Appended(()))
    await settling
    assert control.flushing == []


async def test_the_failure_of_what_was_held_is_raised_to_whoever_records_next() -> None:
    recorder = PendingRecorder()
    log = log_of(recorder, Control())
    log.hold(CheckpointCreated(label="first"))
    log.send_held()
    recorder.answers[0].set_exception(StorageDown("the disk is gone"))
    with pytest.raises(StorageDown):
        await log.record(CheckpointCreated(label="second"))


async def test_a_step_that_was_held_is_noted_when_it_is_stored_although_nothing_follows() -> None:
    recorder, noted = PendingRecorder(), list[str]()
    control = Control(on_step=lambda: noted.append("step"))
    log = log_of(recorder, control)
    log.hold(CheckpointCreated(label="first"))
    log.send_held()
    recorder.answers[0].set_result(Appended((event(next(iter(COMPLETES_A_STEP))),)))
    for _ in range(3):
        await asyncio.sleep(0)
    assert noted == ["step"]

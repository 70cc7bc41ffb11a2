"""Intake with another scheduler: what it asks for, and that it works without an executor."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from app.core.errors import Failure
from app.core.principal import LOCAL
from app.core.settings import Settings
from app.core.signing import open_signer
from app.events.catalog.request import RequestStarted
from app.events.ports import ClaimRun
from app.runtime.intake.rejection import Rejected
from app.runtime.intake.submission import Submission
from app.runtime.scheduler import AcceptedRun, WorkerReservation
from app.views.run import Run
from app.wiring.intake import Intake, build_intake
from app.wiring.runtime import open_holdfast


class Notes:
    """A scheduler that starts nothing and notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.full: Failure | None = None
        self.reservation: WorkerReservation | None = None

    def refusal(self, tenant: str) -> Failure | None:
        return self.full

    def reserve(self, tenant: str, thread_id: str, run_id: str, agent: str) -> WorkerReservation | None:
        self.asked.append(("reserve", thread_id, agent))
        if self.reservation is None:
            return None
        lease = ClaimRun(run_id, "notes", 1, 15.0, claimed_at_submit=True)
        self.reservation = WorkerReservation(lease, RequestStarted(executor="notes", epoch=1), self.reservation.outcome)
        return self.reservation

    def wake(self, tenant: str, thread_id: str, run_id: str, accepted: AcceptedRun | None = None) -> None:
        self.asked.append(("wake", run_id))

    def wake_later(self, tenant: str, run: Run) -> None:
        self.asked.append(("wake later", run.id))

    def stop(self, tenant: str, run_id: str) -> None:
        self.asked.append(("stop", run_id))

    def deliver(self, tenant: str, run_id: str, command: Mapping[str, Any]) -> None:
        self.asked.append(("deliver", run_id, command["command"]))

    def freed(self, tenant: str, thread_id: str) -> None:
        self.asked.append(("freed", thread_id))


@pytest.fixture
def notes() -> Notes:
    return Notes()


@contextlib.asynccontextmanager
async def opened(settings: Settings, notes: Notes) -> AsyncIterator[Intake]:
    async with open_holdfast(settings) as holdfast:
        executor = holdfast.executor
        await executor.drain(0)  # or it would find the runs
        signer = open_signer(settings)
        yield build_intake(
            holdfast.store,
            holdfast.clock,
            holdfast.history,
            holdfast.backends,
            holdfast.effective,
            signer,
            notes,
            executor,
        )


async def _submit(intake: Intake, **more: Any) -> Run:
    run = await intake.service.submit(LOCAL, Submission("echo", "hello", **more))
    assert isinstance(run, Run)
    return run


async def test_a_new_run_is_offered_a_worker_and_otherwise_wakes_one(settings: Settings, notes: Notes) -> None:
    async with opened(settings, notes) as intake:
        first = await _submit(intake)
        second = await _submit(intake, thread_id=first.thread_id)
        # A thread that exists may be busy: nobody is kept waiting for it.
        assert notes.asked == [("reserve", first.thread_id, "echo"), ("wake", first.id), ("wake", second.id)]
        assert second.status == "queued"


async def test_a_reserved_worker_gets_the_run_with_its_claim_in_one_commit(settings: Settings, notes: Notes) -> None:
    outcome: asyncio.Future[AcceptedRun | None] = asyncio.get_running_loop().create_future()
    notes.reservation = WorkerReservation(ClaimRun("", "", 1, 1.0), RequestStarted(executor="notes", epoch=1), outcome)
    async with opened(settings, notes) as intake:
        run = await _submit(intake)
        accepted = outcome.result()
        assert accepted is not None and accepted.run.id == run.id
        types = [event.type.removeprefix("runtime.") for event in accepted.thread]
        assert types == ["thread.created", "request.queued", "request.started"]
        assert [call[0] for call in notes.asked] == ["reserve"]


async def test_a_worker_reserved_for_a_refused_run_is_given_back(settings: Settings, notes: Notes) -> None:
    async with opened(settings, notes) as intake:
        await _submit(intake, idempotency_key="once", body_hash="a")
        outcome: asyncio.Future[AcceptedRun | None] = asyncio.get_running_loop().create_future()
        notes.reservation = WorkerReservation(
            ClaimRun("", "", 1, 1.0), RequestStarted(executor="notes", epoch=1), outcome
        )
        repeated = Submission("echo", "hello", idempotency_key="once", body_hash="b")
        assert isinstance(await intake.service.submit(LOCAL, repeated), Rejected)
        assert outcome.result() is None


async def test_a_full_schedule_refuses_before_anything_is_recorded(settings: Settings, notes: Notes) -> None:
    notes.full = Failure("SERVER_BUSY", "no room", True)
    async with opened(settings, notes) as intake:
        refused = await intake.service.submit(LOCAL, Submission("echo", "hello"))
        assert isinstance(refused, Rejected) and refused.failure.code == "SERVER_BUSY"
        assert notes.asked == []


async def test_a_cancel_frees_the_thread_of_a_run_that_no_worker_has(settings: Settings, notes: Notes) -> None:
    async with opened(settings, notes) as intake:
        run = await _submit(intake)
        await intake.commands.inject(LOCAL, run.id, "pause", {})
        await intake.lifecycle.cancel(LOCAL, run.id)
        assert notes.asked[2:] == [("deliver", run.id, "pause"), ("freed", run.thread_id)]

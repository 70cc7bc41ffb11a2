"""An executor whose store refuses writes: it neither spins nor forgets, and goes on soon after the store does."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from app.backends.contract import Context, Result, Resume
from app.core.principal import LOCAL
from app.core.settings import Settings
from app.events.catalog.request import RequestCompleted
from app.events.ports import StorageFull
from app.runtime.intake.submission import Submission
from app.views.run import Run
from app.wiring import store as wiring
from app.wiring.runtime import Holdfast, open_holdfast
from tests.faults.client import end_of
from tests.faults.points import RefusingDatabase
from tests.store_equals_replay import assert_tables_equal_replay

WELL_BEFORE_THE_LEASE_ENDS = 8.0
MAX_ATTEMPTS = 6
"""In a second: a sweep or two and a renewal, not hundreds."""


class StepByStep:
    """Says one word, waits for a signal, says another."""

    kind = "echo"
    resume: Resume = "restart"

    def __init__(self) -> None:
        self.said_one = asyncio.Event()
        self.go_on = asyncio.Event()

    async def run(self, ctx: Context) -> Result:
        await ctx.say("msg_1", "one")
        self.said_one.set()
        await self.go_on.wait()
        await ctx.say("msg_1", "two")
        return "onetwo"


@contextlib.asynccontextmanager
async def _opened(
    settings: Settings, backend: StepByStep, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Holdfast, RefusingDatabase]]:
    database = RefusingDatabase(wiring.open_database(settings))
    monkeypatch.setattr(wiring, "open_database", lambda _settings: database)
    async with open_holdfast(settings, backends={"echo": backend}) as holdfast:
        yield holdfast, database


@pytest.mark.requirement("G16", "G17", "PX-2")
async def test_runs_that_a_full_store_cut_off_neither_spin_nor_wait_for_their_leases_to_end(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = StepByStep()
    one_at_a_time = settings.model_copy(update={"max_concurrent_runs": 1})
    async with _opened(one_at_a_time, backend, monkeypatch) as (holdfast, database):
        running = await holdfast.service.submit(LOCAL, Submission("echo", "hello"))
        waiting = await holdfast.service.submit(LOCAL, Submission("echo", "hello"))
        async with asyncio.timeout(30):
            await backend.said_one.wait()
        database.refuse = StorageFull()
        backend.go_on.set()
        await asyncio.sleep(1.0)  # the span over which attempts are counted
        assert 1 <= database.refused <= MAX_ATTEMPTS
        database.refuse = None
        async with asyncio.timeout(WELL_BEFORE_THE_LEASE_ENDS):
            for run in (running, waiting):
                assert isinstance(run, Run)
                assert await end_of(holdfast.store, run) == RequestCompleted.type
        await assert_tables_equal_replay(holdfast.store)

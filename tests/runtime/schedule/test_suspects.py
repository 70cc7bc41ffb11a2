"""What speaks against a run whose owner died: shown by its last lease and by what it did since."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import pytest

from app.core.settings import Settings
from app.events.catalog import Payload, model, request, tool
from app.events.catalog.thread import ThreadCreated
from app.events.ports import Appended, ClaimRun
from app.events.recorder import Scope
from app.runtime.ports import LastLease
from app.runtime.schedule.queue import RunRef
from app.runtime.schedule.suspects import MAX_DEATHS, Suspects, Suspicion
from app.views.ports import Reader
from app.views.run import Run
from app.wiring.store import open_store

RUN = Run("run_1", "thread_1", status="running", epoch=2, first_seq=1)
LAST = LastLease("executor_1", 2, given_back=False)


class KnownLeases:
    """Answers what the test says."""

    def __init__(self, last: LastLease | None, company: bool) -> None:
        self.last, self.company = last, company

    async def find(self, tenant: str, run_id: str) -> LastLease | None:
        return self.last

    async def had_company(self, owner: str) -> bool:
        return self.company

    async def renew(self, held: Sequence[tuple[str, str, int]], seconds: float) -> set[tuple[str, str]]:
        return set()

    async def release(self, owner: str, held: Sequence[tuple[str, str, int]]) -> None:
        return None


class NothingHappened:
    async def events_of(self, *asked: object) -> list[object]:
        return []


async def judged(last: LastLease | None, *, company: bool = False) -> Suspicion:
    return await Suspects(KnownLeases(last, company), cast(Reader, NothingHappened())).judge("default", RUN)


@pytest.mark.parametrize(
    ("last", "company", "expected"),
    [
        (None, False, (0, 0)),
        (replace(LAST, given_back=True), False, (0, 0)),
        (replace(LAST, epoch=1), False, (0, 0)),
        # In company nobody knows whose fault it was; it takes a second death to be tried alone, where deaths count.
        (LAST, True, (1, 0)),
        (replace(LAST, suspect=1), True, (2, 0)),
        (replace(LAST, suspect=2), True, (2, 1)),
        (replace(LAST, suspect=2, deaths=2), True, (2, 3)),
        # With nothing else at work there is no doubt.
        (LAST, False, (2, 1)),
        # A drain in between neither counts nor clears.
        (replace(LAST, given_back=True, suspect=2, deaths=2), False, (2, 2)),
    ],
)
async def test_a_death_counts_if_the_run_had_the_server_to_itself(
    last: LastLease | None, company: bool, expected: tuple[int, int]
) -> None:
    found = await judged(last, company=company)
    assert (found.suspect, found.deaths) == expected
    assert found.alone is (found.suspect == 2)
    assert (found.failure is None) is (found.deaths < MAX_DEATHS)


@pytest.mark.requirement("G5")
@pytest.mark.parametrize("stepped", [False, True])
async def test_a_completed_step_since_the_claim_clears_a_run(settings: Settings, stepped: bool) -> None:
    """On the real store: claimed, died, claimed as a suspect, perhaps a step, died."""
    async with open_store(settings) as store:
        scope = Scope("default", "thread_1", "run_1")

        async def claim(epoch: int, *more: Payload, **suspicion: int) -> None:
            lease = ClaimRun("run_1", f"executor_{epoch}", epoch, 15.0, **suspicion)  # type: ignore[arg-type]  # counts only
            claimed: Payload = (
                request.RequestStarted(executor=lease.owner, epoch=epoch)
                if epoch == 1
                else request.RequestResumed(executor=lease.owner, epoch=epoch, reason="recovery")
            )
            answer = await store.recorder.record(scope, claimed, *more, conditions=[lease])
            assert isinstance(answer, Appended), answer
            await store.leases.expire_all()

        queued = request.RequestQueued.model_validate({"agent": "a", "input": "x", "busy": "enqueue"})
        created = ThreadCreated.model_validate({"metadata": {}, "labels": {}, "owner": "user"})
        assert isinstance(await store.recorder.record(scope, created, queued), Appended)
        # A step before the newest claim says nothing about what happened since.
        await claim(1, tool.ToolResulted(call_id="c1", tool="t", ok=True, output=1))
        await claim(2, *_steps(stepped), suspect=2, deaths=1)
        run = await store.reader.run("default", "run_1")
        assert run is not None and run.status == "running"
        found = await Suspects(store.leases, store.reader).judge("default", run)
        assert (found.suspect, found.deaths) == ((0, 0) if stepped else (2, 2))
        assert await store.leases.had_company("executor_2") is False


def _steps(stepped: bool) -> list[Payload]:
    failed = model.ModelRetryScheduled(
        message_id="m", model="a", provider="b", attempt=1, delay_ms=1, reason="PROVIDER_ERROR"
    )
    return [failed, tool.ToolResulted(call_id="c2", tool="t", ok=True, output=1)] if stepped else [failed]


def test_suspects_are_at_work_one_after_the_other() -> None:
    suspects = Suspects(KnownLeases(None, False), cast(Reader, NothingHappened()))
    first, second, third = (RunRef("default", f"thread_{n}", f"run_{n}") for n in range(3))
    assert suspects.enter(first) and suspects.enter(first)
    assert not suspects.enter(second) and not suspects.enter(third)
    assert suspects.waits(second) and not suspects.waits(first)
    assert suspects.leave(second) is None, "it was not its turn"
    assert suspects.leave(first) == second
    assert suspects.enter(second) and suspects.leave(second) == third

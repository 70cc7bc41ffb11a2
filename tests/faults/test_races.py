"""Races, each run many times: one winner, one effect, one terminal event. In process, on both databases."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Final

import pytest

from app.core.clock import SystemClock
from app.core.ids import new_id
from app.core.principal import DEFAULT_TENANT, LOCAL, Principal
from app.core.settings import Settings
from app.events.catalog import interrupt, request, tool
from app.runtime.intake.interrupts import NotAnswered
from app.runtime.intake.rejection import Rejected
from app.runtime.intake.submission import Submission
from app.views.interrupt import Interrupt
from app.views.run import Run
from app.wiring.runtime import Holdfast
from tests.databases import create_database
from tests.faults.listening import PAUSES, Listener
from tests.faults.witness import Witness
from tests.postgres import PostgresServer
from tests.runs import opened, submit
from tests.server import secret_file

FULL: Final = 500
"""Of so many races each has to end in every possible way; of a few, on a busy machine, all may go one way."""
AT_ONCE: Final = 50
DUPLICATES: Final = 20
ANN, BOB = Principal("ann"), Principal("bob")
TWO_DAYS: Final = 2 * 86_400_000
DECIDED: Final = frozenset({interrupt.InterruptResolved.type, interrupt.InterruptExpired.type})


races = pytest.mark.parametrize(
    "races",
    [AT_ONCE, pytest.param(FULL, marks=[pytest.mark.faults, pytest.mark.timeout(600)])],
    ids="{}-races".format,
)


class ShiftedClock(SystemClock):
    """The system's clock, some milliseconds ahead."""

    ahead = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead


async def submitted(holdfast: Holdfast, agent: str, text: str) -> str:
    return (await submit(holdfast, agent, text)).id


async def everybody(*contenders: Awaitable[object]) -> list[object]:
    """All of them, each a random number of the loop's turns late: what meets differs from race to race."""

    async def late(contender: Awaitable[object]) -> object:
        for _ in range(random.randrange(12)):
            await asyncio.sleep(0)
        return await contender

    return await asyncio.gather(*map(late, contenders))


@pytest.mark.requirement("G7", "G8")
@races
async def test_cancel_against_complete_ends_each_run_once(settings: Settings, witness: Witness, races: int) -> None:
    async with opened(settings, witness.workspace) as holdfast:
        listener = Listener(holdfast.store.hub)

        accepted: set[str] = set()

        async def race(number: int) -> str:
            run_id = await submitted(holdfast, "echo", "a few words")
            # From at once to about when it is done.
            await asyncio.sleep(number % AT_ONCE * 0.004)
            answer = await holdfast.lifecycle.cancel(LOCAL, run_id)
            assert not isinstance(answer, Rejected)
            if answer.cancel_requested_at is not None:
                accepted.add(run_id)
            return run_id

        ends: Counter[str] = Counter()
        for start in range(0, races, AT_ONCE):
            runs = await asyncio.gather(*(race(number) for number in range(start, start + AT_ONCE)))
            await listener.until(runs)
            listener.assert_one_end_each(runs)
            ends.update(listener.types(run_id)[-1] for run_id in runs)
            cancelled = {run_id for run_id in runs if listener.types(run_id)[-1] == request.RequestCancelled.type}
            assert cancelled == accepted & set(runs), "an accepted cancel is the end, and none ends without one"
        assert ends.total() == races
        both = {request.RequestCompleted.type, request.RequestCancelled.type}
        assert ends.keys() <= both and (races < FULL or ends.keys() == both), f"not a race: {ends}"


async def _waiting(holdfast: Holdfast, listener: Listener) -> list[str]:
    runs = await asyncio.gather(*(submitted(holdfast, "worker", "ask") for _ in range(AT_ONCE)))
    await listener.until(runs, PAUSES)
    return runs


@pytest.mark.requirement("G4", "G7", "G9", "G18")
@races
async def test_approve_against_deny_against_expiry_has_one_winner_and_acts_only_if_approved(
    settings: Settings, witness: Witness, races: int
) -> None:
    clock = ShiftedClock()
    async with opened(settings, witness.workspace, clock=clock) as holdfast:
        listener, won = Listener(holdfast.store.hub), Counter[str]()

        async def expire() -> None:
            clock.ahead = TWO_DAYS
            holdfast.executor.sweep_now()

        async def race(number: int, run_id: str) -> list[object]:
            # The sweep takes the oldest first, these the newest: they meet somewhere on the way.
            await asyncio.sleep((AT_ONCE - number) * 0.004)
            asked = listener.interrupt(run_id)
            return await everybody(
                holdfast.interrupts.answer(ANN, asked, {"decision": "approve"}),
                holdfast.interrupts.answer(BOB, asked, {"decision": "deny"}),
            )

        for _ in range(0, races, AT_ONCE):
            runs = await _waiting(holdfast, listener)
            answers, _ = await asyncio.gather(
                asyncio.gather(*(race(number, run_id) for number, run_id in enumerate(runs))), everybody(expire())
            )
            await listener.until(runs)
            clock.ahead = 0
            for run_id, given in zip(runs, answers, strict=True):
                won[_winner(listener, run_id, given)] += 1
            listener.assert_one_end_each(runs)
        assert won.total() == races and (races < FULL or len(won) == 3), f"not a race: {won}"
        _assert_acted_as_recorded(listener, witness)


def _winner(listener: Listener, run_id: str, given: list[object]) -> str:
    """Who decided, and that nobody else believes to have."""
    (decided,) = [event for event in listener.events[run_id] if event.type in DECIDED]
    winner = decided.payload.get("answeredBy")
    taken = [answer.answered_by for answer in given if isinstance(answer, Interrupt)]
    assert taken == ([] if winner is None else [winner])
    refused = [answer for answer in given if isinstance(answer, NotAnswered)]
    assert {answer.failure.code for answer in refused} == {"INTERRUPT_NOT_OPEN"}
    assert {answer.winner for answer in refused} == {winner}
    allowed = decided.payload.get("answer", {}).get("decision") == "approve"
    assert listener.types(run_id).count(tool.ToolInvoked.type) == int(allowed)
    return winner or "nobody"


def _assert_acted_as_recorded(listener: Listener, witness: Witness) -> None:
    """The tool was called once for each intent in the log, and never else."""
    acted = Counter(executed.run_id for executed in witness.executions())
    recorded = Counter({run_id: listener.types(run_id).count(tool.ToolInvoked.type) for run_id in listener.events})
    assert acted == +recorded


@pytest.mark.requirement("G4", "G7", "G9")
@races
async def test_of_two_decisions_at_once_one_counts_and_the_tool_acts_once(
    settings: Settings, witness: Witness, races: int
) -> None:
    async with opened(settings, witness.workspace) as holdfast:
        listener, won = Listener(holdfast.store.hub), Counter[str]()

        async def race(run_id: str) -> list[object]:
            asked, yes = listener.interrupt(run_id), {"decision": "approve"}
            return await everybody(*(holdfast.interrupts.answer(who, asked, yes) for who in (ANN, BOB)))

        for _ in range(0, races, AT_ONCE):
            runs = await _waiting(holdfast, listener)
            answers = await asyncio.gather(*map(race, runs))
            await listener.until(runs)
            for run_id, given in zip(runs, answers, strict=True):
                won[_winner(listener, run_id, given)] += 1
            listener.assert_one_end_each(runs)
        assert won.total() == races and (races < FULL or len(won) == 2), f"not a race: {won}"
        _assert_acted_as_recorded(listener, witness)


@pytest.mark.requirement("G6")
@races
async def test_the_same_key_twenty_times_at_once_is_one_run(settings: Settings, witness: Witness, races: int) -> None:
    async with opened(settings, witness.workspace) as holdfast:
        await _assert_one_run_a_key([holdfast], races)


@pytest.mark.requirement("G6", "G10")
@races
async def test_the_same_key_at_two_replicas_at_once_is_one_run(
    postgres_server: PostgresServer, witness: Witness, tmp_path: Path, races: int
) -> None:
    name = f"keys_at_replicas_{races}"
    await create_database(postgres_server, name)
    shared = Settings(data_dir=tmp_path, database_url=postgres_server.url(name), secret_file=secret_file(tmp_path))
    async with opened(shared, witness.workspace) as one, opened(shared, witness.workspace) as other:
        await _assert_one_run_a_key([one, other], races)


async def _assert_one_run_a_key(replicas: Sequence[Holdfast], races: int) -> None:
    async def race() -> str:
        wanted = Submission("echo", "hello", idempotency_key=new_id("key"), body_hash="h")
        given = await everybody(*(replicas[n % len(replicas)].service.submit(LOCAL, wanted) for n in range(DUPLICATES)))
        assert all(isinstance(answer, Run) for answer in given), given
        (run_id,) = {answer.id for answer in given if isinstance(answer, Run)}
        return run_id

    runs: set[str] = set()
    for _ in range(0, races, 10):
        runs |= set(await asyncio.gather(*(race() for _ in range(10))))
    assert len(runs) == races
    stored: set[str] = set()
    before: str | None = None
    while page := await replicas[0].store.reader.runs(DEFAULT_TENANT, before=before, limit=500):
        stored, before = stored | {run.id for run in page}, page[-1].id
    assert stored == runs, "a key has more than one run"

"""Three servers on one Postgres: whatever befalls them, what was acknowledged happens once and is seen exactly."""

import asyncio
import contextlib
import os
import random
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.databases import create_database
from tests.faults.replicas.checker import Verdict, all_ended, check
from tests.faults.replicas.clients import TeamClient
from tests.faults.replicas.fleet import Fleet
from tests.faults.replicas.standby import Standby
from tests.faults.replicas.tally import Tally
from tests.faults.witness import Witness
from tests.postgres import PostgresServer, running_postgres

TEXTS = ["hello", "keep now", "keep slowly", "read", "take your time"]
SETTLED_SECONDS = 40.0
"""Leases of 2 s, a poll of 5 s, suspects that are tried one at a time, and a busy machine."""

SHARE = float(os.environ.get("FAULTS_SHARE", "1"))
"""Of the 1,000 faults and the 5 fail-overs, for a shorter run: `FAULTS_SHARE=0.1 make faults`."""
FULL = {bus: max(4, round(count * SHARE)) for bus, count in (("postgres", 400), ("nats", 400), ("local", 200))}


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """With real syncs: it is killed."""
    with running_postgres() as server:
        yield server


@pytest.mark.requirement("G1", "G3", "G5", "G7", "G10", "G11", "G17", "PX-2", "PX-4")
@pytest.mark.parametrize(
    ("bus", "faults"),
    [
        ("postgres", 2),
        ("nats", 3),
        *(
            pytest.param(bus, count, marks=[pytest.mark.faults, pytest.mark.timeout(7200)])
            for bus, count in FULL.items()
        ),
    ],
)
async def test_three_servers_under_load_and_faults(
    own_postgres: PostgresServer, witness: Witness, tmp_path: Path, tally: Tally, bus: str, faults: int
) -> None:
    chance = random.Random(f"{bus} {faults}")
    await create_database(own_postgres, "fleet")
    async with Fleet(tmp_path, witness.workspace, own_postgres, "fleet", bus).running() as fleet:
        async with _load(fleet, own_postgres) as clients:
            tally.begin(fleet, clients, faults)
            for _ in range(faults):
                await asyncio.sleep(chance.uniform(0.1, 0.6))  # the random moment is the fault itself
                tally.before_fault()
                await fleet.fault(chance)
                tally.after_fault()
            await fleet.all_up()
            await asyncio.sleep(0.5)
        verdict = await _judge(fleet, clients, witness, own_postgres, tally)
        assert verdict.acknowledged > faults
        tally.assert_work_was_hit()


@pytest.mark.requirement("G1", "PX-4")
@pytest.mark.parametrize(
    "times",
    [pytest.param(max(1, round(5 * SHARE)), marks=[pytest.mark.faults, pytest.mark.timeout(1800)])],
    ids="{}-times".format,
)
async def test_a_standby_that_takes_over_has_everything_that_was_acknowledged(
    witness: Witness, tmp_path: Path, tally: Tally, times: int
) -> None:
    """The primary waits for the standby (`synchronous_standby_names`) and is killed under load."""
    for n in range(times):
        with running_postgres() as primary, tempfile.TemporaryDirectory(prefix="holdfast-standby-") as folder:
            standby = Standby(Path(folder), primary)
            await create_database(primary, "fleet")
            await asyncio.to_thread(standby.start)
            try:
                await standby.follow()
                place = tmp_path / str(n)
                place.mkdir()
                async with Fleet(place, witness.workspace, primary, "fleet", "postgres").running() as fleet:
                    async with _load(fleet, standby) as clients:
                        tally.begin(fleet, clients, 1)
                        await asyncio.sleep(2.0 + n / 10)
                        await asyncio.to_thread(primary.stop, "KILL")
                        await standby.promote()
                        tally.before_fault()
                        fleet.move_to(standby)
                        tally.after_fault()
                        await asyncio.sleep(3.0)
                    await _judge(fleet, clients, witness, standby, tally)
            finally:
                standby.stop("QUIT")


@contextlib.asynccontextmanager
async def _load(fleet: Fleet, postgres: PostgresServer) -> AsyncIterator[list[TeamClient]]:
    """Clients at work for the length of a block, and until what they asked for has ended."""
    clients = [TeamClient(fleet.urls, random.Random(f"{fleet.bus} {n}")) for n in range(4)]
    stop = asyncio.Event()
    working = [asyncio.create_task(client.work(TEXTS, stop)) for client in clients]
    try:
        yield clients
        stop.set()
        with contextlib.suppress(TimeoutError):  # the checker says what is stuck
            async with asyncio.timeout(SETTLED_SECONDS):
                await asyncio.gather(*working)
                await all_ended(postgres.url("fleet"))
    finally:
        for task in working:
            task.cancel()
        await asyncio.gather(*working, return_exceptions=True)


async def _judge(
    fleet: Fleet, clients: list[TeamClient], witness: Witness, postgres: PostgresServer, tally: Tally
) -> Verdict:
    wishes = [wish for client in clients for wish in client.wishes]
    runs = {wish.run_id for wish in wishes}
    acted = [(one.run_id, one.call_id, one.key) for one in witness.executions() if one.run_id in runs]
    verdict = await check(postgres.url("fleet"), wishes, acted)
    tally.keep(verdict)
    verdict.assert_sound()
    fleet.kept.assert_sound()
    return verdict

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
from tests.faults.conftest import Report
from tests.faults.replicas.checker import Verdict, all_ended, check
from tests.faults.replicas.clients import TeamClient
from tests.faults.replicas.fleet import Fleet
from tests.faults.replicas.standby import Standby
from tests.faults.witness import Witness
from tests.postgres import PostgresServer, running_postgres

TEXTS = ["hello", "keep now", "keep slowly", "read", "take your time"]
SETTLED_SECONDS = 40.0
"""Leases of 2 s, a poll of 5 s, suspects that are tried one at a time, and a busy machine."""

SHARE = float(os.environ.get("FAULTS_SHARE", "1"))
"""Of the 1,000 faults, for a shorter run: `FAULTS_SHARE=0.1 make faults`."""
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
    own_postgres: PostgresServer, witness: Witness, tmp_path: Path, report: Report, bus: str, faults: int
) -> None:
    chance = random.Random(f"{bus} {faults}")
    await create_database(own_postgres, "fleet")
    async with Fleet(tmp_path, witness.workspace, own_postgres, "fleet", bus).running() as fleet:
        async with _load(fleet, own_postgres) as clients:
            for _ in range(faults):
                await asyncio.sleep(chance.uniform(0.1, 0.8))  # the random moment is the fault itself
                await fleet.fault(chance)
            await asyncio.sleep(0.5)
        verdict = await _judge(fleet, clients, witness, own_postgres, report)
        assert verdict.acknowledged > faults


@pytest.mark.requirement("G1", "PX-4")
@pytest.mark.parametrize(
    "times", [pytest.param(5, marks=[pytest.mark.faults, pytest.mark.timeout(1800)])], ids="{}-times".format
)
async def test_a_standby_that_takes_over_has_everything_that_was_acknowledged(
    witness: Witness, tmp_path: Path, report: Report, times: int
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
                        await asyncio.sleep(2.0 + n / 10)
                        await asyncio.to_thread(primary.stop, "KILL")
                        await standby.promote()
                        fleet.move_to(standby)
                        await asyncio.sleep(3.0)
                    await _judge(fleet, clients, witness, standby, report)
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
    fleet: Fleet, clients: list[TeamClient], witness: Witness, postgres: PostgresServer, report: Report
) -> Verdict:
    wishes = [wish for client in clients for wish in client.wishes]
    runs = {wish.run_id for wish in wishes}
    acted = [(one.run_id, one.call_id, one.key) for one in witness.executions() if one.run_id in runs]
    verdict = await check(postgres.url("fleet"), wishes, acted)
    said = ", ".join(f"{count} {name}" for name, count in sorted(fleet.faults.items()))
    report(f"{verdict}; {sum(client.retries for client in clients)} retries; {said}")
    verdict.assert_sound()
    return verdict

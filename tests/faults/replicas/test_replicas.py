"""Three servers on one Postgres: whatever befalls them, what was acknowledged happens once and is seen exactly."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import create_database
from tests.faults.conftest import Report
from tests.faults.replicas.checker import all_ended, check
from tests.faults.replicas.clients import TeamClient
from tests.faults.replicas.fleet import Fleet
from tests.faults.witness import Witness
from tests.postgres import PostgresServer, running_postgres

TEXTS = ["hello", "keep now", "keep slowly", "read", "take your time"]
SETTLED_SECONDS = 40.0
"""Leases of 2 s, a poll of 5 s, suspects that are tried one at a time, and a busy machine."""

FULL = {"postgres": 400, "nats": 400, "local": 200}


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """With real syncs: it is killed."""
    with running_postgres() as server:
        yield server


@pytest.mark.requirement("G1", "G5", "G10", "G11", "G17", "PX-4", "PX-7", "PX-8")
@pytest.mark.parametrize(
    ("bus", "faults"),
    [
        ("postgres", 3),
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
        clients = [TeamClient(fleet.urls, random.Random(f"{bus} {n}")) for n in range(4)]
        stop = asyncio.Event()
        working = [asyncio.create_task(client.work(TEXTS, stop)) for client in clients]
        try:
            for _ in range(faults):
                await asyncio.sleep(chance.uniform(0.1, 0.8))  # the random moment is the fault itself
                await fleet.fault(chance)
            await asyncio.sleep(0.5)
            stop.set()
            async with asyncio.timeout(SETTLED_SECONDS):
                await asyncio.gather(*working)
                await all_ended(own_postgres.url("fleet"))
        except TimeoutError:
            pass  # the checker says what is stuck
        finally:
            for task in working:
                task.cancel()
            await asyncio.gather(*working, return_exceptions=True)
        wishes = [wish for client in clients for wish in client.wishes]
        acted = [(one.run_id, one.call_id, one.key) for one in witness.executions()]
        verdict = await check(own_postgres.url("fleet"), wishes, acted)
        said = ", ".join(f"{count} {name}" for name, count in sorted(fleet.faults.items()))
        report(f"{verdict}; {sum(client.retries for client in clients)} retries; {said}")
        verdict.assert_sound()
        assert verdict.acknowledged > faults

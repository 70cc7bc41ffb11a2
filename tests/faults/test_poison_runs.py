"""Runs that kill the server each time they are resumed: tried alone, then failed; what is healthy goes on."""

import asyncio
import contextlib
from typing import Any, Final

import asyncpg
import httpx2
import pytest

from app.core.principal import DEFAULT_TENANT
from app.core.settings import Settings
from app.wiring.store import open_store
from tests.faults.doomed import Server, server
from tests.faults.persistent import PersistentClient, Wanted
from tests.faults.witness import Witness
from tests.waiting import until

POISON: Final = "read, and always kill"
ENDS_WITHIN: Final = 60.0


async def run_out_leases(settings: Settings) -> None:
    """On Postgres a next server waits until the leases of a dead one have run out; here they have."""
    if settings.database_url is not None:
        database = await asyncpg.connect(settings.database_url)
        await database.execute("UPDATE leases SET until = 1 WHERE until > 0")
        await database.close()


async def _see_through(alive: Server, client: PersistentClient) -> bool:
    """False if the server died of it."""
    async with asyncio.timeout(ENDS_WITHIN):
        with contextlib.suppress(httpx2.HTTPError):
            await client.see_everything_through(alive.url)
            return True
        await alive.died()
        return False


async def _lives(settings: Settings, witness: Witness, client: PersistentClient, at_most: int) -> int:
    """How many servers it took until everything that the client wants had ended."""
    for life in range(1, at_most + 1):
        async with server(settings, witness.workspace) as alive:
            if await _see_through(alive, client):
                return life
        await run_out_leases(settings)
    raise AssertionError(f"{at_most} servers died of it: {[(one.text, one.end) for one in client.wanted]}")


async def _error(settings: Settings, witness: Witness, wanted: Wanted) -> dict[str, Any]:
    async with open_store(settings) as store:
        run = await store.reader.run(DEFAULT_TENANT, wanted.run_id)
    assert run is not None and run.error is not None
    return run.error


@pytest.mark.requirement("G5", "S25")
async def test_a_run_that_kills_the_server_whenever_it_is_resumed_fails_after_three_deaths(
    settings: Settings, witness: Witness
) -> None:
    client = PersistentClient()
    poison = client.want(POISON)
    # The first death came after a completed step, the model's call, so it does not count. Three do.
    assert await _lives(settings, witness, client, 5) == 5
    assert poison.end == "failed"
    assert (await _error(settings, witness, poison))["code"] == "RUN_KILLED_SERVER"
    assert witness.of(poison.run_id) == 4
    # A rerun tries it again.
    async with server(settings, witness.workspace) as alive, httpx2.AsyncClient(base_url=alive.url) as http:
        with contextlib.suppress(httpx2.HTTPError):
            await http.post(f"/api/runs/{poison.run_id}/rerun", content=b"{}")
        await alive.died()


@pytest.mark.requirement("G5", "S25")
async def test_healthy_runs_that_were_at_work_with_a_poisonous_one_end_as_completed(
    settings: Settings, witness: Witness
) -> None:
    client = PersistentClient()
    poison = [client.want(POISON) for _ in range(2)]
    healthy = [client.want(f"take your time {number}") for number in range(6)]
    # All of them are accepted before the first death: how many there are must not depend on who comes late.
    witness.shut_gate()
    async with server(settings, witness.workspace) as alive:
        await client.submit_everything(alive.url)
        # Both poisonous runs are in their tool: one that is not yet completes a step in its next life, and that death
        # would not count.
        await until(lambda: len(witness.executions()) == len(poison))
        witness.open_gate()
        assert not await _see_through(alive, client)
    await run_out_leases(settings)
    # Each poisonous run dies at most twice in company and three times alone, and then the last server lives.
    await _lives(settings, witness, client, 11)
    assert {wanted.end for wanted in poison} == {"failed"}
    assert {wanted.end for wanted in healthy} == {"completed"}

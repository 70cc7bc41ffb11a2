"""Runs of several servers: fair between tenants over all of them, taken over in time, commanded without polling."""

import asyncio

import asyncpg
import httpx2
import pytest

from app.bus import replicas
from app.bus.kinds.local import LocalBus
from app.bus.relay import Relay
from app.bus.replicas import Replicas
from app.core.clock import CorrectedClock, SystemClock
from app.core.principal import Principal
from app.core.settings import Settings
from app.events.hub import Hub
from app.events.ports import StorageDown
from app.runtime.intake.submission import Submission
from app.runtime.schedule.run_leases import RunLeases
from app.store.thread_positions import ThreadPositionReader
from app.views.run import Run
from tests.bus.conftest import team
from tests.bus.pace import Paced
from tests.clients import reached, submit
from tests.server import InProcessServer
from tests.waiting import until

LOUD, QUIET = Principal("loud", tenant="loud"), Principal("quiet", tenant="quiet")


async def _submitted(server: InProcessServer, who: Principal, text: str) -> str:
    run = await server.holdfast.service.submit(who, Submission("echo", text))
    assert isinstance(run, Run), run
    return run.id


@pytest.mark.requirement("PX-4")
async def test_a_tenant_with_few_runs_does_not_wait_for_all_of_another_s_at_any_server(
    on_bus: Settings, pace: Paced
) -> None:
    settings = on_bus.model_copy(update={"max_concurrent_runs": 1, "lease_seconds": 120})
    async with team(settings, 2, pace) as (first, second):
        for _ in range(14):
            await _submitted(first, LOUD, "1")
        async with asyncio.timeout(30):
            order = [await pace.entered.get(), await pace.entered.get()]  # one at each server
        quiet = {await _submitted(first, QUIET, "1"), await _submitted(first, QUIET, "1")}
        await until(lambda: first.holdfast.executor.running == second.holdfast.executor.running == 1)
        async with asyncio.timeout(30):
            while not quiet <= set(order):
                pace.step()
                order.append(await pace.entered.get())
        # Each server may have had one of the loud tenant's next in its hand, and then takes turns.
        assert len(order) <= 2 + 2 + 4, order


@pytest.mark.parametrize("within", [1, 2, 15, 600])
def test_leases_end_so_early_that_somebody_looks_within_the_promised_time(within: float) -> None:
    leases = RunLeases(None, within)  # type: ignore[arg-type]  # nothing is asked of the store
    assert leases._seconds + leases.sweep_seconds <= within
    assert 3 * leases.renew_seconds <= leases._seconds + 1e-9


@pytest.mark.requirement("G5", "PX-4")
async def test_a_dead_server_s_run_is_taken_over_after_its_lease_and_not_before(
    on_bus: Settings, pace: Paced, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = on_bus.model_copy(update={"lease_seconds": 2})
    assert settings.database_url is not None
    async with team(settings, 2, pace) as (first, second), httpx2.AsyncClient(base_url=second.url) as other:
        run = await submit(other, "echo", "1")
        await pace.entered.get()
        dying = first if first.holdfast.executor.running else second

        async def unreachable(*_: object) -> set[tuple[str, str]]:
            raise StorageDown

        monkeypatch.setattr(dying.holdfast.store.leases, "renew", unreachable)
        connection = await asyncpg.connect(settings.database_url)
        lease = "SELECT until, epoch FROM leases WHERE run_id = $1"
        until_ms, epoch = await connection.fetchrow(lease, run["id"]) or (0, 0)
        async with asyncio.timeout(30):
            assert await pace.entered.get() == run["id"]
        now_ms, next_epoch = await connection.fetchrow(lease, run["id"]) or (0, 0)
        # By the database's clock: when the second lease was made, from when it ends.
        leases = second.holdfast.executor._leases
        claimed_ms = now_ms - round(leases._seconds * 1000)
        await connection.close()
        assert next_epoch == epoch + 1
        assert claimed_ms >= until_ms, "nobody takes a run whose owner may be alive"
        # Of a quiet machine it is a sweep, a quarter of a second; a renewal may have been under way.
        assert claimed_ms <= until_ms + 10_000
        pace.step(2)
        assert (await reached(other, run["id"]))["status"] == "completed"


@pytest.mark.requirement("PX-4")
@pytest.mark.usefixtures("no_polls")
async def test_commands_reach_a_run_of_another_server_by_one_message_and_no_poll(joined: Settings, pace: Paced) -> None:
    settings = joined.model_copy(update={"lease_seconds": 600})
    async with team(settings, 2, pace) as (first, second):
        here, there = first.holdfast.replicas, second.holdfast.replicas
        assert here is not None and there is not None
        async with httpx2.AsyncClient(base_url=first.url) as mine, httpx2.AsyncClient(base_url=second.url) as other:
            run = await submit(mine, "echo", "3")
            await pace.entered.get()
            await until(lambda: not here.lost and here._doubt_until < asyncio.get_running_loop().time())
            (held,) = first.holdfast.executor._held.values()
            polls = here.polls
            bodies = [
                {"command": "steer", "arguments": {"message": "faster"}},
                {"command": "pause", "arguments": {}},
            ]
            for number, body in enumerate(bodies, 1):
                answer = await other.post(f"/api/runs/{run['id']}/commands", json=body)
                assert answer.status_code in (200, 202), answer.text
                await until(lambda number=number: len(held.control.commands) >= number)  # type: ignore[misc]
            await other.post(f"/api/runs/{run['id']}/cancel")
            assert (await reached(mine, run["id"]))["status"] == "cancelled"
            assert here.polls == polls and there.unanswered == 0


async def test_without_a_bus_nobody_waits_five_seconds_for_a_poll(on_bus: Settings) -> None:
    """The beats may come at any moment, and a little late."""
    hub = Hub()
    positions = ThreadPositionReader(None)  # type: ignore[arg-type]  # nothing is asked of the store
    one = Replicas(LocalBus(), "local", hub, Relay(hub, None), positions, CorrectedClock(SystemClock()))  # type: ignore[arg-type]
    assert one.lost
    longest = 0.0
    for late in (0.0, 0.01, 0.2, 0.45):
        now = one._polled_at = 1000.0
        for _ in range(200):
            now += replicas.BEAT_SECONDS + late
            if one._is_poll_due(now):
                longest = max(longest, now - one._polled_at)
                one._polled_at = now
    assert 0 < longest < 5

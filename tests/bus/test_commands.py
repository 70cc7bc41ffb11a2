"""What a client asks of one server acts on the run that another one works on, at once."""

import asyncio

import httpx2
import pytest

from app.bus import replicas
from app.core.settings import Settings
from tests.bus.conftest import team
from tests.bus.pace import Paced
from tests.clients import reached, submit
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("no_polls")
LEASE_SECONDS = 3600
"""Nobody finds by renewing a lease what the bus should have said. How soon it says it: bench/replicas.py."""


@pytest.mark.requirement("PX-4")
async def test_a_cancel_at_another_server_ends_the_run(joined: Settings, pace: Paced) -> None:
    settings = joined.model_copy(update={"lease_seconds": LEASE_SECONDS})
    async with team(settings, 2, pace) as (first, second):
        async with httpx2.AsyncClient(base_url=first.url) as mine, httpx2.AsyncClient(base_url=second.url) as other:
            run = await submit(mine, "echo", "5")
            await pace.entered.get()
            await other.post(f"/api/runs/{run['id']}/cancel")
            assert (await reached(other, run["id"]))["status"] == "cancelled"


async def test_a_pause_and_its_resume_reach_a_run_of_another_server(on_bus: Settings, pace: Paced) -> None:
    settings = on_bus.model_copy(update={"lease_seconds": LEASE_SECONDS})
    async with team(settings, 2, pace) as (first, second):
        async with httpx2.AsyncClient(base_url=first.url) as mine, httpx2.AsyncClient(base_url=second.url) as other:
            run = await submit(mine, "echo", "2")
            await pace.entered.get()
            answer = await other.post(f"/api/runs/{run['id']}/commands", json={"command": "pause", "arguments": {}})
            assert answer.status_code in (200, 202), answer.text
            held = first.holdfast.executor._held
            await until(lambda: any(one.control.commands for one in held.values()))
            pace.step(2)
            waiting = await reached(mine, run["id"], "waiting", "completed")
            assert waiting["status"] == "waiting"
            await other.post(f"/api/runs/{run['id']}/commands", json={"command": "resume", "arguments": {}})
            pace.step(2)
            assert (await reached(mine, run["id"]))["status"] == "completed"


@pytest.mark.requirement("PX-4")
async def test_a_run_takes_the_place_of_one_at_another_server(on_bus: Settings, pace: Paced) -> None:
    settings = on_bus.model_copy(update={"lease_seconds": LEASE_SECONDS})
    async with team(settings, 2, pace) as (first, second):
        async with httpx2.AsyncClient(base_url=first.url) as mine, httpx2.AsyncClient(base_url=second.url) as other:
            run = await submit(mine, "echo", "5")
            await pace.entered.get()
            following = await submit(other, "echo", "0", threadId=run["threadId"], busy="interrupt")
            assert (await reached(other, following["id"]))["status"] == "completed"
            assert (await reached(mine, run["id"]))["status"] == "cancelled"


async def test_the_next_run_of_a_thread_begins_when_another_server_ends_the_one_before(
    on_bus: Settings, pace: Paced
) -> None:
    settings = on_bus.model_copy(update={"lease_seconds": LEASE_SECONDS})
    async with team(settings, 2, pace) as (first, second):
        async with httpx2.AsyncClient(base_url=first.url) as mine, httpx2.AsyncClient(base_url=second.url) as other:
            run = await submit(mine, "echo", "1")
            await pace.entered.get()
            following = await submit(other, "echo", "0", threadId=run["threadId"])
            await asyncio.sleep(0.1)  # until it has found that the thread is busy
            pace.step()
            assert (await reached(other, following["id"]))["status"] == "completed"


@pytest.mark.requirement("G11", "PX-4")
async def test_without_a_bus_a_cancel_is_found_by_polling(
    shared: Settings, pace: Paced, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas, "POLL_SECONDS", 0.3)
    monkeypatch.setattr(replicas, "BEAT_SECONDS", 0.1)
    settings = shared.model_copy(update={"bus": "local"})
    async with team(settings, 2, pace) as (first, second):
        async with httpx2.AsyncClient(base_url=first.url) as mine, httpx2.AsyncClient(base_url=second.url) as other:
            run = await submit(mine, "echo", "5")
            await pace.entered.get()
            await other.post(f"/api/runs/{run['id']}/cancel")
            assert (await reached(other, run["id"]))["status"] == "cancelled"


@pytest.mark.requirement("PX-4")
async def test_a_server_with_room_takes_runs_that_wait_at_a_full_one(on_bus: Settings, pace: Paced) -> None:
    settings = on_bus.model_copy(update={"max_concurrent_runs": 1, "lease_seconds": LEASE_SECONDS})
    async with team(settings, 2, pace) as (first, second), httpx2.AsyncClient(base_url=first.url) as mine:
        runs = [await submit(mine, "echo", "1") for _ in range(2)]
        async with asyncio.timeout(30):
            entered = {await pace.entered.get(), await pace.entered.get()}
        assert entered == {run["id"] for run in runs}
        assert second.holdfast.executor.running == 1
        pace.step(2)
        for run in runs:
            assert (await reached(mine, run["id"]))["status"] == "completed"


@pytest.mark.requirement("G15", "PX-4")
async def test_a_server_that_stops_hands_its_runs_on_at_once(on_bus: Settings, pace: Paced) -> None:
    settings = on_bus.model_copy(update={"lease_seconds": LEASE_SECONDS})
    async with team(settings, 2, pace) as (first, second), httpx2.AsyncClient(base_url=second.url) as other:
        async with httpx2.AsyncClient(base_url=first.url) as mine:
            run = await submit(mine, "echo", "2")
            await pace.entered.get()
            await first.holdfast.executor.drain(0)
            async with asyncio.timeout(30):
                assert await pace.entered.get() == run["id"]
            assert second.holdfast.executor.running == 1
            pace.step(2)
            assert (await reached(other, run["id"]))["status"] == "completed"

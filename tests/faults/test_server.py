"""The whole server as a process: killed, it loses no accepted run; asked to stop, it stops cleanly."""

import asyncio
import contextlib
import signal

import asyncpg
import httpx2
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from app.core.principal import DEFAULT_TENANT
from app.core.settings import Settings
from app.events.catalog.request import TERMINAL, RequestCompleted
from app.wiring.store import Store, open_store
from tests.faults.audit import audit
from tests.faults.client import Client, ends
from tests.faults.conftest import Count
from tests.faults.processes import serving

ENDS_WITHIN = 20.0
"""Seconds: the lease of the dead process (15) and 5 more."""
CLIENTS = 4
LONG = "word " * 150
"""One commit a word: such a run is under way for a while."""


@pytest.mark.requirement("G1", "G5", "G7", "PX-1", "PX-2")
@pytest.mark.parametrize(
    "kills", [1, pytest.param(5, marks=[pytest.mark.faults, pytest.mark.timeout(600)])], ids="{}-kills".format
)
async def test_a_killed_server_ends_every_run_it_accepted(settings: Settings, kills: int, count: Count) -> None:
    accepted: dict[str, str] = {}
    for _ in range(kills):
        async with serving(settings) as (server, url):
            client = Client(url)
            async with asyncio.TaskGroup() as tasks:
                for number in range(CLIENTS):
                    tasks.create_task(client.submit_until_it_dies(LONG if number % 2 else f"short {number}"))
                # Some have ended by now, some are under way, some wait: the kill meets all of them.
                async with asyncio.timeout(30):
                    await client.several.wait()
                    await ends(url, list(client.accepted.values())[:1])
                await server.kill()
        accepted |= client.accepted
        fresh = list(client.accepted.values())
        if kills == 1 and settings.is_postgres:
            await _age_leases(settings)
        async with serving(settings) as (server, url):
            async with asyncio.timeout(ENDS_WITHIN):
                frames = await ends(url, fresh)
            server.signal(signal.SIGTERM)
            assert await server.end() == 0, server.said
        for received in frames.values():
            assert [frame["seq"] for frame in received] == list(range(1, len(received) + 1))
            assert [frame["type"] for frame in received if frame["type"] in TERMINAL] == [RequestCompleted.type]
    async with open_store(settings) as store:
        await _assert_each_completed_once(store, accepted)
        figures = await audit(store, [])
    figures.trials, figures.acknowledged = kills, len(accepted)
    count(figures)


async def _age_leases(settings: Settings) -> None:
    """Spares the quick run most of the wait for the dead owner's leases; the full counts wait for them."""
    assert settings.database_url is not None
    database = await asyncpg.connect(settings.database_url)
    await database.execute("UPDATE leases SET until = until - 12000 WHERE until > 0")
    await database.close()


async def _assert_each_completed_once(store: Store, accepted: dict[str, str]) -> None:
    assert accepted
    for run_id in accepted:
        run = await store.reader.run(DEFAULT_TENANT, run_id)
        assert run is not None and run.status == "completed", run_id
        events = await store.reader.run_events(DEFAULT_TENANT, run_id, 0, 10_000)
        assert [event.type for event in events if event.type in TERMINAL] == [RequestCompleted.type]
        assert events[-1].type == RequestCompleted.type


@pytest.mark.requirement("G5", "G15", "PX-2")
async def test_a_terminated_server_says_so_and_loses_no_run(settings: Settings, count: Count) -> None:
    async with serving(settings) as (server, url), httpx2.AsyncClient(base_url=url, timeout=10) as http:
        client = Client(url)
        assert (await http.get("/readyz")).status_code == 200
        async with connect(url.replace("http", "ws", 1) + "/api/stream") as socket:
            await client.submit(LONG * 2)
            server.signal(signal.SIGTERM)
            turned_away = await _until_not_ready(http)
            async with asyncio.timeout(30):
                await _until_closed(socket)
            assert socket.close_code == 1012
        assert await server.end() == 0, server.said
    assert turned_away
    async with serving(settings) as (server, url):
        async with asyncio.timeout(ENDS_WITHIN):
            await ends(url, list(client.accepted.values()))
        server.signal(signal.SIGTERM)
        assert await server.end() == 0, server.said
    async with open_store(settings) as store:
        await _assert_each_completed_once(store, client.accepted)
        count(await audit(store, []))


async def _until_closed(socket: ClientConnection) -> None:
    with contextlib.suppress(ConnectionClosed):
        while True:
            await socket.recv()


async def _until_not_ready(http: httpx2.AsyncClient) -> bool:
    async with asyncio.timeout(30):
        while True:
            try:
                answer = await http.get("/readyz")
            except httpx2.HTTPError:
                return True
            if answer.status_code == 503:
                assert answer.json()["code"] == "NOT_READY"
                return True

"""Whoever follows a run at one server hears it although another one works on it: exactly, and in order."""

import asyncio
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import connect

from app.bus import replicas
from app.core.settings import Settings
from tests import sse
from tests.bus.conftest import team
from tests.bus.pace import Paced
from tests.clients import reached, receive, submit
from tests.server import InProcessServer
from tests.waiting import until

WORDS = 12


async def _stored(server: InProcessServer, thread_id: str) -> list[tuple[int, str]]:
    events = await server.holdfast.store.reader.events("default", thread_id, 0, 1000)
    return [(event.seq, event.id) for event in events]


async def _read_sse(url: str, run: dict[str, Any]) -> list[tuple[int, str]]:
    """Everything that a client of server-sent events gets until the run ends."""
    async with httpx2.AsyncClient(base_url=url, timeout=20) as client:
        found = await sse.read(client, f"/api/runs/{run['id']}/stream")
    return [(frame.data["seq"], frame.data["id"]) for frame in found if frame.id is not None]


async def _stored_of(server: InProcessServer, run: dict[str, Any]) -> list[tuple[int, str]]:
    events = await server.holdfast.store.reader.run_events("default", run["id"], 0, 1000)
    return [(event.seq, event.id) for event in events]


async def _read_socket(url: str, query: str, ready: asyncio.Event) -> list[tuple[int, str]]:
    seen: list[tuple[int, str]] = []
    async with connect(url + query) as socket:
        await receive(socket)
        ready.set()
        while True:
            frame: dict[str, Any] = await receive(socket, 20)
            if frame.get("part") or "seq" not in frame or frame.get("threadId") is None:
                continue
            seen.append((frame["seq"], frame["id"]))
            if frame["type"] == "runtime.request.completed":
                return seen


async def _polled(server: InProcessServer) -> None:
    """A poll that began after this call has ended."""
    polling = server.holdfast.replicas
    assert polling is not None
    ended = polling.polls + 2  # the next one may have begun before
    await until(lambda: polling.polls >= ended)


@pytest.mark.requirement("PX-4")
async def test_streams_of_every_kind_hear_a_run_of_another_server_exactly(joined: Settings, pace: Paced) -> None:
    async with team(joined, 2, pace) as (first, second), httpx2.AsyncClient(base_url=first.url) as client:
        ready = asyncio.Event()
        everything = asyncio.create_task(_read_socket(second.stream_url, "", ready))
        await ready.wait()
        run = await submit(client, "echo", str(WORDS))
        thread_id = run["threadId"]
        ready = asyncio.Event()
        following = [
            asyncio.create_task(_read_sse(second.url, run)),
            asyncio.create_task(_read_socket(second.stream_url, f"?threadId={thread_id}&afterSeq=0", ready)),
        ]
        await ready.wait()
        for _ in range(WORDS):
            pace.step()
            await asyncio.sleep(0.01)  # so that they are commits of their own
        async with asyncio.timeout(30):
            seen = await asyncio.gather(everything, *following)
        stored = await _stored(first, thread_id)
        assert len(stored) > WORDS / 2
        assert seen[1] == await _stored_of(first, run)
        assert seen[2] == stored
        assert seen[0] == stored, "who hears every thread of the tenant hears this one whole"


@pytest.mark.requirement("PX-4")
async def test_a_client_waits_at_one_server_for_a_run_of_another(on_bus: Settings, pace: Paced) -> None:
    async with team(on_bus, 2, pace) as (first, second):
        async with httpx2.AsyncClient(base_url=first.url) as at_first, httpx2.AsyncClient(base_url=second.url) as other:
            body, key = {"agent": "echo", "input": "1"}, {"idempotency-key": "the same"}
            accepted = await at_first.post("/api/runs", json=body, headers=key)
            waiting = asyncio.create_task(other.post("/api/runs", json=body, headers=key, params={"wait": 15}))
            await pace.entered.get()
            pace.step()
            ended = (await waiting).json()
            assert (ended["id"], ended["status"]) == (accepted.json()["id"], "completed")


async def test_a_storm_of_news_is_gathered_into_few_messages(on_bus: Settings, pace: Paced) -> None:
    async with team(on_bus, 2, pace) as (first, second), httpx2.AsyncClient(base_url=first.url) as client:
        runs = [await submit(client, "echo", "50") for _ in range(4)]
        other = second.holdfast.replicas
        assert other is not None
        before = other.received
        following = [asyncio.create_task(_read_sse(second.url, run)) for run in runs]
        pace.step(200)
        async with asyncio.timeout(30):
            for run, seen in zip(runs, await asyncio.gather(*following), strict=True):
                assert seen == await _stored_of(first, run)
        commits = sum([len(await _stored(first, run["threadId"])) for run in runs])
        assert other.received - before < commits


@pytest.mark.requirement("G11", "PX-4")
async def test_without_a_bus_streams_hear_of_another_server_by_polling(
    shared: Settings, pace: Paced, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas, "POLL_SECONDS", 0.3)
    monkeypatch.setattr(replicas, "BEAT_SECONDS", 0.1)
    settings = shared.model_copy(update={"bus": "local"})
    async with team(settings, 2, pace) as (first, second), httpx2.AsyncClient(base_url=first.url) as client:
        ready = asyncio.Event()
        everything = asyncio.create_task(_read_socket(second.stream_url, "", ready))
        await ready.wait()
        await _polled(second)  # so that what is old is known
        run = await submit(client, "echo", "3")
        following = asyncio.create_task(_read_sse(second.url, run))
        pace.step(3)
        async with asyncio.timeout(30):
            seen = tuple(await asyncio.gather(everything, following))
        stored = await _stored(first, run["threadId"])
        assert seen == (stored, await _stored_of(first, run))
        health = (await client.get("/readyz")).json()
        assert health["bus"] == {"kind": "local", "connected": False, "peers": 0}


@pytest.mark.requirement("G11", "PX-4")
async def test_a_bus_that_dies_and_comes_back_costs_no_event(
    shared: Settings, pace: Paced, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.bus.servers import running_nats

    monkeypatch.setattr(replicas, "POLL_SECONDS", 0.5)
    monkeypatch.setattr(replicas, "SILENCE_SECONDS", 0.6)
    monkeypatch.setattr(replicas, "BEAT_SECONDS", 0.2)
    with running_nats() as nats:
        settings = shared.model_copy(update={"bus": nats.url})
        async with team(settings, 2, pace) as (first, second), httpx2.AsyncClient(base_url=first.url) as client:
            run = await submit(client, "echo", "9")
            following = asyncio.create_task(_read_sse(second.url, run))
            other = second.holdfast.replicas
            assert other is not None
            await pace.entered.get()
            pace.step(3)
            nats.stop()
            pace.step(3)
            await until(lambda: other.lost)
            metrics = (await client.get(f"{second.url}/metrics")).text
            assert "holdfast_bus_connected 0" in metrics
            nats.start()
            await until(lambda: not other.lost and other.peers > 0)
            pace.step(3)
            async with asyncio.timeout(30):
                assert await following == await _stored_of(first, run)


async def test_who_listens_from_now_on_hears_nothing_older_from_a_server_that_polls(
    on_bus: Settings, pace: Paced, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas, "BEAT_SECONDS", 0.1)
    monkeypatch.setattr(replicas, "CHECK_SECONDS", 0.1)
    pace.finish()
    async with team(on_bus, 1, pace) as (server,), httpx2.AsyncClient(base_url=server.url) as client:
        async with connect(server.stream_url) as early:
            await receive(early)
            await _polled(server)  # from now on a thread that it finds is a new one, if nobody knows better
        run = await submit(client, "echo", "1")
        await reached(client, run["id"])  # nobody listens meanwhile
        thread_id = run["threadId"]
        before = len(await _stored(server, thread_id))
        async with connect(server.stream_url + f"?threadId={thread_id}") as one, connect(server.stream_url) as every:
            await receive(one), await receive(every)
            await _polled(server)
            await submit(client, "echo", "1", threadId=thread_id)
            for socket in (one, every):
                frame = await receive(socket)
                assert (frame["threadId"], frame["seq"]) == (thread_id, before + 1), frame

"""Postgres goes away under load and comes back: clean errors at once, nothing lost, and work goes on by itself."""

import asyncio
import itertools
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from app.core.clock import SystemClock
from app.core.principal import DEFAULT_TENANT
from app.core.schemas import SchemaRegistry
from app.core.settings import Settings
from app.events.envelope import Event
from app.events.ports import Answer, Command, EventLog, StorageDown
from app.events.recorder import Recorder
from app.policy.redaction import LogRedaction
from app.wiring import store as wiring
from app.wiring.store import Store, open_store
from tests.faults.audit import SeenEvent, audit
from tests.faults.client import Client, ends
from tests.faults.conftest import Count
from tests.faults.load import Producer, create_thread
from tests.faults.processes import serving
from tests.patience import SERVED
from tests.postgres import PostgresServer, empty_settings, running_postgres

ANSWERS_WITHIN = 10.0
"""Seconds: two that the database has, and the rest for a busy machine."""
RESUMES_WITHIN = 30.0
LATEST_STOP = 0.6
"""Seconds under load before the server goes."""
PRODUCERS = 8

_names = itertools.count(1)


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    """Not the session's one: this one is stopped and killed."""
    with running_postgres() as server:
        yield server


@pytest.fixture
async def own_settings(own_server: PostgresServer, tmp_path: Path) -> Settings:
    return await empty_settings(own_server, f"restarted_{next(_names)}", tmp_path)


class TimedLog:
    """The log as a caller meets it: how long refusals take, and when appends succeed again."""

    def __init__(self, inner: EventLog) -> None:
        self._inner = inner
        self.refused = 0
        self.slowest_refusal = 0.0
        self.appended = asyncio.Event()

    async def append(self, command: Command) -> Answer:
        started = time.monotonic()
        try:
            answer = await self._inner.append(command)
        except StorageDown:
            self.refused += 1
            self.slowest_refusal = max(self.slowest_refusal, time.monotonic() - started)
            raise
        self.appended.set()
        return answer


async def _keep_producing(producer: Producer, enough: asyncio.Event) -> None:
    """Whatever is not a clean error ends the test."""
    while not enough.is_set():
        try:
            await producer.produce(1)
        except StorageDown:
            await asyncio.sleep(0.02)  # a client's pause before it tries again


async def _listen(store: Store, published: list[SeenEvent]) -> None:
    subscription = store.hub.subscribe(DEFAULT_TENANT, None, max_events=10**6, max_bytes=10**9)
    while True:
        await subscription.wait()
        published += map(SeenEvent.of, subscription.take())


@pytest.mark.requirement("G1", "G2", "G3", "G17", "PX-1")
@pytest.mark.parametrize("stop", ["INT", "KILL"])
@pytest.mark.parametrize(
    "times", [1, pytest.param(10, marks=[pytest.mark.faults, pytest.mark.timeout(600)])], ids="{}-times".format
)
async def test_a_restarted_postgres_costs_clean_errors_and_no_event(
    own_server: PostgresServer,
    own_settings: Settings,
    stop: str,
    times: int,
    count: Count,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wiring, "_POSTGRES_PATIENCE", SERVED)
    chance = random.Random(stop)
    acknowledged: list[SeenEvent] = []
    published: list[SeenEvent] = []

    def acknowledge(event: Event) -> None:
        acknowledged.append(SeenEvent.of(event))

    async with open_store(own_settings) as store:
        log = TimedLog(store.log)
        recorder = Recorder(log, SystemClock(), SchemaRegistry(), LogRedaction())
        await create_thread(recorder, "thr_shared", acknowledge)
        enough = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            listening = tasks.create_task(_listen(store, published))
            for number in range(PRODUCERS):
                producer = Producer(recorder, acknowledge, "thr_shared" if number % 2 else None)
                tasks.create_task(_keep_producing(producer, enough))
            for _ in range(times):
                await _until_next_append(log)
                await asyncio.sleep(chance.uniform(0.1, LATEST_STOP))  # the random moment is the fault itself
                await asyncio.to_thread(own_server.stop, stop)
                with pytest.raises(StorageDown):
                    await create_thread(recorder, "thr_in_vain", acknowledge)
                await asyncio.to_thread(own_server.start)
                await _until_next_append(log)
            enough.set()
            await asyncio.sleep(0)
            listening.cancel()
        assert log.refused > 0 and log.slowest_refusal < ANSWERS_WITHIN
    async with open_store(own_settings) as store:
        figures = await audit(store, acknowledged, published)
    figures.trials = times
    count(figures, f"{log.refused} refused, the slowest after {log.slowest_refusal:.2f} s")


async def _until_next_append(log: TimedLog) -> None:
    log.appended.clear()
    async with asyncio.timeout(RESUMES_WITHIN):
        await log.appended.wait()


@pytest.mark.requirement("G5", "G15", "G17")
async def test_a_server_answers_503_while_postgres_is_away_and_ends_every_run_after_its_return(
    own_server: PostgresServer, own_settings: Settings, count: Count
) -> None:
    async with (
        serving(own_settings, patient=False) as (server, url),
        httpx2.AsyncClient(base_url=url, timeout=30) as http,
    ):
        client = Client(url)
        for _ in range(3):
            await client.submit("word " * 150)
        await asyncio.to_thread(own_server.stop, "KILL")
        for request in (http.get("/readyz"), http.post("/api/runs", json={"agent": "echo", "input": "x"})):
            started = time.monotonic()
            answer = await request
            assert answer.status_code == 503 and "STORAGE_DOWN" in answer.text
            assert time.monotonic() - started < ANSWERS_WITHIN
        assert (await http.get("/healthz")).status_code == 200
        await asyncio.to_thread(own_server.start)
        async with asyncio.timeout(RESUMES_WITHIN):
            await ends(url, list(client.accepted.values()))
        await asyncio.to_thread(own_server.stop)
        try:
            server.signal(signal.SIGTERM)
            assert await server.end() == 0, server.said
        finally:
            await asyncio.to_thread(own_server.start)
    async with open_store(own_settings) as store:
        count(await audit(store, []))

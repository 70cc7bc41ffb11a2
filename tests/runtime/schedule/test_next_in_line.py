"""Whoever waits in line on a thread begins when those before it are gone, not when somebody happens to look."""

import asyncio
from collections.abc import AsyncIterator

import httpx2
import pytest

from app.backends.contract import Context, Resume
from app.core.settings import Settings
from app.events.catalog.request import RequestStarted
from app.runtime.schedule import run_leases
from app.runtime.schedule.executor import Executor
from tests.faults.listening import PAUSES, Listener
from tests.server import in_process
from tests.waiting import until

STARTED = frozenset({RequestStarted.type})


class Patient:
    """Asks, works until it is let go, or answers at once."""

    kind = "echo"
    resume: Resume = "restart"

    def __init__(self) -> None:
        self.go = asyncio.Event()

    async def run(self, ctx: Context) -> str:
        if ctx.input == "ask":
            await ctx.ask("May I?", [{"id": "q"}])
        if ctx.input == "work":
            await self.go.wait()
        return f"{ctx.input} done"


class Line:
    """A server whose sweep never comes, and one thread on it."""

    def __init__(self, http: httpx2.AsyncClient, listener: Listener, backend: Patient, works: Executor) -> None:
        self.http, self.listener, self.backend, self._works = http, listener, backend, works

    async def submit(self, text: str, **more: str) -> str:
        body = {"agent": "echo", "input": text, "threadId": "thr_line", "createThread": True} | more
        run = (await self.http.post("/api/runs", json=body)).json()
        return str(run["id"])

    async def cancel(self, run_id: str) -> str:
        return str((await self.http.post(f"/api/runs/{run_id}/cancel")).json()["status"])

    async def settled(self, working: int) -> None:
        """Waits until exactly `working` runs are at work."""
        await until(lambda: self._works.running == working)

    async def output(self, run_id: str) -> object:
        await self.listener.until([run_id])
        return (await self.http.get(f"/api/runs/{run_id}")).json()["output"]


@pytest.fixture
async def line(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Line]:
    monkeypatch.setattr(run_leases, "sweep_seconds", lambda within: 3600.0)
    backend = Patient()
    async with in_process(settings, {"echo": backend}) as server, httpx2.AsyncClient(base_url=server.url) as http:
        yield Line(http, Listener(server.holdfast.store.hub), backend, server.holdfast.executor)


async def test_a_run_behind_a_waiting_one_begins_when_that_is_cancelled(line: Line) -> None:
    asking = await line.submit("ask")
    await line.listener.until([asking], PAUSES)
    behind = [await line.submit("one"), await line.submit("two")]
    await line.settled(0)
    assert await line.cancel(asking) == "cancelled"
    assert [await line.output(run) for run in behind] == ["one done", "two done"]


async def test_a_run_begins_though_the_one_before_it_was_cancelled_in_the_line(line: Line) -> None:
    working = await line.submit("work")
    await line.listener.until([working], STARTED)
    behind = [await line.submit(text) for text in ("one", "two", "three", "four")]
    await line.settled(1)
    assert [await line.cancel(run) for run in behind[:2]] == ["cancelled", "cancelled"]
    await line.settled(1)
    line.backend.go.set()
    assert [await line.output(run) for run in behind[2:]] == ["three done", "four done"]


async def test_a_run_that_takes_the_place_of_all_others_begins_when_the_one_at_work_has_ended(line: Line) -> None:
    working = await line.submit("work")
    await line.listener.until([working], STARTED)
    behind = [await line.submit(text) for text in ("one", "two")]
    await line.settled(1)
    urgent = await line.submit("urgent", busy="interrupt")
    assert await line.output(urgent) == "urgent done"
    await line.listener.until([working, *behind])

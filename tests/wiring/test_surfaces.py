"""The web app takes the runtime's four surfaces apart: each is replaced by a fake while the other three are real."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from app.backends.kinds.echo import EchoBackend
from app.core.errors import Failure
from app.core.principal import Principal
from app.core.settings import Settings
from app.events.hub import Hub, Subscription
from app.protocols.context import ServerContext
from app.runtime.intake.rejection import Rejected
from app.runtime.intake.submission import Submission, Taken
from app.views.run import Run
from app.wiring.runtime import open_holdfast
from app.wiring.web import build_web, server_context
from tests.sse import frames
from tests.waiting import until

pytestmark = pytest.mark.requirement("SH-3")


@contextlib.asynccontextmanager
async def serving(settings: Settings, **fakes: Any) -> AsyncIterator[tuple[httpx2.AsyncClient, ServerContext]]:
    settings = settings.model_copy(update={"port": 0})
    async with open_holdfast(settings, backends={"echo": EchoBackend()}) as holdfast:
        server = replace(server_context(settings, holdfast), **fakes)
        listening: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        web = build_web(settings, server, listening.set_result)
        serving = asyncio.create_task(web.serve())
        try:
            async with httpx2.AsyncClient(base_url=f"http://{settings.host}:{await listening}", timeout=20) as http:
                yield http, server
        finally:
            holdfast.store.hub.close_all()
            web.should_exit = True
            await serving


class Client:
    def __init__(self) -> None:
        self.submitted: list[Submission] = []

    async def submit(self, who: Principal, submission: Submission) -> Run | Rejected:
        self.submitted.append(submission)
        return Run("run_made_up", "thr_made_up", agent=submission.agent)

    async def enqueue(self, who: Principal, submission: Submission) -> Taken | Rejected:
        run = await self.submit(who, submission)
        return run if isinstance(run, Rejected) else Taken(run)


class Lifecycle:
    draining = True

    async def cancel(self, who: Principal, run_id: str, reason: str | None = None) -> Run | Rejected:
        return Rejected(Failure("RUN_NOT_FOUND", f"{who.actor} asked to cancel {run_id}"))

    async def drain(self, seconds: float, hurry: asyncio.Event | None = None) -> None: ...


class EventSource:
    """Publishes what the test hands to it, and nothing that is committed."""

    def __init__(self) -> None:
        self.hub = Hub()
        self.subscriptions: list[Subscription] = []

    def subscribe(self, tenant: str, threads: Iterable[str] | None) -> Subscription:
        self.subscriptions.append(self.hub.subscribe(tenant, threads))
        return self.subscriptions[-1]


class Inspector:
    async def run(self, tenant: str, run_id: str) -> Run | None:
        return Run(run_id, "thr_made_up", agent="made up") if run_id == "run_made_up" else None

    async def is_run_of_deleted_thread(self, tenant: str, run_id: str) -> bool:
        return False


async def test_submissions_go_to_another_client(settings: Settings) -> None:
    client = Client()
    async with serving(settings, service=client) as (http, server):
        answer = await http.post("/api/runs", json={"agent": "anything", "input": "hello"})
        assert (answer.status_code, answer.json()["id"]) == (202, "run_made_up")
        assert [submission.agent for submission in client.submitted] == ["anything"]
        assert await server.reader.run("default", "run_made_up") is None


async def test_cancels_and_readiness_come_from_another_lifecycle(settings: Settings) -> None:
    async with serving(settings, lifecycle=Lifecycle()) as (http, _):
        run = (await http.post("/api/runs", json={"agent": "echo", "input": "hello"})).json()
        cancelled = await http.post(f"/api/runs/{run['id']}/cancel")
        assert (cancelled.status_code, cancelled.json()["error"]["code"]) == (404, "RUN_NOT_FOUND")
        ready = await http.get("/readyz")
        assert (ready.status_code, ready.json()["code"]) == (503, "NOT_READY")


async def test_runs_are_read_from_another_inspector(settings: Settings) -> None:
    async with serving(settings, reader=Inspector()) as (http, _):
        assert (await http.get("/api/runs/run_made_up")).json()["agent"] == "made up"
        stored = (await http.post("/api/runs", json={"agent": "echo", "input": "hello"})).json()["id"]
        assert (await http.get(f"/api/runs/{stored}")).status_code == 404


async def test_live_events_come_from_another_event_source(settings: Settings) -> None:
    source = EventSource()
    async with serving(settings, hub=source) as (http, server):
        thread = (await http.post("/api/threads", json={"title": "quiet"})).json()["id"]
        (created,) = await server.reader.events("default", thread, 0, 10)
        stream = http.stream("GET", f"/api/threads/{thread}/stream", headers={"Last-Event-ID": "1"})
        async with asyncio.timeout(30), stream as answer:
            # It has read what is stored, and is live.
            await until(lambda: source.hub.backfills > 0 and not any(one.paused for one in source.subscriptions))
            created.id, created.seq = "evt_made_up", 2
            source.hub.publish([created])
            async for frame in frames(answer):
                assert frame.data["id"] == "evt_made_up"
                return
        raise AssertionError("the stream ended")

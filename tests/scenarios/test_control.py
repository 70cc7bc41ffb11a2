"""Controlling runs: busy threads, cancelling, deleted threads. With a backend that waits until it is released."""

import asyncio
from collections.abc import AsyncIterator

import httpx2
import pytest

from app.backends.contract import Context, Result, Resume
from app.core.ids import new_id
from app.core.principal import DEFAULT_TENANT
from app.core.settings import Settings
from app.events.catalog import thread
from app.events.envelope import Event
from app.events.recorder import Scope
from app.views.run import ACTIVE
from tests.server import InProcessServer, in_process
from tests.store_equals_replay import assert_tables_equal_replay


class Patient:
    """Says that it has begun, then waits; stands in for the backend of the agent `echo`."""

    kind = "echo"
    resume: Resume = "restart"

    def __init__(self) -> None:
        self.begun: asyncio.Queue[str] = asyncio.Queue()
        self.go_on = asyncio.Event()

    async def run(self, ctx: Context) -> Result:
        await ctx.emit("agent.handoff", tools=[], subagents=[])
        if ctx.input == "fail":
            raise ValueError("detail that clients must not see")
        self.begun.put_nowait(ctx.run_id)
        await self.go_on.wait()
        return "done"


@pytest.fixture
def patient() -> Patient:
    return Patient()


@pytest.fixture
async def server(settings: Settings, patient: Patient) -> AsyncIterator[InProcessServer]:
    async with in_process(settings, {"echo": patient}) as server:
        yield server
        patient.go_on.set()
        await _all_ended(server)
        await assert_tables_equal_replay(server.holdfast.store)


@pytest.fixture
async def client(server: InProcessServer) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=server.url, timeout=60, verify=False) as client:
        yield client


async def _all_ended(server: InProcessServer) -> None:
    """The module's database is shared: no run may be left to the next test's backend."""
    reader, subscription = server.holdfast.store.reader, server.holdfast.store.hub.subscribe(DEFAULT_TENANT, None)
    async with asyncio.timeout(30):
        while [run for status in ACTIVE for run in await reader.runs(DEFAULT_TENANT, status=status, limit=1)]:
            await subscription.wait()
            subscription.take()
    subscription.close()


async def _start(client: httpx2.AsyncClient, patient: Patient, **more: object) -> dict[str, str]:
    run: dict[str, str] = (await client.post("/api/runs", json={"agent": "echo", "input": "x"} | more)).json()
    assert await asyncio.wait_for(patient.begun.get(), 30) == run["id"]
    return run


async def _events(server: InProcessServer, thread_id: str) -> list[Event]:
    return await server.holdfast.store.reader.events(DEFAULT_TENANT, thread_id, 0, 1000)


async def test_a_busy_thread_rejects_and_names_the_run_in_the_way(client: httpx2.AsyncClient, patient: Patient) -> None:
    running = await _start(client, patient)
    body = {"agent": "echo", "input": "x", "threadId": running["threadId"], "busy": "reject"}
    answer = await client.post("/api/runs", json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "THREAD_BUSY")
    assert answer.json()["error"]["runId"] == running["id"]
    shown = (await client.get(f"/api/threads/{running['threadId']}")).json()
    assert shown["status"] == "busy"


async def test_a_thread_is_free_again_when_its_run_has_ended(client: httpx2.AsyncClient, patient: Patient) -> None:
    running = await _start(client, patient)
    patient.go_on.set()
    body = {"agent": "echo", "input": "x", "threadId": running["threadId"]}
    await client.post("/api/runs", params={"wait": 30}, json=body)
    answer = await client.post("/api/runs", params={"wait": 30}, json=body | {"busy": "reject"})
    assert (answer.status_code, answer.json()["status"]) == (200, "completed")


async def test_a_full_queue_is_429_and_nothing_of_it_is_kept(settings: Settings, patient: Patient) -> None:
    small = settings.model_copy(update={"max_queued_runs_per_thread": 5})
    async with (
        in_process(small, {"echo": patient}) as server,
        httpx2.AsyncClient(base_url=server.url, timeout=60) as client,
    ):
        running = await _start(client, patient)
        body = {"agent": "echo", "input": "x", "threadId": running["threadId"]}
        queued = await asyncio.gather(*(client.post("/api/runs", json=body) for _ in range(4)))
        answer = await client.post("/api/runs", json=body)
        patient.go_on.set()
        await _all_ended(server)
    assert {each.status_code for each in queued} == {202}
    assert (answer.status_code, answer.json()["error"]["code"]) == (429, "QUEUE_FULL")
    assert answer.headers["retry-after"]


@pytest.mark.requirement("G8")
async def test_a_running_run_is_cancelled_and_its_last_event_says_so(
    server: InProcessServer, client: httpx2.AsyncClient, patient: Patient
) -> None:
    running = await _start(client, patient)
    asked = (await client.post(f"/api/runs/{running['id']}/cancel")).json()
    again = (await client.post(f"/api/runs/{running['id']}/cancel")).json()
    follower = await client.post(
        "/api/runs", params={"wait": 0}, json={"agent": "echo", "input": "x", "threadId": running["threadId"]}
    )
    assert await asyncio.wait_for(patient.begun.get(), 30) == follower.json()["id"]  # the slot and the thread are free
    ended = (await client.get(f"/api/runs/{running['id']}")).json()
    assert asked["cancelRequestedAt"] == again["cancelRequestedAt"] == ended["cancelRequestedAt"]
    assert (ended["status"], ended["output"], ended["error"]) == ("cancelled", None, None)
    mine = [event.type for event in await _events(server, running["threadId"]) if event.run_id == running["id"]]
    assert mine[-2:] == ["runtime.command.injected", "runtime.request.cancelled"]
    assert mine.count("runtime.command.injected") == 1


@pytest.mark.requirement("G8")
async def test_a_queued_run_is_cancelled_in_one_commit_and_never_starts(
    server: InProcessServer, client: httpx2.AsyncClient, patient: Patient
) -> None:
    running = await _start(client, patient)
    body = {"agent": "echo", "input": "x", "threadId": running["threadId"]}
    queued = (await client.post("/api/runs", json=body)).json()
    answer = (await client.post(f"/api/runs/{queued['id']}/cancel")).json()
    assert (answer["status"], answer["startedAt"]) == ("cancelled", None)
    assert answer["cancelRequestedAt"] == answer["finishedAt"]
    mine = [event for event in await _events(server, running["threadId"]) if event.run_id == queued["id"]]
    assert [event.type.rpartition(".")[2] for event in mine] == ["queued", "injected", "cancelled"]
    assert mine[1].actor == mine[2].actor == "user:local"


@pytest.mark.requirement("G7", "G8")
async def test_concurrent_cancels_of_one_run_leave_one_end(
    server: InProcessServer, client: httpx2.AsyncClient, patient: Patient
) -> None:
    running = await _start(client, patient)
    answers = await asyncio.gather(*(client.post(f"/api/runs/{running['id']}/cancel") for _ in range(10)))
    assert {answer.status_code for answer in answers} == {200}
    body = {"agent": "echo", "input": "x", "threadId": running["threadId"]}
    follower = (await client.post("/api/runs", json=body)).json()
    assert await asyncio.wait_for(patient.begun.get(), 30) == follower["id"]
    mine = [event.type for event in await _events(server, running["threadId"]) if event.run_id == running["id"]]
    assert mine.count("runtime.request.cancelled") == 1
    assert mine[-1] == "runtime.request.cancelled"


async def test_a_backend_s_failure_ends_the_run_without_revealing_its_detail(client: httpx2.AsyncClient) -> None:
    answer = await client.post("/api/runs", params={"wait": 30}, json={"agent": "echo", "input": "fail"})
    run = answer.json()
    assert (answer.status_code, run["status"], run["output"]) == (200, "failed", None)
    assert run["error"] == {"code": "BACKEND_FAILED", "message": "The backend raised ValueError.", "retryable": False}
    assert "detail that clients must not see" not in answer.text


async def _delete(server: InProcessServer, thread_id: str) -> None:
    await server.holdfast.store.recorder.record(Scope(DEFAULT_TENANT, thread_id), thread.ThreadDeleted())


async def test_a_deleted_thread_answers_410_on_every_route(
    server: InProcessServer, client: httpx2.AsyncClient, patient: Patient
) -> None:
    patient.go_on.set()
    run = (await client.post("/api/runs", params={"wait": 30}, json={"agent": "echo", "input": "x"})).json()
    await _delete(server, run["threadId"])
    path = f"/api/threads/{run['threadId']}"
    reads = [await client.get(path + suffix) for suffix in ("", "/events", "/export")]
    body = {"agent": "echo", "input": "x", "threadId": run["threadId"], "createThread": True}
    of_run = [await client.get(f"/api/runs/{run['id']}{suffix}") for suffix in ("", "/events")]
    for answer in (*reads, *of_run, await client.post("/api/runs", json=body)):
        assert (answer.status_code, answer.json()["error"]["code"]) == (410, "THREAD_DELETED")
    listed = (await client.get("/api/threads")).json()["items"]
    assert run["threadId"] not in {item["id"] for item in listed}


async def test_a_key_whose_thread_was_deleted_answers_410(
    server: InProcessServer, client: httpx2.AsyncClient, patient: Patient
) -> None:
    patient.go_on.set()
    body, headers = {"agent": "echo", "input": "x"}, {"idempotency-key": new_id("key")}
    run = (await client.post("/api/runs", params={"wait": 30}, json=body, headers=headers)).json()
    await _delete(server, run["threadId"])
    answer = await client.post("/api/runs", json=body, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (410, "THREAD_DELETED")


@pytest.mark.requirement("CM-2")
async def test_a_thread_of_the_system_takes_no_runs(client: httpx2.AsyncClient) -> None:
    body = {"agent": "echo", "input": "x", "threadId": "sys_ledger", "createThread": True}
    answer = await client.post("/api/runs", json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "THREAD_RESERVED")


async def test_a_closed_thread_takes_no_new_run(
    server: InProcessServer, client: httpx2.AsyncClient, patient: Patient
) -> None:
    patient.go_on.set()
    run = (await client.post("/api/runs", params={"wait": 30}, json={"agent": "echo", "input": "x"})).json()
    await server.holdfast.store.recorder.record(Scope(DEFAULT_TENANT, run["threadId"]), thread.ThreadClosed())
    body = {"agent": "echo", "input": "x", "threadId": run["threadId"]}
    answer = await client.post("/api/runs", json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "THREAD_CLOSED")
    assert (await client.get(f"/api/threads/{run['threadId']}")).json()["status"] == "closed"


@pytest.mark.requirement("G2")
async def test_nothing_is_published_that_a_reader_could_not_read(
    server: InProcessServer, client: httpx2.AsyncClient, patient: Patient
) -> None:
    """At the moment of publishing, a read through another connection already sees the event."""
    patient.go_on.set()
    store = server.holdfast.store
    subscription = store.hub.subscribe(DEFAULT_TENANT, None)
    seen = 0
    body = {"agent": "echo", "input": "x"}
    run = (await client.post("/api/runs", json=body)).json()
    while True:
        await asyncio.wait_for(subscription.wait(), 30)
        for event in subscription.take():
            stored = await store.reader.events(DEFAULT_TENANT, event.thread_id, event.seq - 1, 1)
            assert [found.hash for found in stored] == [event.hash]
            seen += 1
        if event.run_id == run["id"] and event.type == "runtime.request.completed":
            break
    subscription.close()
    assert seen == 6

"""The package `holdfast.client` against the real server: what users of it write, and streams that are cut."""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from holdfast.client import ApiError, AsyncClient, Client, ConnectionLost, RunNotCompleted
from holdfast.testing import running_server
from tests.faults.replicas.proxy import FaultyProxy
from tests.postgres import free_port
from tests.server import ServerProcess


@pytest.fixture
def holdfast(server: ServerProcess) -> Iterator[Client]:
    with Client(server.url) as client:
        yield client


def test_a_run_is_submitted_followed_and_read(holdfast: Client) -> None:
    run = holdfast.runs.create(agent="assistant", input="please calculate", labels={"by": "client"})
    events = list(holdfast.runs.follow(run["id"]))
    assert [event["runSeq"] for event in events] == list(range(1, len(events) + 1))
    assert holdfast.runs.output(run["id"]) == "".join(holdfast.runs.follow_text(run["id"]))
    last = events[-3]["seq"]
    assert [event["seq"] for event in holdfast.runs.follow(run["id"], after=last)] == [last + 1, last + 2]
    found = [one["id"] for one in holdfast.runs.iterate(limit=1, agent="assistant")]
    assert run["id"] in found and len(found) == len(set(found))


def test_a_run_that_waits_is_approved_and_goes_on(holdfast: Client) -> None:
    run = holdfast.runs.wait(holdfast.runs.create(agent="assistant", input="please publish")["id"])
    assert run["status"] == "waiting"
    with pytest.raises(RunNotCompleted) as waiting:
        holdfast.runs.output(run["id"])
    assert waiting.value.run["waitingOn"] == run["waitingOn"]
    holdfast.interrupts.approve(run["waitingOn"][0], reason="it is a test")
    assert holdfast.runs.wait(run["id"])["status"] == "completed"


def test_an_error_has_the_code_and_the_remedy_of_the_server(holdfast: Client) -> None:
    with pytest.raises(ApiError) as wrong:
        holdfast.runs.get("run_of_nobody")
    assert (wrong.value.status, wrong.value.code) == (404, "RUN_NOT_FOUND")
    assert wrong.value.remedy
    with pytest.raises(ApiError) as invalid:
        holdfast.runs.create(agent="assistant", input="x", busy="perhaps")  # type: ignore[arg-type]
    assert invalid.value.issues


def test_the_same_key_gives_the_same_run(holdfast: Client) -> None:
    first, second = (holdfast.runs.create(agent="echo", input="hi", idempotency_key="client-1") for _ in range(2))
    assert first["id"] == second["id"]


def test_files_go_up_in_pieces_and_come_back_whole(holdfast: Client, tmp_path: Path) -> None:
    path = tmp_path / "numbers.bin"
    path.write_bytes(bytes(range(256)) * 8192)
    file = holdfast.files.upload_path(path)
    assert file["name"] == "numbers.bin"
    assert holdfast.files.content(file["id"]) == path.read_bytes()
    holdfast.files.delete(file["id"])


async def test_a_stream_that_is_cut_after_every_event_has_no_gap_and_no_duplicate(server: ServerProcess) -> None:
    proxy = await FaultyProxy(int(server.url.rpartition(":")[2])).start()
    try:
        async with AsyncClient(f"http://127.0.0.1:{proxy.port}") as client:
            run = await client.runs.create(agent="echo", input=" ".join(f"w{n}" for n in range(8)))
            seen = []
            async for event in client.runs.follow(run["id"]):
                seen.append(event["seq"])
                proxy.cut()
            assert seen == list(range(2, (await client.runs.get(run["id"]))["lastSeq"] + 1))
    finally:
        await proxy.close()


async def test_a_follower_outlives_the_server(tmp_path: Path) -> None:
    server = await asyncio.to_thread(ServerProcess.start, tmp_path, port=free_port())
    try:
        async with AsyncClient(server.url) as client:
            run = await client.runs.create(agent="assistant", input="please publish")
            waiting = await client.runs.wait(run["id"])
            seen = []
            async for event in client.runs.follow(run["id"]):
                seen.append(event["seq"])
                if event["type"] == "runtime.interrupt.raised" and server.is_running:
                    server.kill()
                    server = await asyncio.to_thread(server.again)
                    await client.interrupts.approve(waiting["waitingOn"][0])
            assert seen == list(range(2, (await client.runs.get(run["id"]))["lastSeq"] + 1))
    finally:
        with contextlib.suppress(ProcessLookupError):
            server.kill()


async def test_a_submission_whose_answer_is_lost_is_repeated_and_runs_once(server: ServerProcess) -> None:
    lost: list[str] = []

    async def lose_the_first(response: httpx2.Response) -> None:
        if not lost and response.request.method == "POST":
            await response.aread()
            lost.append(response.json()["id"])
            raise httpx2.ReadError("lost", request=response.request)

    http = httpx2.AsyncClient(base_url=server.url, event_hooks={"response": [lose_the_first]})
    async with AsyncClient(http=http) as client:
        run = await client.runs.create(agent="echo", input="once")
    assert [run["id"]] == lost


def test_without_a_server_the_caller_hears_so() -> None:
    with Client("http://127.0.0.1:9") as client, pytest.raises(ConnectionLost):
        client.runs.create(agent="echo", input="hello")


def test_a_server_for_tests_keeps_what_its_folder_has(tmp_path: Path) -> None:
    with running_server(data_dir=tmp_path) as server, server.client() as client:
        run = client.runs.create(agent="echo", input="hello")
        assert client.runs.output(run["id"]) == "hello"
    with running_server(data_dir=tmp_path) as server, server.client() as client:
        assert client.runs.get(run["id"])["output"] == "hello"

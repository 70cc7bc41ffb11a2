"""The streams over plain ASGI: what clients get does not depend on the kind of connection under them."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from app.core import json
from app.core.settings import Settings
from app.protocols.wire import follower, uvicorn_connection
from tests import sse
from tests.openai.conftest import write_workspace
from tests.server import InProcessServer, in_process
from tests.waiting import until


@pytest.fixture(params=[True, False], ids=["direct", "asgi"])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[InProcessServer]:
    settings = Settings(data_dir=tmp_path / "data", workspace=write_workspace(tmp_path / "workspace"))
    async with asyncio.timeout(60), in_process(settings, direct=request.param) as server:
        yield server


@pytest.fixture
async def client(server: InProcessServer) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=server.url, timeout=20, verify=False) as client:
        yield client


async def _next(socket: ClientConnection) -> dict[str, Any]:
    frame: dict[str, Any] = json.loads(await asyncio.wait_for(socket.recv(), 30))
    return frame


def test_the_installed_versions_are_those_that_direct_writing_was_tested_with() -> None:
    assert uvicorn_connection.is_tested(), "run these tests with the new versions, then name them in TESTED"


def test_other_versions_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uvicorn_connection, "version", lambda name: "99.0" if name == "uvicorn" else "17.9")
    assert not uvicorn_connection.is_tested()


@pytest.mark.requirement("PX-1", "PX-5")
async def test_a_run_and_its_thread_are_streamed_whole_and_from_a_cursor(client: httpx2.AsyncClient) -> None:
    words = " ".join(f"w{number}" for number in range(600))
    answer = await client.post("/api/runs", params={"stream": "sse"}, json={"agent": "echo", "input": words})
    *events, end = [frame for block in answer.content.split(b"\n\n") if (frame := sse.parse(block)) is not None]
    run_id, thread_id = answer.headers["x-run-id"], answer.headers["x-thread-id"]
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8" and answer.headers["x-request-id"]
    assert (end.event, events[-1].event) == ("end", "runtime.request.completed")
    assert [frame.id for frame in events] == list(range(events[0].id or 0, (events[-1].id or 0) + 1))
    assert await sse.read(client, f"/api/runs/{run_id}/stream", 300) == [
        *(frame for frame in events if (frame.id or 0) > 300),
        end,
    ]
    assert [frame.event for frame in await sse.read(client, f"/api/runs/{run_id}/stream", events[-1].id)] == ["end"]
    reading = asyncio.create_task(sse.read(client, f"/api/threads/{thread_id}/stream", events[-1].id))
    await client.delete(f"/api/threads/{thread_id}")
    assert [frame.event for frame in await reading][-2:] == ["runtime.thread.deleted", "end"]


@pytest.mark.requirement("PX-5")
async def test_chat_and_responses_are_streamed(client: httpx2.AsyncClient) -> None:
    chat = {"model": "helper", "messages": [{"role": "user", "content": "slowly please"}], "stream": True}
    answer = await client.post("/v1/chat/completions", json=chat)
    *chunks, done, rest = answer.text.split("\n\n")
    deltas = [json.loads(chunk.removeprefix("data: "))["choices"][0]["delta"] for chunk in chunks]
    said = "".join(delta.get("content") or "" for delta in deltas)
    assert (said, done, rest) == ("OneTwoThreeFourFiveSixSevenEight", "data: [DONE]", "")
    answer = await client.post("/v1/responses", json={"model": "helper", "input": "hello", "stream": True})
    assert answer.text.rstrip().rpartition("\n\n")[2].startswith("event: response.completed\n")
    plain = await client.post("/v1/chat/completions", json=chat | {"stream": False})
    assert plain.json()["choices"][0]["message"]["content"] == said


async def test_a_silent_stream_is_kept_alive_and_a_client_that_leaves_is_noticed(
    server: InProcessServer, client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "KEEP_ALIVE_SECONDS", 0.05)
    monkeypatch.setattr(follower, "TICK_SECONDS", 0.02)
    thread_id = (await client.post("/api/threads", json={})).json()["id"]
    async with client.stream("GET", f"/api/threads/{thread_id}/stream") as answer:
        blocks = sse.blocks(answer)
        assert (await anext(blocks)).startswith(b"id: 1")
        assert await anext(blocks) == b": still here"
    await until(lambda: len(server.holdfast.store.hub) == 0)
    chat = {"model": "helper", "messages": [{"role": "user", "content": "publish it"}], "stream": True}
    async with client.stream(
        "POST", "/v1/chat/completions", json=chat | {"metadata": {"on_disconnect": "cancel"}}
    ) as answer:
        run_id = answer.headers["x-holdfast-run-id"]
    await until(lambda: len(server.holdfast.store.hub) == 0)
    assert (await sse.read(client, f"/api/runs/{run_id}/stream"))[-1].data["type"] == "runtime.request.cancelled"


@pytest.mark.requirement("CM-1", "PX-1", "G15")
async def test_a_socket_follows_history_then_news_and_is_closed_with_its_cursor(
    server: InProcessServer, client: httpx2.AsyncClient
) -> None:
    words = " ".join(f"w{number}" for number in range(300))
    body = {"agent": "echo", "input": words, "threadId": "thr_s", "createThread": True}
    first = (await client.post("/api/runs", params={"wait": 20}, json=body)).json()
    async with connect(f"{server.stream_url}?threadId=thr_s&afterSeq=0&types=runtime.*") as socket:
        assert (await _next(socket))["type"] == "ready"
        assert [(await _next(socket))["seq"] for _ in range(first["lastSeq"])] == list(range(1, first["lastSeq"] + 1))
        second = (await client.post("/api/runs", params={"wait": 20}, json=body)).json()
        seen = [(await _next(socket))["seq"] for _ in range(second["lastSeq"] - first["lastSeq"])]
        assert seen == list(range(first["lastSeq"] + 1, second["lastSeq"] + 1))
        await socket.send('{"type":"ping"}')
        assert (await _next(socket))["type"] == "pong"
        server.holdfast.store.hub.close_all()
        with pytest.raises(ConnectionClosed) as closed:
            await _next(socket)
    assert closed.value.rcvd is not None
    assert (closed.value.rcvd.code, json.loads(closed.value.rcvd.reason)) == (1012, {"lastSeq": {"thr_s": seen[-1]}})


async def test_a_drain_ends_the_streams(server: InProcessServer, client: httpx2.AsyncClient) -> None:
    thread_id = (await client.post("/api/threads", json={})).json()["id"]
    reading = asyncio.create_task(sse.read(client, f"/api/threads/{thread_id}/stream"))
    await until(lambda: len(server.holdfast.store.hub) == 1)
    server.holdfast.store.hub.close_all()
    assert [frame.event for frame in await reading] == ["runtime.thread.created"]

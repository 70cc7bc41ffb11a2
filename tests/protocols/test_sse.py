"""The server-sent events' own clock and limits, in the test's loop: comments, readers that do not read, drain."""

import asyncio
import contextlib
import socket
from pathlib import Path

import httpx2
import pytest

from app.core.settings import Settings
from app.protocols.wire import follower
from tests import sse
from tests.server import InProcessServer, in_process
from tests.waiting import until


async def _open(server: InProcessServer, path: str) -> socket.socket:
    """A connection whose peer takes as little as it can."""
    quiet = socket.socket()
    quiet.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    quiet.setblocking(False)
    host, port = server.url.removeprefix("http://").split(":")
    loop = asyncio.get_running_loop()
    await loop.sock_connect(quiet, (host, int(port)))
    await loop.sock_sendall(quiet, f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode())
    return quiet


@pytest.mark.requirement("PX-1")
async def test_a_silent_stream_is_kept_alive_by_comments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "KEEP_ALIVE_SECONDS", 0.05)
    monkeypatch.setattr(follower, "TICK_SECONDS", 0.02)
    async with in_process(Settings(data_dir=tmp_path)) as server:
        async with httpx2.AsyncClient(base_url=server.url, timeout=20, verify=False) as client:
            thread_id = (await client.post("/api/threads", json={})).json()["id"]
            async with client.stream("GET", f"/api/threads/{thread_id}/stream") as answer:
                seen = []
                async for block in sse.blocks(answer):
                    seen.append(block)
                    if len(seen) == 3:
                        break
    assert seen[0].startswith(b"id: 1\nevent: runtime.thread.created")
    assert seen[1:] == [b": still here"] * 2


@pytest.mark.requirement("G12", "G13")
async def test_readers_that_never_read_are_dropped_and_the_others_get_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "STALL_SECONDS", 2.0)
    async with in_process(Settings(data_dir=tmp_path)) as server, contextlib.AsyncExitStack() as stack:
        hub = server.holdfast.store.hub
        async with httpx2.AsyncClient(base_url=server.url, timeout=30, verify=False) as client:
            thread_id = (await client.post("/api/threads", json={})).json()["id"]
            path = f"/api/threads/{thread_id}/stream"
            for _ in range(3):
                stack.enter_context(await _open(server, path))
            good = [asyncio.create_task(sse.read(client, path)) for _ in range(3)]
            await until(lambda: len(hub) == 6)
            # More than the kernel keeps for a deaf reader, in few events.
            body = {"agent": "echo", "input": " ".join("x" * 15_000 for _ in range(60))}
            for _ in range(12):
                said = await client.post(f"/api/threads/{thread_id}/messages?wait=30", json=body)
                assert said.status_code == 200, said.text
            await until(lambda: len(hub) == 3)
            stored = (await client.get(f"/api/threads/{thread_id}/events?limit=1000")).json()["items"]
            await client.delete(f"/api/threads/{thread_id}")
            for read in await asyncio.wait_for(asyncio.gather(*good), 30):
                assert [frame.data for frame in read[:-2]] == stored


@pytest.mark.requirement("G15")
async def test_a_drain_ends_the_streams_in_the_ordinary_way(tmp_path: Path) -> None:
    async with in_process(Settings(data_dir=tmp_path)) as server:
        async with httpx2.AsyncClient(base_url=server.url, timeout=20, verify=False) as client:
            thread_id = (await client.post("/api/threads", json={})).json()["id"]
            reading = asyncio.create_task(sse.read(client, f"/api/threads/{thread_id}/stream"))
            await until(lambda: len(server.holdfast.store.hub) == 1)
            server.holdfast.store.hub.close_all()
            (only,) = await asyncio.wait_for(reading, 30)
            assert only.event == "runtime.thread.created"


async def test_a_client_that_leaves_takes_its_subscription_along(tmp_path: Path) -> None:
    async with in_process(Settings(data_dir=tmp_path)) as server:
        async with httpx2.AsyncClient(base_url=server.url, timeout=20, verify=False) as client:
            thread_id = (await client.post("/api/threads", json={})).json()["id"]
            await sse.read(client, f"/api/threads/{thread_id}/stream", at_most=1)
        await until(lambda: len(server.holdfast.store.hub) == 0)

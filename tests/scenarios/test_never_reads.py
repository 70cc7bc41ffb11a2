"""A peer that never reads is dropped, on every kind of stream and over both kinds of connection."""

import asyncio
import contextlib
import socket as sockets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.core import json
from app.core.settings import Settings
from app.protocols.a2a import exchange
from app.protocols.agui import run_stream
from app.protocols.http import parts
from app.protocols.langgraph import protocol_socket
from app.protocols.mcp import exchange as mcp_exchange
from app.protocols.stream import socket as stream_socket
from app.protocols.wire import follower
from tests.server import InProcessServer, in_process
from tests.waiting import until

LARGE = " ".join(["w" * 100_000] * 100)
"""More than every buffer between the server and a client that does not read."""


def _get(path: str, *headers: str) -> bytes:
    lines = "".join(f"{header}\r\n" for header in headers)
    return f"GET {path} HTTP/1.1\r\nhost: localhost\r\n{lines}\r\n".encode()


def _post(path: str, body: dict[str, Any], *headers: str) -> bytes:
    data = json.dumps(body)
    lines = "".join(f"{header}\r\n" for header in headers)
    return f"POST {path} HTTP/1.1\r\nhost: localhost\r\n{lines}content-length: {len(data)}\r\n\r\n".encode() + data


_UPGRADE = ("upgrade: websocket", "connection: upgrade", "sec-websocket-version: 13",
            "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==")  # fmt: skip
_USER = {"id": "1", "role": "user", "content": LARGE}
_GRAPH_RUN = {"assistant_id": "echo", "input": {"messages": [_USER]}, "stream_mode": ["messages-tuple"]}
_CHANNELS = {"channels": ["messages", "values"]}
_SUBSCRIBE = json.dumps({"id": 1, "method": "subscription.subscribe", "params": _CHANNELS})
_FIRST_FRAME = {"langgraph socket": bytes([0x81, 0x80 | len(_SUBSCRIBE), 0, 0, 0, 0]) + _SUBSCRIBE}
"""Sent when a websocket is open; masked, with a mask of zeros."""
_CHAT = {"model": "echo", "messages": [{"role": "user", "content": LARGE}], "stream": True}


def _request(kind: str, run: dict[str, Any]) -> bytes:
    match kind:
        case "run":
            return _get(f"/api/runs/{run['id']}/stream")
        case "thread":
            return _get(f"/api/threads/{run['threadId']}/stream")
        case "stored response":
            return _get(f"/v1/responses/resp_{run['id']}_0?stream=true")
        case "chat":
            return _post("/v1/chat/completions", _CHAT)
        case "agui":
            return _post("/agui/echo", {"threadId": "page", "runId": "1", "messages": [_USER]})
        case "a2a":
            message = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": LARGE}]}
            return _post("/a2a/echo/message:stream", {"message": message})
        case "langgraph":
            return _post("/langgraph/runs/stream", _GRAPH_RUN)
        case "langgraph thread":
            return _get(f"/langgraph/threads/{run['threadId']}/stream", "last-event-id: -1")
        case "langgraph events":
            return _post(f"/langgraph/threads/{run['threadId']}/stream/events", _CHANNELS)
        case "langgraph socket":
            return _get(f"/langgraph/threads/{run['threadId']}/stream/events", *_UPGRADE)
        case "response":
            return _post("/v1/responses", {"model": "echo", "input": LARGE, "stream": True})
    return _get(f"/api/stream?threadId={run['threadId']}&afterSeq=0", *_UPGRADE)


@contextlib.asynccontextmanager
async def _deaf(server: InProcessServer, request: bytes, then: bytes = b"") -> AsyncIterator[sockets.socket]:
    loop = asyncio.get_running_loop()
    with sockets.socket() as peer:
        peer.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
        peer.setblocking(False)
        host, port = server.url.removeprefix("http://").split(":")
        await loop.sock_connect(peer, (host, int(port)))
        await loop.sock_sendall(peer, request)
        if then:
            assert (await loop.sock_recv(peer, 1024)).startswith(b"HTTP/1.1 101")
            await loop.sock_sendall(peer, then)
        yield peer


async def _is_at_its_end(peer: sockets.socket) -> None:
    """What is in the kernel's buffers is the client's; then the connection has ended."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(ConnectionResetError):
        async with asyncio.timeout(30):
            while await loop.sock_recv(peer, 1 << 20):
                pass


async def _is_served(client: httpx2.AsyncClient, others: int) -> bool:
    gauges = (await client.get("/metrics")).text
    (line,) = [one for one in gauges.splitlines() if one.startswith("holdfast_requests_in_flight ")]
    return float(line.split()[1]) == others + 1  # this one itself


@pytest.mark.requirement("G12", "HK-29", "PX-10")
async def test_a_client_of_mcp_that_never_reads_its_result_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "MAX_TEXT", 2**24)
    monkeypatch.setattr(mcp_exchange, "MAX_BODY_BYTES", 2**25)
    monkeypatch.setattr(follower, "STALL_SECONDS", 0.3)
    call = {"name": "agent_echo", "arguments": {"message": LARGE}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    headers = {"accept": "text/event-stream", "mcp-protocol-version": "2025-11-25", "mcp-session-id": f"{'0' * 32}p"}
    async with (
        in_process(Settings(data_dir=tmp_path)) as server,
        httpx2.AsyncClient(base_url=server.url, timeout=60, verify=False) as client,
    ):
        lines = [f"{name}: {value}" for name, value in headers.items()]
        async with _deaf(server, _post("/mcp", message, *lines)) as peer:
            async with asyncio.timeout(30):
                while not (found := (await client.get("/api/runs?status=completed")).json()["items"]):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                while not await _is_served(client, 0):  # noqa: ASYNC110  # nothing says that it was dropped
                    await asyncio.sleep(0.01)
            await _is_at_its_end(peer)
        resume = _get("/mcp", *lines, f"last-event-id: 1.{found[0]['id']}")
        async with _deaf(server, resume) as peer:
            assert await asyncio.wait_for(asyncio.get_running_loop().sock_recv(peer, 15), 30) == b"HTTP/1.1 200 OK"
            async with asyncio.timeout(30):
                while not await _is_served(client, 0):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            await _is_at_its_end(peer)
        assert len(server.holdfast.store.hub) == 0


@pytest.mark.requirement("G12", "HK-29")
@pytest.mark.parametrize("direct", [True, False], ids=["direct", "asgi"])
async def test_a_peer_that_never_reads_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, direct: bool
) -> None:
    monkeypatch.setattr(parts, "MAX_TEXT", 2**24)
    for room in (run_stream, exchange):
        monkeypatch.setattr(room, "MAX_BODY_BYTES", 2**25)
    monkeypatch.setattr(follower, "STALL_SECONDS", 0.3)
    monkeypatch.setattr(stream_socket, "STALL_SECONDS", 0.3)
    monkeypatch.setattr(protocol_socket, "_STALL_SECONDS", 0.3)
    async with (
        in_process(Settings(data_dir=tmp_path), direct=direct) as server,
        httpx2.AsyncClient(base_url=server.url, timeout=60, verify=False) as client,
    ):
        hub = server.holdfast.store.hub
        run = (await client.post("/api/runs?wait=30", json={"agent": "echo", "input": LARGE})).json()
        assert run["status"] == "completed"
        kinds = ("run", "thread", "stored response", "websocket", "chat", "response", "agui", "a2a",
                 "langgraph", "langgraph thread", "langgraph events", "langgraph socket")  # fmt: skip
        for kind in kinds:
            async with _deaf(server, _request(kind, run), _FIRST_FRAME.get(kind, b"")) as peer:
                await until(lambda: len(hub) == 1)
                await until(lambda: len(hub) == 0)
                if direct:  # else the connection is the server's
                    await _is_at_its_end(peer)

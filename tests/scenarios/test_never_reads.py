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
from app.protocols.http import parts
from app.protocols.stream import socket as stream_socket
from app.protocols.wire import follower
from tests.server import InProcessServer, in_process
from tests.waiting import until

LARGE = " ".join(["w" * 100_000] * 100)
"""More than every buffer between the server and a client that does not read."""


def _get(path: str, *headers: str) -> bytes:
    lines = "".join(f"{header}\r\n" for header in headers)
    return f"GET {path} HTTP/1.1\r\nhost: localhost\r\n{lines}\r\n".encode()


def _post(path: str, body: dict[str, Any]) -> bytes:
    data = json.dumps(body)
    return f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data


_UPGRADE = ("upgrade: websocket", "connection: upgrade", "sec-websocket-version: 13",
            "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==")  # fmt: skip
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
        case "response":
            return _post("/v1/responses", {"model": "echo", "input": LARGE, "stream": True})
    return _get(f"/api/stream?threadId={run['threadId']}&afterSeq=0", *_UPGRADE)


@contextlib.asynccontextmanager
async def _deaf(server: InProcessServer, request: bytes) -> AsyncIterator[sockets.socket]:
    loop = asyncio.get_running_loop()
    with sockets.socket() as peer:
        peer.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
        peer.setblocking(False)
        host, port = server.url.removeprefix("http://").split(":")
        await loop.sock_connect(peer, (host, int(port)))
        await loop.sock_sendall(peer, request)
        yield peer


async def _is_at_its_end(peer: sockets.socket) -> None:
    """What is in the kernel's buffers is the client's; then the connection has ended."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(ConnectionResetError):
        async with asyncio.timeout(10):
            while await loop.sock_recv(peer, 1 << 20):
                pass


@pytest.mark.requirement("G12", "HK-29")
@pytest.mark.parametrize("direct", [True, False], ids=["direct", "asgi"])
async def test_a_peer_that_never_reads_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, direct: bool
) -> None:
    monkeypatch.setattr(parts, "MAX_TEXT", 2**24)
    monkeypatch.setattr(follower, "STALL_SECONDS", 0.3)
    monkeypatch.setattr(stream_socket, "STALL_SECONDS", 0.3)
    async with (
        in_process(Settings(data_dir=tmp_path), direct=direct) as server,
        httpx2.AsyncClient(base_url=server.url, timeout=30, verify=False) as client,
    ):
        hub = server.holdfast.store.hub
        run = (await client.post("/api/runs?wait=30", json={"agent": "echo", "input": LARGE})).json()
        assert run["status"] == "completed"
        for kind in ("run", "thread", "stored response", "websocket", "chat", "response"):
            async with _deaf(server, _request(kind, run)) as peer:
                await until(lambda: len(hub) == 1)
                await until(lambda: len(hub) == 0)
                if direct:  # else the connection is the server's
                    await _is_at_its_end(peer)

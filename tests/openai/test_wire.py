"""What a stream looks like on its connection: what leaves together, who notices a client that goes, who may stay."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from app.core import json
from app.core.settings import Settings
from app.protocols.http import parts
from app.protocols.wire import follower
from tests.openai.conftest import write_workspace
from tests.protocols.auth.auth_server import AuthServer, bearer
from tests.server import in_process
from tests.waiting import until


@contextlib.asynccontextmanager
async def _server(folder: Path, **settings: Any) -> AsyncIterator[AuthServer]:
    made = Settings(data_dir=folder / "data", workspace=write_workspace(folder / "workspace"), **settings)
    async with asyncio.timeout(30), in_process(made) as started:
        server = AuthServer(started.url, started.holdfast, started.app)
        try:
            yield server
        finally:
            for client in server._clients:
                await client.aclose()


async def _asked(
    server: AuthServer, text: str, *, agent: str = "helper", headers: dict[str, str] | None = None, **more: Any
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    address = urlsplit(server.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    body = json.dumps({"model": agent, "messages": [{"role": "user", "content": text}], "stream": True, **more})
    header_lines = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n{header_lines}content-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    return reader, writer


def _chunks(answer: bytes) -> list[bytes]:
    """The pieces of a chunked body; each was one write."""
    _, _, rest = answer.partition(b"\r\n\r\n")
    made: list[bytes] = []
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        made.append(rest[: int(size, 16)])
        rest = rest[int(size, 16) + 2 :]
    return made


async def test_the_head_of_an_answer_leaves_with_its_first_frame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "HEAD_SECONDS", 20.0)
    async with _server(tmp_path) as server:
        reader, writer = await _asked(server, "hello")
        first = await reader.read(65_536)
        assert first.startswith(b"HTTP/1.1 200 OK\r\n") and b"\r\n\r\n" in first and b"data: {" in first
        answer = await _all(reader, first)
        assert answer.count(b"HTTP/1.1") == 1 and _chunks(answer)[-2].endswith(b"data: [DONE]\n\n")
        # The connection goes on to the next request.
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.close()


async def test_a_client_that_has_to_wait_gets_the_head_of_its_answer(tmp_path: Path) -> None:
    async with _server(tmp_path) as server:
        reader, writer = await _asked(server, "publish it")
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"x-holdfast-run-id: run_" in head and b"x-request-id: req_" in head and b"date: " in head
        writer.close()


async def test_nobody_waits_for_a_client_to_leave_and_it_is_noticed(tmp_path: Path) -> None:
    async with _server(tmp_path) as server:
        before = asyncio.all_tasks()
        reader, writer = await _asked(server, "publish it", metadata={"on_disconnect": "cancel"})
        await reader.readuntil(b"\r\n\r\n")
        hub, runs = server.holdfast.store.hub, server.holdfast.store.reader
        await until(lambda: server.holdfast.executor.running == 0)
        serving = [task for task in asyncio.all_tasks() - before if "run_asgi" in repr(task.get_coro())]
        assert len(hub) == 1 and len(serving) == 1 and len(asyncio.all_tasks() - before) <= 2
        writer.close()
        await until(lambda: len(hub) == 0)
        await until(serving[0].done)
        (run,) = await runs.runs("default", thread_id=None, status=None, before=None, limit=2)
        assert run.status == "cancelled"


@pytest.mark.requirement("S7")
async def test_a_stream_ends_when_its_reader_s_key_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "HEAD_SECONDS", 0.05)
    async with _server(tmp_path, auth="keys") as server:
        admin = await server.caller("admin")
        made = (await admin.post("/api/keys", json={"name": "reader", "roles": ["member"]})).json()
        reader, writer = await _asked(server, "publish it", headers=bearer(made["key"]))
        await reader.readuntil(b"\r\n\r\n")
        await admin.delete(f"/api/keys/{made['id']}")
        rest = await reader.readuntil(b"0\r\n\r\n")
        assert b"[DONE]" not in rest and b"error" not in rest
        await until(lambda: len(server.holdfast.store.hub) == 0)
        writer.close()


async def test_a_silent_stream_is_kept_open_with_comments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("KEEP_ALIVE_SECONDS", 0.05), ("TICK_SECONDS", 0.02), ("HEAD_SECONDS", 0.02)):
        monkeypatch.setattr(follower, name, seconds)
    async with _server(tmp_path) as server:
        reader, writer = await _asked(server, "publish it")
        assert (await reader.readuntil(b": still here\n\n")).startswith(b"HTTP/1.1 200")
        await reader.readuntil(b": still here\n\n")
        writer.close()


@pytest.mark.requirement("G12")
async def test_a_reader_that_takes_its_time_gets_everything(tmp_path: Path) -> None:
    async with _server(tmp_path) as server:
        said = "everything" * 60_000  # too large for its event and for the connection's buffer
        reader, writer = await _asked(server, said, agent="echo")
        answer = await reader.readuntil(b"\r\n\r\n")
        await until(lambda: server.holdfast.executor.running == 0)
        answer = await _all(reader, answer)
        frames = b"".join(_chunks(answer)).split(b"\n\n")
        texts = [json.loads(frame.removeprefix(b"data: "))["choices"][0]["delta"] for frame in frames[:-2]]
        assert "".join(text.get("content", "") for text in texts).strip() == said.strip()
        assert frames[-2] == b"data: [DONE]"
        writer.close()


@pytest.mark.requirement("G12")
async def test_a_reader_that_falls_behind_gets_an_error_and_nobody_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "MAX_TEXT", 2**24)  # more than the system's own buffers take
    async with _server(tmp_path) as server:
        reader, writer = await _asked(server, " ".join(["w" * 100_000] * 100), agent="echo")
        await until(lambda: server.holdfast.store.hub.dropped == 1, 25)
        answer = await _all(reader, b"")
        *_, error, done, rest = b"".join(_chunks(answer)).split(b"\n\n")
        assert (b'"reader_too_slow"' in error, done, rest) == (True, b"data: [DONE]", b"")
        writer.close()


@pytest.mark.requirement("G15")
async def test_a_server_that_stops_says_so_to_its_streams(tmp_path: Path) -> None:
    async with _server(tmp_path) as server:
        reader, writer = await _asked(server, "publish it")
        head = await reader.readuntil(b"\r\n\r\n")
        server.holdfast.store.hub.close_all()
        answer = await _all(reader, head)
        assert b'"server_draining"' in answer and b"data: [DONE]" in answer
        writer.close()


async def test_requests_sent_ahead_are_answered_one_after_the_other(tmp_path: Path) -> None:
    async with _server(tmp_path) as server:
        reader, writer = await _asked(server, "slowly please")
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        answer = await reader.read()
        while piece := await reader.read():
            answer += piece
        stream, _, health = answer.partition(b"\r\n0\r\n\r\n")
        assert stream.endswith(b"data: [DONE]\n\n") and b"Eight" in stream
        assert health.startswith(b"HTTP/1.1 200") and b"connection: close" in health
        writer.close()


async def test_a_client_that_wants_no_further_request_is_hung_up_on(tmp_path: Path) -> None:
    async with _server(tmp_path) as server:
        reader, writer = await _asked(server, "hello", headers={"connection": "close"})
        answer = await reader.read()
        assert b"\r\nconnection: close\r\n" in answer and answer.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
        writer.close()


async def _all(reader: asyncio.StreamReader, answer: bytes) -> bytes:
    while not answer.endswith(b"\r\n0\r\n\r\n"):
        answer += await reader.read(65_536)
    return answer

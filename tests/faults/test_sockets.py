"""Many sockets, bad sockets, broken sockets: readers that never read, idle ones, cuts at every place, restarts.

Small counts belong to the ordinary suite; the full ones to `make faults`.
"""

import asyncio
import contextlib
import random
import re
import resource
import socket as sockets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, ConnectionClosedError

from app.core.settings import Settings
from tests.clients import receive
from tests.faults.conftest import Report
from tests.server import ServerProcess

full = pytest.mark.faults

_KEY = "dGhlIHNhbXBsZSBub25jZQ=="


def _client(server: ServerProcess) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=server.url, timeout=120, verify=False)


async def _run(client: httpx2.AsyncClient, thread_id: str, text: str) -> int:
    body = {"agent": "echo", "input": text, "threadId": thread_id, "createThread": True}
    run = (await client.post("/api/runs", params={"wait": 120}, json=body)).json()
    assert run["status"] == "completed", run
    return int(run["lastSeq"])


# -- coming back --------------------------------------------------------------------------------------


async def _slice(server: ServerProcess, thread_id: str, after: int, count: int) -> list[str]:
    """Some frames after a cursor; then the connection is lost."""
    frames: list[str] = []
    while not frames:
        async with connect(f"{server.stream_url}?threadId={thread_id}&afterSeq={after}&types=runtime.*") as socket:
            with _unless_too_slow():
                await receive(socket, 30)
                frames = [(await receive(socket, 30))["id"] for _ in range(count)]
            socket.transport.abort()
    return frames


@contextlib.contextmanager
def _unless_too_slow() -> Iterator[None]:
    """A reader on a busy machine may be told to come back where it was (1013)."""
    try:
        yield
    except ConnectionClosedError as closed:
        if closed.rcvd is None or closed.rcvd.code != 1013:
            raise


async def _with_cuts(server: ServerProcess, thread_id: str, until: int, dice: random.Random) -> list[tuple[int, int]]:
    """(seq, part) of every frame of the thread, by a reader that keeps being cut off in the middle of events."""
    seen: list[tuple[int, int]] = []
    query = "afterSeq=0"
    while True:
        async with connect(f"{server.stream_url}?threadId={thread_id}&{query}") as socket:
            with _unless_too_slow():
                await receive(socket, 30)
                for _ in range(dice.randrange(1, 400)):
                    frame = await receive(socket, 30)
                    seen.append((frame["seq"], frame["part"]))
                    if frame["last"] and frame["seq"] == until:
                        return seen
            query = f"afterSeq={seen[-1][0]}&afterPart={seen[-1][1]}" if seen else query
            socket.transport.abort()


def _is_exact(seen: list[tuple[int, int]], until: int) -> bool:
    """Every event from 1 on, every part of it from 0 on, each once and in order."""
    return (
        sorted(set(seen)) == seen
        and {seq for seq, _ in seen} == set(range(1, until + 1))
        and all(part == 0 or seen[at - 1] == (seq, part - 1) for at, (seq, part) in enumerate(seen))
    )


@pytest.mark.requirement("PX-1", "CARD-3")
@pytest.mark.parametrize(
    ("settings", "step"),
    [pytest.param("sqlite", 1, marks=full), pytest.param("postgres", 1, marks=full), ("sqlite", 37)],
    indirect=["settings"],
)
async def test_a_run_of_a_thousand_events_resumes_at_every_seq_also_after_a_restart(
    settings: Settings, report: Report, step: int
) -> None:
    dice = random.Random(11)
    folder, database = settings.data_dir, settings.database_url
    async with ServerProcess.running(folder, database) as server, _client(server) as client:
        last = await _run(client, "thr_long", " ".join(f"w{n}" for n in range(995)))
        assert last >= 1000
        whole: list[str] = []
        while len(whole) < last:
            page = await client.get("/api/threads/thr_long/events", params={"after": len(whole), "limit": 1000})
            whole += [event["id"] for event in page.json()["items"]]
        before = await _with_cuts(server, "thr_long", last, dice)
        assert _is_exact(before, last)
        await asyncio.to_thread(server.kill)
    async with ServerProcess.running(folder, database) as server:
        started = time.monotonic()
        assert await _with_cuts(server, "thr_long", last, dice) == before
        for start in range(0, last, 20 * step):
            cursors = range(start, min(last, start + 20 * step), step)
            counts = [min(dice.randrange(1, 8), last - after) for after in cursors]
            found = await asyncio.gather(
                *(_slice(server, "thr_long", after, count) for after, count in zip(cursors, counts, strict=True))
            )
            assert found == [whole[after : after + count] for after, count in zip(cursors, counts, strict=True)]
    report(f"{len(range(0, last, step))} cursors of {last} events resumed in {time.monotonic() - started:.0f} s")


@pytest.mark.requirement("PX-1", "G15")
async def test_a_reader_follows_a_thread_through_restarts_of_the_server(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    for life in range(2):
        async with ServerProcess.running(tmp_path) as server, _client(server) as client:
            after = f"&afterSeq={seen[-1][0]}" if seen else ""
            async with connect(f"{server.stream_url}?threadId=thr_lives{after}") as socket:
                await receive(socket, 30)
                running = asyncio.create_task(_run(client, "thr_lives", "a b c " * (life + 2)))
                last = None
                while last is None or seen[-1:] == [] or seen[-1][0] < last:
                    frame = await receive(socket, 30)
                    seen.append((frame["seq"], frame["part"]))
                    if running.done():
                        last = running.result()
                    elif frame["type"] == "runtime.request.completed":
                        last = await running
                while not frame["last"]:
                    frame = await receive(socket, 30)
                    seen.append((frame["seq"], frame["part"]))
                await asyncio.to_thread(server.stop)
                with pytest.raises(ConnectionClosed) as closed:
                    await receive(socket, 30)
                assert closed.value.rcvd is not None and closed.value.rcvd.code == 1012
    assert _is_exact(seen, seen[-1][0])


# -- readers that never read --------------------------------------------------------------------------


def _resident(pid: int, what: str = "VmRSS") -> int:
    found = re.search(rf"{what}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def _handshake(host: str, port: str, query: str = "") -> bytes:
    return (
        f"GET /api/stream{query} HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\n"
        f"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {_KEY}\r\n\r\n"
    ).encode()


def _never_reads(server: ServerProcess) -> sockets.socket:
    """The handshake by hand: a client library would read ahead."""
    host, _, port = server.url.removeprefix("http://").partition(":")
    raw = sockets.socket()
    raw.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
    raw.connect((host, int(port)))
    raw.sendall(_handshake(host, port))
    return raw


async def _reads_all(server: ServerProcess, ready: asyncio.Semaphore, runs: int) -> int:
    """Every event of every thread once and in order; how many until all runs have ended.

    By hand as well: fifty client libraries in one process would take most of the time.
    """
    host, _, port = server.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1024 * 1024)
    writer.write(_handshake(host, port, "?types=runtime.*"))
    await reader.readuntil(b"\r\n\r\n")
    last: dict[bytes, int] = {}
    ended = 0
    data = b""
    while ended < runs:
        more = await asyncio.wait_for(reader.read(1024 * 1024), 60)
        assert more, "the reader was closed"
        frames, data = _frames(data + more)
        for opcode, text in frames:
            if opcode == _PING:
                writer.write(bytes([0x80 | _PONG, 0x80 | len(text), 0, 0, 0, 0]) + text)  # masked with nothing
                continue
            if text.startswith(b'{"type":"ready"'):
                ready.release()
                continue
            found = _FRAME.match(text)
            assert found is not None and opcode == _TEXT
            assert int(found[3]) == last.get(found[2], 0) + 1
            last[found[2]] = int(found[3])
            ended += found[1] == b"runtime.request.completed"
    writer.transport.abort()
    return sum(last.values())


def _frames(data: bytes) -> tuple[list[tuple[int, bytes]], bytes]:
    """(opcode, payload) of the whole frames, and the rest."""
    frames: list[tuple[int, bytes]] = []
    at = 0
    while len(data) - at >= 2:
        size, start = data[at + 1], at + 2
        if size > 125:
            wide = 2 if size == 126 else 8
            size, start = int.from_bytes(data[start : start + wide], "big"), start + wide
        if len(data) < start + size:
            break
        frames.append((data[at] & 15, data[start : start + size]))
        at = start + size
    return frames, data[at:]


_TEXT, _PING, _PONG = 1, 9, 10
_FRAME = re.compile(rb'\{"type":"([^"]+)","threadId":"([^"]+)","seq":(\d+),')


async def _metric(client: httpx2.AsyncClient, name: str) -> int:
    found = re.search(rf"^holdfast_{name} (\S+)$", (await client.get("/metrics")).text, re.MULTILINE)
    assert found is not None, name
    return int(float(found[1]))


async def _settled(client: httpx2.AsyncClient, seconds: float, **metrics: int) -> None:
    """Returns when the server counts so many; there is nothing to await but its own figures."""
    async with asyncio.timeout(seconds):
        while True:
            found = {name: await _metric(client, name) for name in metrics}
            if found == metrics:
                return
            await asyncio.sleep(0.1)


@pytest.mark.requirement("G12", "G13")
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("each", "runs", "words", "size"),
    [pytest.param(50, 10, 1000, 900, marks=full), pytest.param(5, 6, 200, 4000)],
)
async def test_readers_that_never_read_are_closed_and_the_others_get_everything(
    tmp_path: Path, each: int, runs: int, words: int, size: int
) -> None:
    async with (
        ServerProcess.running(tmp_path) as server,
        _client(server) as client,
        contextlib.AsyncExitStack() as stack,
    ):
        ready = asyncio.Semaphore(0)
        for _ in range(each):
            stack.enter_context(await asyncio.to_thread(_never_reads, server))
        text = " ".join("x" * size for _ in range(words))
        good = [asyncio.create_task(_reads_all(server, ready, runs)) for _ in range(each)]
        for _ in range(each):
            await ready.acquire()
        before = _resident(server.pid)
        started = time.monotonic()
        # One long thread: the history that its runs are given must not weigh either.
        events = [await _run(client, "thr_busy", text) for _ in range(runs)][-1]
        assert events >= runs * words
        assert await asyncio.gather(*good) == [events] * each
        took = time.monotonic() - started
        await _settled(client, 60, subscribers=0, readers_dropped_total=each)
        grown = _resident(server.pid, "VmHWM") - before
        print(f"{each}+{each} readers, {events} events in {took:.1f} s, memory grew by {grown / 1e6:.0f} MB")
        assert grown < 100e6


@pytest.mark.requirement("G13")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("count", [pytest.param(5000, marks=full), 200])
async def test_idle_sockets_cost_little(tmp_path: Path, count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count + 200:
        pytest.skip(f"the machine allows {hard} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + 200), hard))  # the server inherits it
    try:
        async with ServerProcess.running(tmp_path) as server, _client(server) as client:
            await client.get("/healthz")
            before = await _steady(server.pid)  # after its start it prepares for requests of every kind
            async with contextlib.AsyncExitStack() as open_sockets:
                for _ in range(count):
                    await open_sockets.enter_async_context(_idle(server))
                await _settled(client, 60, subscribers=count)
                total = _resident(server.pid)
                print(f"{count} idle sockets: {total / 1e6:.0f} MB, {(total - before) / count / 1024:.1f} KiB each")
                assert total < 400e6
                assert (total - before) / count < 60 * 1024
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def _steady(pid: int) -> int:
    """The memory of a process once it has not changed for a second."""
    seen: list[int] = []
    async with asyncio.timeout(30):
        while len(seen) < 20 or seen[-1] - seen[-20] > 100_000:  # nothing announces it
            await asyncio.sleep(0.05)
            seen.append(_resident(pid))
    return seen[-1]


@contextlib.asynccontextmanager
async def _idle(server: ServerProcess) -> Any:
    """Open and greeted, without a client library's own weight."""
    host, _, port = server.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(_handshake(host, port, "?threadId=thr_idle"))
    assert b"101" in await reader.readline()
    await reader.readuntil(b'{"type":"ready","threadId":"thr_idle"}')
    try:
        yield
    finally:
        writer.transport.abort()

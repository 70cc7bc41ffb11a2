"""What reaches which socket, with the store in reach: global news, system threads, replaced filters, slow readers."""

import asyncio
import contextlib
import socket as sockets
from collections.abc import AsyncIterator

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosedError

from app.core import json
from app.core.ids import new_id
from app.core.principal import DEFAULT_TENANT
from app.core.settings import Settings
from app.events.catalog import Payload, ledger, thread
from app.events.recorder import Scope
from app.protocols.stream import socket as stream_socket
from app.views.thread import Thread
from app.wiring import web
from tests.clients import receive_event
from tests.server import InProcessServer, in_process
from tests.waiting import until


@pytest.fixture
async def server(settings: Settings) -> AsyncIterator[InProcessServer]:
    async with in_process(settings) as server:
        yield server


def _row(number: int, content: str = "x") -> thread.TranscriptUpserted:
    return thread.TranscriptUpserted.model_validate(
        {"messageId": f"m{number}", "turnId": "t", "role": "user", "type": "message", "content": content,
         "status": "complete"}
    )  # fmt: skip


async def _record(server: InProcessServer, thread_id: str, *payloads: Payload) -> None:
    await server.holdfast.store.recorder.record(Scope(DEFAULT_TENANT, thread_id), *payloads)


async def _thread(server: InProcessServer, *payloads: Payload, prefix: str = "thr_") -> str:
    thread_id = new_id("thread").replace("thr_", prefix)
    await _record(server, thread_id, thread.ThreadCreated(), *payloads)
    return thread_id


async def _ledger_seq(server: InProcessServer) -> int:
    found = await server.holdfast.store.reader.thread(DEFAULT_TENANT, "sys_ledger")
    assert isinstance(found, Thread)
    return found.last_seq


async def _subscribe(socket: ClientConnection, **command: object) -> None:
    """To the events' own frames: what a closing client has not read, its library waits for."""
    await socket.send(json.dumps({"type": "subscribe", "types": ["runtime.*"], **command}).decode())


async def _heard(socket: ClientConnection, last_type: str) -> list[tuple[str | None, int]]:
    """(thread, seq) of the frames up to one of that type, without those of a thread's creation, which came before the
    socket: a server on Postgres that polls finds the last event of a followed thread, and a socket without a cursor
    hears it."""
    seen = []
    while True:
        frame = await receive_event(socket)
        if frame["type"] != "runtime.thread.created":
            seen.append((frame["threadId"], frame["seq"]))
        if frame["type"] == last_type:
            return seen


@pytest.mark.requirement("CM-2")
async def test_global_news_reaches_every_socket_without_a_thread(server: InProcessServer) -> None:
    mine, other = await _thread(server), await _thread(server)
    async with (
        connect(f"{server.stream_url}?threadId={mine}") as filtered,
        connect(server.stream_url) as unfiltered,
    ):
        await receive_event(filtered), await receive_event(unfiltered)
        await _record(server, other, _row(1))
        await _record(server, "sys_ledger", ledger.WorkspaceLoaded(digest="d", agents=1))
        await _record(server, mine, thread.ThreadClosed())
        ledger_seq = await _ledger_seq(server)
        assert await _heard(filtered, "runtime.thread.closed") == [(None, ledger_seq), (mine, 2)]
        assert await _heard(unfiltered, "runtime.thread.closed") == [(other, 2), (None, ledger_seq), (mine, 2)]


@pytest.mark.requirement("CM-2")
async def test_a_system_thread_is_heard_only_by_who_asks_for_exactly_it(server: InProcessServer) -> None:
    mine, system = await _thread(server), await _thread(server, prefix="sys_")
    async with (
        connect(f"{server.stream_url}?threadId={mine}") as filtered,
        connect(server.stream_url) as unfiltered,
        connect(f"{server.stream_url}?threadId={system}") as exact,
    ):
        await receive_event(filtered), await receive_event(unfiltered), await receive_event(exact)
        await _record(server, system, ledger.KeyCreated(key_id="k", name="n", roles=[], scopes=[]))
        await _record(server, system, thread.ThreadClosed())
        await _record(server, mine, thread.ThreadClosed())
        assert await _heard(filtered, "runtime.thread.closed") == [(mine, 2)]
        assert await _heard(unfiltered, "runtime.thread.closed") == [(mine, 2)]
        assert await _heard(exact, "runtime.thread.closed") == [(system, 2), (system, 3)]


@pytest.mark.requirement("CM-2")
async def test_the_exact_subscriber_of_a_ledger_resumes_it_with_its_global_news(server: InProcessServer) -> None:
    loaded = await _ledger_seq(server)  # the server has recorded its workspace there
    async with connect(f"{server.stream_url}?threadId=sys_ledger&afterSeq={loaded - 1}") as socket:
        await receive_event(socket)
        await _record(server, "sys_ledger", ledger.WorkspaceLoaded(digest="e", agents=1))
        await _record(server, "sys_ledger", ledger.KeyRevoked(key_id="k"))
        seen = await _heard(socket, "runtime.key.revoked")
        assert seen == [(None, loaded), (None, loaded + 1), ("sys_ledger", loaded + 2)]


LARGE = "0123456789" * 1500
"""So large that a few hundred of them fill every buffer between the server and a client that does not read."""


async def _large_thread(server: InProcessServer, events: int = 600) -> str:
    thread_id = await _thread(server)
    for start in range(0, events, 60):
        await _record(server, thread_id, *(_row(n, LARGE) for n in range(start, start + 60)))
    return thread_id


@pytest.mark.requirement("CM-1", "PX-1")
async def test_a_filter_replaced_while_history_is_sent_hears_its_own_threads(server: InProcessServer) -> None:
    large, other = await _large_thread(server), await _thread(server)
    async with connect(f"{server.stream_url}?threadId={large}&afterSeq=0&types=runtime.*", max_queue=2) as socket:
        await receive_event(socket)
        await _subscribe(socket, threadId=other)
        await socket.send('{"type":"ping"}')
        sent = 0
        while (await receive_event(socket))["type"] != "pong":
            sent += 1
        for number in range(3):
            await _record(server, other, _row(number))
        frames = [await receive_event(socket)]
        while (frames[-1]["threadId"], frames[-1]["seq"]) != (other, 4):
            frames.append(await receive_event(socket))
        assert [frame["seq"] for frame in frames if frame["threadId"] == other] == [2, 3, 4]
        assert sent + len(frames) < 600  # the old history was not sent to its end


@pytest.mark.requirement("PX-1")
async def test_the_same_thread_asked_for_again_is_sent_from_the_new_cursor(server: InProcessServer) -> None:
    large = await _large_thread(server)
    async with connect(f"{server.stream_url}?threadId={large}&afterSeq=0&types=runtime.*", max_queue=2) as socket:
        await receive_event(socket)
        await _subscribe(socket, threadId=large, afterSeq=500)
        await _subscribe(socket, threadId=large, afterSeq=3)
        seen = [(await receive_event(socket))["seq"]]
        while seen[-1] != 601:
            seen.append((await receive_event(socket))["seq"])
        assert seen[-598:] == list(range(4, 602))


@pytest.mark.requirement("PX-1", "CM-2")
async def test_what_happens_elsewhere_while_history_is_sent_is_not_lost(server: InProcessServer) -> None:
    large, other = await _large_thread(server), await _thread(server)
    async with connect(server.stream_url, max_queue=2) as socket:
        await receive_event(socket)
        await _subscribe(socket, threads={large: 0, other: None})
        first = await receive_event(socket)
        assert first["threadId"] == large
        for number in range(3):
            await _record(server, other, _row(number))
        await _record(server, "sys_ledger", ledger.WorkspaceLoaded(digest="d", agents=1))
        await _record(server, large, _row(1))
        seen: dict[str | None, list[int]] = {large: [1], other: [], None: []}
        while seen[large][-1] != 602 or seen[other][-1:] != [4] or not seen[None]:
            frame = await receive_event(socket)
            seen[frame["threadId"]].append(frame["seq"])
        assert seen == {large: list(range(1, 603)), other: [2, 3, 4], None: [await _ledger_seq(server)]}


# -- slow readers -------------------------------------------------------------------------------------


def _connect_and_never_read(server: InProcessServer, thread_id: str) -> sockets.socket:
    """The handshake by hand: a client library would read ahead."""
    host, _, port = server.url.removeprefix("http://").partition(":")
    raw = sockets.socket()
    raw.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
    raw.connect((host, int(port)))
    raw.sendall(
        f"GET /api/stream?threadId={thread_id} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
    )
    return raw


def _read_to_the_end(raw: sockets.socket) -> None:
    raw.settimeout(30)
    with contextlib.suppress(ConnectionResetError):
        while raw.recv(1 << 20):
            pass


async def _read_until_closed(socket: ClientConnection, seen: list[int]) -> None:
    while True:
        seen.append((await receive_event(socket))["seq"])


async def _flood(server: InProcessServer, thread_id: str, reader: ClientConnection, events: int) -> list[int]:
    """Events as fast as one reader takes them; what that reader saw."""
    seen: list[int] = []
    for start in range(0, events, 30):
        await _record(server, thread_id, *(_row(n, LARGE) for n in range(start, start + 30)))
        while len(seen) < start + 30:
            seen.append((await receive_event(reader))["seq"])
    return seen


async def _listening(server: InProcessServer, count: int) -> None:
    await until(lambda: len(server.holdfast.store.hub) == count)


@pytest.mark.requirement("G12", "HK-29")
async def test_a_reader_that_never_reads_is_dropped_and_nobody_else_waits(
    server: InProcessServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_socket, "CLOSE_SECONDS", 0.2)
    thread_id = await _thread(server)
    raw = await asyncio.to_thread(_connect_and_never_read, server, thread_id)
    try:
        async with connect(f"{server.stream_url}?threadId={thread_id}") as reader:
            await receive_event(reader)
            await _listening(server, 2)
            seen = await asyncio.wait_for(_flood(server, thread_id, reader, 900), 30)
            assert seen == list(range(2, 902))
            assert server.holdfast.store.hub.dropped == 1
            await _listening(server, 1)
            # What lies in its buffers is the client's; then the connection is at its end.
            await asyncio.wait_for(asyncio.to_thread(_read_to_the_end, raw), 30)
    finally:
        raw.close()


@pytest.mark.requirement("G12", "PX-1")
async def test_a_reader_that_wakes_up_in_time_reads_1013_and_where_to_go_on(server: InProcessServer) -> None:
    thread_id = await _thread(server)
    async with (
        connect(f"{server.stream_url}?threadId={thread_id}", max_queue=1) as sleeper,
        connect(f"{server.stream_url}?threadId={thread_id}") as reader,
    ):
        await receive_event(sleeper), await receive_event(reader)
        assert await _flood(server, thread_id, reader, 900) == list(range(2, 902))
        seen: list[int] = []
        with pytest.raises(ConnectionClosedError) as closed:
            await _read_until_closed(sleeper, seen)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1013
    assert json.loads(closed.value.rcvd.reason) == {"lastSeq": {thread_id: seen[-1]}}
    assert seen == list(range(2, seen[-1] + 1))
    async with connect(f"{server.stream_url}?threadId={thread_id}&afterSeq={seen[-1]}") as again:
        await receive_event(again)
        while seen[-1] != 901:
            seen.append((await receive_event(again))["seq"])
    assert seen == list(range(2, 902))


@pytest.mark.requirement("G12", "G15")
async def test_a_reader_stuck_in_its_history_does_not_keep_the_server_from_stopping(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_socket, "STALL_SECONDS", 3600.0)  # what it would wait for
    monkeypatch.setattr(web, "_GRACE_SECONDS", 60)
    async with in_process(settings) as server:
        large = await _large_thread(server)
        raw = await asyncio.to_thread(_connect_and_never_read, server, f"{large}&afterSeq=0")
        await _listening(server, 1)
        stopping_from = asyncio.get_running_loop().time()
    with raw:
        assert asyncio.get_running_loop().time() - stopping_from < 20


@pytest.mark.requirement("G15")
async def test_a_stopping_server_closes_its_sockets_with_1012_and_their_cursors(settings: Settings) -> None:
    async with in_process(settings) as server:
        thread_id = await _thread(server, _row(1))
        socket = await connect(f"{server.stream_url}?threadId={thread_id}&afterSeq=0")
        assert [(await receive_event(socket))["type"] for _ in range(2)] == ["ready", "runtime.thread.created"]
        await receive_event(socket)
    await asyncio.wait_for(socket.wait_closed(), 30)
    assert (socket.close_code, json.loads(socket.close_reason or "")) == (1012, {"lastSeq": {thread_id: 2}})

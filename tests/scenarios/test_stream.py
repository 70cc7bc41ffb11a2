"""`/api/stream` over the real server: commands, filters and cursors, to the letter of the published contract."""

import asyncio
import random
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import ClientConnection, connect

from app.core import json
from app.core.ids import new_id
from tests.clients import receive_event
from tests.server import ServerProcess

ERROR = '{"type":"error","message":"invalid websocket command"}'
PONG = '{"type":"pong"}'


async def _command(socket: ClientConnection, **command: object) -> None:
    await socket.send(json.dumps(command).decode())


async def _ready(socket: ClientConnection) -> dict[str, Any]:
    frame = await receive_event(socket)
    assert frame["type"] == "ready"
    return frame


async def _settled(socket: ClientConnection) -> None:
    """Commands are done in order, so a pong says that those before it are in force."""
    await _command(socket, type="ping")
    assert await receive_event(socket) == {"type": "pong"}


async def _run(client: httpx2.AsyncClient, thread_id: str, text: str = "a b") -> dict[str, Any]:
    body = {"agent": "echo", "input": text, "threadId": thread_id, "createThread": True}
    run: dict[str, Any] = (await client.post("/api/runs", params={"wait": 30}, json=body)).json()
    assert run["status"] == "completed"
    return run


async def _events(client: httpx2.AsyncClient, thread_id: str) -> list[dict[str, Any]]:
    page = await client.get(f"/api/threads/{thread_id}/events", params={"limit": 1000})
    items: list[dict[str, Any]] = page.json()["items"]
    return items


async def _until(socket: ClientConnection, thread_id: str, seq: int) -> list[dict[str, Any]]:
    """Frames up to the one of that thread with that `seq`."""
    frames = [await receive_event(socket)]
    while (frames[-1]["threadId"], frames[-1]["seq"]) != (thread_id, seq):
        frames.append(await receive_event(socket))
    return frames


@pytest.mark.smoke
@pytest.mark.requirement("CM-1")
@pytest.mark.parametrize(
    ("query", "thread_id"),
    [
        ("", None),
        ("?threadId=thr_1", "thr_1"),
        ("?threadId=", None),
        ("?threadId=a&threadId=b", None),
        ("?threadId=a&threadId=a", None),
        ("?threadId=%20a%20", " a "),
        ("?threadId=%20", " "),
        ("?thread_id=a&other=b", None),
    ],
)
async def test_the_first_frame_is_ready_with_the_thread_of_the_address(
    server: ServerProcess, query: str, thread_id: str | None
) -> None:
    async with connect(server.stream_url + query) as socket:
        assert await receive_event(socket) == {"type": "ready", "threadId": thread_id}


@pytest.mark.requirement("CM-1")
@pytest.mark.parametrize(
    "query",
    ["threadId=a&afterSeq=", "threadId=a&afterSeq=x", "threadId=a&afterSeq=-1", "threadId=a&afterSeq=1&afterSeq=2",
     "threadId=a&afterSeq=9223372036854775808", "threadId=a&afterSeq=%C2%B2", "afterSeq=1"],
)  # fmt: skip
async def test_a_cursor_in_the_address_that_cannot_be_one_gets_the_error_frame(
    server: ServerProcess, query: str
) -> None:
    async with connect(f"{server.stream_url}?{query}") as socket:
        assert await receive_event(socket) == {"type": "ready", "threadId": None}
        assert await asyncio.wait_for(socket.recv(), 30) == ERROR
        await _settled(socket)


@pytest.mark.requirement("CM-1")
@pytest.mark.parametrize("ping", ['{"type":"ping"}', b'{"type":"ping"}', ' {"type" : "ping", "extra": [1]}\n'])
async def test_a_ping_gets_a_pong_also_in_a_binary_frame(server: ServerProcess, ping: str | bytes) -> None:
    async with connect(server.stream_url) as socket:
        await _ready(socket)
        await socket.send(ping)
        assert await asyncio.wait_for(socket.recv(), 30) == PONG


@pytest.mark.requirement("CM-1")
@pytest.mark.parametrize(
    "command",
    [
        "not json",
        " ",
        "null",
        "5",
        '"ping"',
        "[]",
        "{}",
        '{"type":null}',
        '{"type":"PING"}',
        '{"type":["ping"]}',
        '{"type":"publish"}',
        '{"type":"ping"',
        '{"type":"ping","x":NaN}',
        '{"type":"subscribe"}',
        '{"type":"subscribe","threadId":""}',
        '{"type":"subscribe","threadId":null}',
        '{"type":"subscribe","threadId":5}',
        '{"type":"subscribe","threadId":["a"]}',
        '{"type":"subscribe","threadId":"a\\u0000"}',
        '{"type":"subscribe","threadId":"a\\ud800"}',
        '{"type":"subscribe","threadId":"a","afterSeq":-1}',
        '{"type":"subscribe","threadId":"a","afterSeq":"1"}',
        '{"type":"subscribe","threadId":"a","afterSeq":1.5}',
        '{"type":"subscribe","threadId":"a","afterSeq":true}',
        '{"type":"subscribe","threadId":"a","afterSeq":9223372036854775808}',
        '{"type":"subscribe","threads":{}}',
        '{"type":"subscribe","threads":[]}',
        '{"type":"subscribe","threads":{"":0}}',
        '{"type":"subscribe","threads":{"a":"x"}}',
        '{"type":"subscribe","threads":{' + ",".join(f'"t{n}":0' for n in range(101)) + "}}",
        b"\xff\xfe\x00",
        b'{"type":"ping\xff"}',
        "[" * 2000,
    ],
    ids=lambda command: repr(command)[:50],
)
async def test_what_is_no_command_gets_the_error_frame_and_the_socket_stays_open(
    server: ServerProcess, command: str | bytes
) -> None:
    async with connect(server.stream_url) as socket:
        await _ready(socket)
        await socket.send(command)
        assert await asyncio.wait_for(socket.recv(), 30) == ERROR
        await socket.send('{"type":"ping"}')
        assert await asyncio.wait_for(socket.recv(), 30) == PONG


@pytest.mark.requirement("CM-1")
async def test_a_message_of_no_length_is_ignored(server: ServerProcess) -> None:
    async with connect(server.stream_url) as socket:
        await _ready(socket)
        await socket.send("")
        await socket.send(b"")
        await socket.send('{"type":"ping"}')
        assert await asyncio.wait_for(socket.recv(), 30) == PONG


@pytest.mark.requirement("CM-1")
async def test_an_invalid_subscribe_leaves_the_filter_as_it_was(
    server: ServerProcess, client: httpx2.AsyncClient
) -> None:
    mine, other = new_id("thread"), new_id("thread")
    async with connect(f"{server.stream_url}?threadId={mine}") as socket:
        await _ready(socket)
        await _command(socket, type="subscribe", threadId="")
        assert (await receive_event(socket))["type"] == "error"
        await _run(client, other)
        run = await _run(client, mine)
        assert {frame["threadId"] for frame in await _until(socket, mine, run["lastSeq"])} == {mine}


@pytest.mark.smoke
@pytest.mark.requirement("CM-1", "PX-1")
async def test_event_frames_show_what_the_log_holds(server: ServerProcess, client: httpx2.AsyncClient) -> None:
    thread_id = new_id("thread")
    async with connect(f"{server.stream_url}?threadId={thread_id}") as socket:
        await _ready(socket)
        run = await _run(client, thread_id, "é \U0001f600")
        frames = await _until(socket, thread_id, run["lastSeq"])
    taken = ("type", "threadId", "payload", "seq", "id", "runId", "at", "actor")
    logged = [{name: event[name] for name in taken} for event in await _events(client, thread_id)]
    assert [{name: frame[name] for name in taken} for frame in frames] == logged
    assert {frame["part"] for frame in frames} == {0}


@pytest.mark.requirement("CM-2")
@pytest.mark.parametrize("by", ["query", "command"])
async def test_a_filtered_socket_gets_only_its_thread(
    server: ServerProcess, client: httpx2.AsyncClient, by: str
) -> None:
    mine, other = new_id("thread"), new_id("thread")
    async with connect(server.stream_url + (f"?threadId={mine}" if by == "query" else "")) as socket:
        await _ready(socket)
        if by == "command":
            await _command(socket, type="subscribe", threadId=mine, extra="ignored")
            await _settled(socket)
        await _run(client, other)
        run = await _run(client, mine)
        frames = await _until(socket, mine, run["lastSeq"])
        assert [(frame["threadId"], frame["seq"]) for frame in frames] == [
            (mine, seq) for seq in range(1, run["lastSeq"] + 1)
        ]


@pytest.mark.requirement("CM-1", "CM-2")
async def test_subscribe_replaces_the_filter_and_unsubscribe_clears_it(
    server: ServerProcess, client: httpx2.AsyncClient
) -> None:
    first, second, third = (new_id("thread") for _ in range(3))
    async with connect(f"{server.stream_url}?threadId={first}") as socket:
        await _ready(socket)
        await _command(socket, type="subscribe", threadId=second)
        await _settled(socket)
        await _run(client, first)
        run = await _run(client, second)
        assert {frame["threadId"] for frame in await _until(socket, second, run["lastSeq"])} == {second}
        await _command(socket, type="unsubscribe", threadId="ignored")
        await _settled(socket)
        one, two = await _run(client, third), await _run(client, first)
        frames = await _until(socket, first, two["lastSeq"])
        heard = [frame["seq"] for frame in frames if frame["threadId"] == third]
        assert heard == list(range(1, one["lastSeq"] + 1))


@pytest.mark.requirement("CM-2")
async def test_an_unfiltered_socket_hears_every_thread_from_now_on(
    server: ServerProcess, client: httpx2.AsyncClient
) -> None:
    before, one, two = (new_id("thread") for _ in range(3))
    await _run(client, before)
    async with connect(server.stream_url) as socket:
        await _ready(socket)
        runs = await asyncio.gather(_run(client, one), _run(client, two))
        last = {run["threadId"]: run["lastSeq"] for run in runs}
        seen: dict[str, list[int]] = {one: [], two: []}
        while any(seen[thread_id][-1:] != [seq] for thread_id, seq in last.items()):
            frame = await receive_event(socket)
            assert frame["threadId"] != before
            if frame["threadId"] in seen:  # what other tests left to the shared server is heard as well
                seen[frame["threadId"]].append(frame["seq"])
        assert seen == {thread_id: list(range(1, seq + 1)) for thread_id, seq in last.items()}


@pytest.mark.requirement("PX-1", "CARD-3")
async def test_a_cursor_resumes_the_thread_and_goes_on_live(server: ServerProcess, client: httpx2.AsyncClient) -> None:
    thread_id = new_id("thread")
    first = await _run(client, thread_id)
    async with connect(server.stream_url) as socket:
        await _ready(socket)
        await _command(socket, type="subscribe", threadId=thread_id, afterSeq=3)
        history = await _until(socket, thread_id, first["lastSeq"])
        second = await _run(client, thread_id)
        live = await _until(socket, thread_id, second["lastSeq"])
        assert [frame["seq"] for frame in history + live] == list(range(4, second["lastSeq"] + 1))


@pytest.mark.requirement("PX-1")
async def test_a_cursor_ahead_of_the_thread_waits_for_what_comes_after_it(
    server: ServerProcess, client: httpx2.AsyncClient
) -> None:
    thread_id = new_id("thread")
    first = await _run(client, thread_id)
    async with connect(server.stream_url) as socket:
        await _ready(socket)
        await _command(socket, type="subscribe", threadId=thread_id, afterSeq=first["lastSeq"] + 2)
        await _settled(socket)
        second = await _run(client, thread_id)
        frames = await _until(socket, thread_id, second["lastSeq"])
        assert [frame["seq"] for frame in frames] == list(range(first["lastSeq"] + 3, second["lastSeq"] + 1))


@pytest.mark.requirement("PX-1")
async def test_several_threads_at_once_each_from_its_own_cursor(
    server: ServerProcess, client: httpx2.AsyncClient
) -> None:
    one, two, live, foreign = (new_id("thread") for _ in range(4))
    await asyncio.gather(*(_run(client, thread_id) for thread_id in (one, two, live, foreign)))
    started = (await _events(client, live))[-1]["seq"]
    async with connect(server.stream_url) as socket:
        await _ready(socket)
        await _command(socket, type="subscribe", threads={one: 2, two: 0, live: None})
        seen: list[tuple[str, int]] = []
        await _settled_among_events(socket, seen)
        runs = await asyncio.gather(*(_run(client, thread_id) for thread_id in (one, two, live, foreign)))
        last = {run["threadId"]: run["lastSeq"] for run in runs if run["threadId"] != foreign}
        while any(max((s for t, s in seen if t == thread_id), default=0) < seq for thread_id, seq in last.items()):
            frame = await receive_event(socket)
            seen.append((frame["threadId"], frame["seq"]))
    for thread_id, after in ((one, 2), (two, 0), (live, started)):
        assert [seq for name, seq in seen if name == thread_id] == list(range(after + 1, last[thread_id] + 1))
    assert foreign not in {name for name, _ in seen}


async def _settled_among_events(socket: ClientConnection, seen: list[tuple[str, int]]) -> None:
    await _command(socket, type="ping")
    while (frame := await receive_event(socket))["type"] != "pong":
        seen.append((frame["threadId"], frame["seq"]))


@pytest.mark.requirement("PX-1", "OS-I1")
async def test_a_subscriber_may_come_back_at_every_seq_of_a_run(
    server: ServerProcess, client: httpx2.AsyncClient
) -> None:
    thread_id = new_id("thread")
    run = await _run(client, thread_id, " ".join(f"w{n}" for n in range(55)))
    whole = [event["id"] for event in await _events(client, thread_id)]
    assert len(whole) == 60

    async def from_cursor(after: int) -> list[str]:
        async with connect(server.stream_url) as socket:
            await _ready(socket)
            await _command(socket, type="subscribe", threadId=thread_id, afterSeq=after)
            return [frame["id"] for frame in await _until(socket, thread_id, run["lastSeq"])]

    for start in range(0, 60, 20):
        seen = await asyncio.gather(*(from_cursor(after) for after in range(start, start + 20)))
        assert seen == [whole[after:] for after in range(start, start + 20)]


@pytest.mark.requirement("PX-1")
async def test_a_subscriber_that_keeps_losing_its_connection_misses_nothing_of_a_live_run(
    server: ServerProcess, client: httpx2.AsyncClient
) -> None:
    thread_id = new_id("thread")
    body = {"agent": "echo", "input": " ".join(f"w{n}" for n in range(80)), "threadId": thread_id, "createThread": True}
    running = asyncio.create_task(client.post("/api/runs", params={"wait": 20}, json=body))
    seen: list[dict[str, Any]] = []
    while not seen or seen[-1]["type"] != "runtime.request.completed":
        async with connect(f"{server.stream_url}?threadId={thread_id}&afterSeq={len(seen)}") as socket:
            await _ready(socket)
            for _ in range(7):
                seen.append(await receive_event(socket))
                if seen[-1]["type"] == "runtime.request.completed":
                    break
            socket.transport.abort()  # lost, not closed: a polite end would wait for frames that nobody reads
    assert (await running).json()["status"] == "completed"
    assert [frame["id"] for frame in seen] == [event["id"] for event in await _events(client, thread_id)]


async def test_messages_over_the_limit_end_the_socket_and_nothing_else(
    server: ServerProcess, client: httpx2.AsyncClient
) -> None:
    async with connect(server.stream_url) as socket:
        await _ready(socket)
        await socket.send("x" * (1024 * 1024 + 1))
        await asyncio.wait_for(socket.wait_closed(), 30)
        assert socket.close_code == 1009
    assert (await client.get("/healthz")).status_code == 200


# -- at random ----------------------------------------------------------------------------------------


def _malformed(dice: random.Random) -> str | bytes:
    good = ['{"type":"ping"}', '{"type":"subscribe","threadId":"a"}', '{"type":"unsubscribe"}']
    match dice.randrange(6):
        case 0:  # a command that lost or gained a byte in a place where it matters
            text = dice.choice(good)
            at = dice.randrange(2, text.index(":") - 1)
            return text[:at] + dice.choice(["", "x", '"']) + text[at + 1 :]
        case 1:
            return bytes(dice.randrange(128, 256) for _ in range(dice.randrange(1, 50)))
        case 2:
            return json.dumps(dice.choice([None, 1, 1.5, True, "ping", [], [{"type": "ping"}], {}])).decode()
        case 3:
            return json.dumps({"type": dice.choice(["PING", "", None, 5, ["ping"], {"ping": 1}, "publish"])}).decode()
        case 4:
            cursor = dice.choice([-1, "1", 1.5, True, [], 2**63, {"afterSeq": "x"}, {"afterPart": 1}])
            return json.dumps({"type": "subscribe", "threads": {"a": cursor}}).decode()
    thread: object = dice.choice(["", None, 5, [], {}, True, "a\x00"])
    return json.dumps({"type": "subscribe", "threadId": thread}).decode()


@pytest.mark.requirement("CM-1")
async def test_a_thousand_malformed_frames_get_their_answer_and_nothing_breaks(
    server: ServerProcess, client: httpx2.AsyncClient
) -> None:
    dice = random.Random(7)
    async with connect(server.stream_url) as socket:
        await _ready(socket)
        for _ in range(1000):
            sent = _malformed(dice)
            await socket.send(sent)
            assert await asyncio.wait_for(socket.recv(), 30) == ERROR, sent
        await socket.send('{"type":"ping"}')
        assert await receive_event(socket) == {"type": "pong"}
    assert (await client.get("/healthz")).status_code == 200
    assert "Traceback" not in server.errors()

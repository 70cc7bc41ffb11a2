"""Server-sent events against the real server: the exact stream, from every cursor, across cuts and restarts."""

import asyncio
import random
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.core.ids import new_id
from tests import sse
from tests.clients import reached
from tests.examples import ALL
from tests.server import ServerProcess

WORDS = 1000
EPOCHS = 2


async def _all_events(client: httpx2.AsyncClient, run_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    after: str | None = "0"
    while after is not None:
        page = (await client.get(f"/api/runs/{run_id}/events", params={"after": after, "limit": 1000})).json()
        found += page["items"]
        after = page["nextCursor"]
    return found


async def _long_run(client: httpx2.AsyncClient) -> dict[str, Any]:
    text = " ".join(f"w{n}" for n in range(WORDS))
    submitted = (await client.post("/api/runs", json={"agent": "echo", "input": text})).json()
    run = await reached(client, submitted["id"])
    assert run["status"] == "completed"
    return run


@pytest.mark.smoke
@pytest.mark.requirement("PX-1", "PX-5")
async def test_a_stream_of_a_run_has_each_event_once_and_then_says_that_it_ended(client: httpx2.AsyncClient) -> None:
    run = (await client.post("/api/runs", json={"agent": "echo", "input": "one two three"})).json()
    *events, end = await sse.read(client, f"/api/runs/{run['id']}/stream")
    assert [frame.data for frame in events] == await _all_events(client, run["id"])
    assert [(frame.id, frame.event) for frame in events] == [(f.data["seq"], f.data["type"]) for f in events]
    assert end == sse.Frame("end", {"runId": run["id"], "seq": events[-1].id, "type": "runtime.request.completed"})


@pytest.mark.requirement("PX-1")
async def test_submitting_can_answer_with_the_stream_itself(client: httpx2.AsyncClient) -> None:
    body = {"agent": "echo", "input": "one two three"}
    async with client.stream("POST", "/api/runs?stream=sse", json=body) as answer:
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert answer.headers["cache-control"] == "no-store"
        found = [frame async for frame in sse.frames(answer)]
        run_id = answer.headers["x-run-id"]
    assert [frame.event for frame in found][-2:] == ["runtime.request.completed", "end"]
    assert [frame.data for frame in found[:-1]] == await _all_events(client, run_id)


@pytest.mark.requirement("PX-1", "G2")
async def test_a_run_can_be_resumed_after_each_of_its_thousand_events(
    client: httpx2.AsyncClient, request: pytest.FixtureRequest
) -> None:
    run = await _long_run(client)
    expected = await _all_events(client, run["id"])
    assert len(expected) >= WORDS
    path = f"/api/runs/{run['id']}/stream"
    seqs = [0] + [event["seq"] for event in expected]
    if request.node.callspec.params["server"] == "postgres":
        seqs = [*seqs[::10], seqs[-1]]  # only the pages come from another store; the stream is made the same way
    elif not ALL:
        seqs = [*seqs[:-1:3], seqs[-1]]  # each of them in `make faults`
    # Each connection is cut after its first frame, so that every seq is once where a client goes on.
    first = [await sse.first_frame(client.base_url.port or 80, path, seq) for seq in seqs]
    following = dict(zip([0, *(event["seq"] for event in expected)], expected, strict=False))
    assert [frame.data for frame in first if frame.event != "end"] == [following[s] for s in seqs if s in following]
    assert first[-1].event == "end"


@pytest.mark.requirement("PX-1")
async def test_random_cuts_in_the_middle_of_frames_lose_and_repeat_nothing(client: httpx2.AsyncClient) -> None:
    chance = random.Random(7)
    text = " ".join(f"w{n}" for n in range(400))
    run = (await client.post("/api/runs", json={"agent": "echo", "input": text})).json()
    path = f"/api/runs/{run['id']}/stream"
    seen: list[sse.Frame] = []
    cuts = 0
    while not seen or seen[-1].event != "end":
        received, cut = b"", chance.randrange(1, 40_000)
        last = {"last-event-id": str(seen[-1].id)} if seen else {}
        async with client.stream("GET", path, headers=last) as answer:
            async for chunk in answer.aiter_bytes():
                received += chunk
                if len(received) > cut:
                    received, cuts = received[:cut], cuts + 1
                    break
        # A frame that was cut off has not arrived: a client drops it, and so do we.
        seen += [frame for frame in map(sse.parse, received.split(b"\n\n")[:-1]) if frame is not None]
    assert cuts > 3
    assert [frame.data for frame in seen[:-1]] == await _all_events(client, run["id"])


@pytest.mark.requirement("PX-1", "G5", "G15")
async def test_a_stream_goes_on_across_restarts_of_the_server(tmp_path: Path) -> None:
    seen: list[sse.Frame] = []
    run_id, text = "", " ".join(f"w{n}" for n in range(600))
    for epoch in range(EPOCHS):
        async with ServerProcess.running(tmp_path / "data") as server:
            async with httpx2.AsyncClient(base_url=server.url, timeout=60, verify=False) as client:
                if not run_id:
                    run_id = (await client.post("/api/runs", json={"agent": "echo", "input": text})).json()["id"]
                last = seen[-1].id if seen else None
                at_most = None if epoch == EPOCHS - 1 else 150
                seen += await sse.read(client, f"/api/runs/{run_id}/stream", last, at_most=at_most)
                if at_most is not None:
                    server.kill()
                    continue
                assert seen[-1].event == "end"
                assert [frame.data for frame in seen[:-1]] == await _all_events(client, run_id)


@pytest.mark.requirement("PX-1")
async def test_a_thread_s_stream_goes_through_its_runs_and_ends_with_its_deletion(client: httpx2.AsyncClient) -> None:
    thread_id = (await client.post("/api/threads", json={"title": "talk"})).json()["id"]
    begun = asyncio.Event()
    reading = asyncio.create_task(sse.read(client, f"/api/threads/{thread_id}/stream", begun=begun))
    await asyncio.wait_for(begun.wait(), 30)
    for text in ("one", "two"):
        answer = await client.post(f"/api/threads/{thread_id}/messages?wait=30", json={"agent": "echo", "input": text})
        assert answer.status_code == 200
    stored = (await client.get(f"/api/threads/{thread_id}/events?limit=1000")).json()["items"]
    assert (await client.delete(f"/api/threads/{thread_id}")).status_code == 204
    *found, deleted, end = await asyncio.wait_for(reading, 30)
    assert [frame.data for frame in found] == stored
    assert (deleted.event, end.event) == ("runtime.thread.deleted", "end")


async def test_a_stream_can_be_narrowed_to_types(client: httpx2.AsyncClient) -> None:
    thread_id = new_id("thread")
    body = {"agent": "echo", "input": "a b c", "threadId": thread_id, "createThread": True}
    await client.post("/api/runs?wait=30", json=body)
    found = await sse.read(client, f"/api/threads/{thread_id}/stream?type=runtime.request.*", at_most=3)
    assert [frame.event.rpartition(".")[2] for frame in found] == ["queued", "started", "completed"]


@pytest.mark.parametrize("last", ["x", "-1", "1.5", "9" * 20])
async def test_a_cursor_that_is_no_seq_is_refused(client: httpx2.AsyncClient, last: str) -> None:
    run = (await client.post("/api/runs", json={"agent": "echo", "input": "x"})).json()
    answer = await client.get(f"/api/runs/{run['id']}/stream", headers={"last-event-id": last})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "CURSOR_INVALID")


async def test_what_a_reader_saw_last_counts_more_than_its_address(client: httpx2.AsyncClient) -> None:
    run = (await client.post("/api/runs?wait=30", json={"agent": "echo", "input": "a b c"})).json()
    found = await sse.read(client, f"/api/runs/{run['id']}/stream?after=1", run["lastSeq"] - 1)
    assert [frame.id for frame in found] == [run["lastSeq"], None]

"""Streams of the LangGraph interface on the wire: every mode, every place to resume, over a restart as well."""

import itertools
from typing import Any

import httpx2
import pytest

from app.core.settings import Settings
from app.protocols.dialects.langgraph_stream import MODES
from tests.langgraph.frames import GraphFrame, frames_of, new_thread, run_body
from tests.langgraph.space import start_server

ALL = sorted(MODES)


def _names(frames: list[GraphFrame]) -> set[str]:
    return {frame.event.partition("|")[0] for frame in frames}


async def test_every_mode_sends_its_frames_with_ids_that_only_grow(client: httpx2.AsyncClient) -> None:
    thread = await new_thread(client)
    body = run_body("what time is it", stream_mode=ALL, stream_subgraphs=True)
    frames = await frames_of(client, "POST", f"/threads/{thread}/runs/stream", body=body)
    places = [tuple(map(int, frame.id.split("."))) for frame in frames]
    assert places == sorted(set(places))
    assert frames[0].event == "metadata" and frames[0].data["attempt"] == 1
    assert _names(frames) == {
        "metadata", "values", "updates", "messages", "messages/metadata", "messages/partial", "messages/complete",
        "events", "tasks", "checkpoints", "debug",
    }  # fmt: skip
    last = [frame.data for frame in frames if frame.event == "values"][-1]
    assert [message["type"] for message in last["messages"]] == ["human", "ai", "tool", "ai"]
    assert [name for frame in frames if frame.event == "updates" for name in frame.data] == ["model", "tools", "model"]


async def test_pieces_of_a_message_make_up_the_whole(client: httpx2.AsyncClient) -> None:
    thread = await new_thread(client)
    body = run_body("hello there", stream_mode=["messages-tuple", "messages"])
    frames = await frames_of(client, "POST", f"/threads/{thread}/runs/stream", body=body)
    pieces = [frame.data for frame in frames if frame.event == "messages"]
    assert "".join(piece["content"] for piece, _ in pieces) == "You said: hello there"
    assert pieces[-1][0]["chunk_position"] == "last" and pieces[-1][0]["usage_metadata"]["total_tokens"] == 18
    assert {about["langgraph_node"] for _, about in pieces} == {"model"}
    partial = [frame.data[0]["content"] for frame in frames if frame.event == "messages/partial"]
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(partial))
    whole = [frame.data[0] for frame in frames if frame.event == "messages/complete"]
    assert [message["content"] for message in whole] == ["You said: hello there"]


async def test_subagents_are_subgraphs_with_names_of_their_own(client: httpx2.AsyncClient) -> None:
    thread = await new_thread(client)
    body = run_body("delegate it", stream_mode=["updates", "messages-tuple"], stream_subgraphs=True)
    frames = await frames_of(client, "POST", f"/threads/{thread}/runs/stream", body={**body, "assistant_id": "chief"})
    inner = {frame.event for frame in frames if "|" in frame.event}
    assert len(inner) == 2 and {name.split("|")[0] for name in inner} == {"updates", "messages"}
    assert all(name.split("|")[1].startswith("closed:run_") for name in inner)
    body = run_body("delegate it", stream_mode=["updates", "messages-tuple"])
    frames = await frames_of(client, "POST", f"/threads/{thread}/runs/stream", body={**body, "assistant_id": "chief"})
    assert not [frame for frame in frames if "|" in frame.event]


async def test_a_stream_is_resumed_at_every_id_without_gap_or_repetition(client: httpx2.AsyncClient) -> None:
    thread = await new_thread(client)
    body = run_body("what time is it", stream_mode=ALL)
    frames = await frames_of(client, "POST", f"/threads/{thread}/runs/stream", body=body)
    path = f"/threads/{thread}/runs/{frames[0].data['run_id']}/stream"
    for number, frame in enumerate(frames):
        assert await frames_of(client, "GET", path, last_id=frame.id) == frames[number + 1 :], frame.id
    assert await frames_of(client, "GET", path, last_id="-1") == frames
    assert await frames_of(client, "GET", path) == frames


async def test_a_run_that_is_cut_by_a_restart_is_followed_to_its_end(settings: Settings) -> None:
    """Each frame is seen once: the id of the last one is all that the client has to keep."""
    server = start_server(settings)
    seen: list[GraphFrame] = []
    try:
        async with httpx2.AsyncClient(base_url=f"{server.url}/langgraph", timeout=30, verify=False) as client:
            thread = await new_thread(client)
            made = await client.post(f"/threads/{thread}/runs", json=run_body("publish it", stream_mode=ALL))
            path = f"/threads/{thread}/runs/{made.json()['run_id']}/stream"
            seen += await frames_of(client, "GET", path)
        server.kill()
        server = start_server(settings)
        async with httpx2.AsyncClient(base_url=f"{server.url}/langgraph", timeout=30, verify=False) as client:
            for number, frame in enumerate(seen):
                assert await frames_of(client, "GET", path, last_id=frame.id) == seen[number + 1 :]
            resumed = await client.post(
                f"/threads/{thread}/runs", json={"assistant_id": "helper", "command": {"resume": True}}
            )
            path = f"/threads/{thread}/runs/{resumed.json()['run_id']}/stream"
            rest = await frames_of(client, "GET", path)
            last = [frame.data for frame in rest if frame.event == "values"][-1]
            assert last["messages"][-1]["content"] == "Published."
        server.kill()
        server = start_server(settings)
        async with httpx2.AsyncClient(base_url=f"{server.url}/langgraph", timeout=30, verify=False) as client:
            for number, frame in enumerate(rest):
                assert await frames_of(client, "GET", path, last_id=frame.id) == rest[number + 1 :]
    finally:
        server.stop()


@pytest.mark.parametrize("last_id", ["x", "1.", ".1", "1.x", "-2", "1" * 50, "1.2.3"])
async def test_an_id_of_another_stream_is_refused(client: httpx2.AsyncClient, last_id: str) -> None:
    thread = await new_thread(client)
    run = (await client.post(f"/threads/{thread}/runs", json=run_body("hi"))).json()["run_id"]
    answer = await client.get(f"/threads/{thread}/runs/{run}/stream", headers={"last-event-id": last_id})
    assert answer.status_code == 422 and answer.json()["code"] == "CURSOR_INVALID"


async def test_headers_say_where_the_run_and_its_stream_are(client: httpx2.AsyncClient) -> None:
    thread = await new_thread(client)
    body = run_body("hi", stream_mode="updates")
    async with client.stream("POST", f"/threads/{thread}/runs/stream", json=body) as answer:
        place: Any = answer.headers["content-location"]
        assert place.startswith(f"/threads/{thread}/runs/run_")
        assert answer.headers["location"] == f"{place}/stream?stream_mode=updates"
        assert answer.headers["content-type"].startswith("text/event-stream")
        await answer.aread()


@pytest.mark.parametrize("mode", ["tools", "lifecycle", "nonsense", ["values", "x"], 3, [4]])
async def test_a_mode_that_is_not_served_is_refused(client: httpx2.AsyncClient, mode: Any) -> None:
    answer = await client.post("/runs/stream", json=run_body("hi", stream_mode=mode))
    assert answer.status_code == 422 and "stream_mode" in answer.json()["detail"]

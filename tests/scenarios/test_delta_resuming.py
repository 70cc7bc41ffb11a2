"""A client whose cursor lies in or around dropped deltas goes on with what is stored: the message as a whole."""

from pathlib import Path

import httpx2
import pytest
from websockets.asyncio.client import connect

from app.core import json
from app.core.settings import Settings
from tests.clients import receive_event
from tests.openai.test_responses import frames as response_frames
from tests.scenarios.delta_threads import ANSWER, DAYS, Aged, compacted, events, is_delta, said
from tests.scenarios.test_stream_docs import DROPPED, like, lines_of
from tests.server import InProcessServer
from tests.sse import frames


async def _by_sse(client: httpx2.AsyncClient, path: str, after: int, last: int) -> list[int]:
    found: list[int] = []
    async with client.stream("GET", path, headers={"last-event-id": str(after)}) as answer:
        async for frame in frames(answer):
            if frame.id is not None:
                found.append(frame.id)
            if frame.event == "end" or frame.id == last:
                return found
    return found


async def _by_socket(server: InProcessServer, thread_id: str, after: int, last: int) -> list[int]:
    found: list[int] = []
    async with connect(f"{server.stream_url}?threadId={thread_id}&afterSeq={after}") as socket:
        while not found or found[-1] < last:
            frame = await receive_event(socket)
            if frame["type"] != "ready":
                found.append(frame["seq"])
    return found


@pytest.mark.requirement("CM-1", "G2")
async def test_every_cursor_gets_all_that_is_stored_after_it(settings: Settings, tmp_path: Path) -> None:
    aged = Aged.on(settings, tmp_path / "w")
    async with aged.serving() as (_, client):
        run = await said(client, "add them")
        before = await events(client, run["threadId"])
    async with aged.serving(DAYS + 1) as (server, client):
        thread_id = run["threadId"]
        stored = [event["seq"] for event in await compacted(client, thread_id)]
        of_run = [event["seq"] for event in before if event["runId"] == run["id"] and not is_delta(event)]
        assert len(stored) < len(before)
        for after in range(stored[-1]):
            rest = [seq for seq in stored if seq > after]
            assert await _by_sse(client, f"/api/threads/{thread_id}/stream", after, stored[-1]) == rest
            assert await _by_socket(server, thread_id, after, stored[-1]) == rest
            page = (await client.get(f"/api/threads/{thread_id}/events", params={"after": after, "limit": 2})).json()
            assert [event["seq"] for event in page["items"]] == rest[:2]
            if after < of_run[-1]:
                own = await _by_sse(client, f"/api/runs/{run['id']}/stream", after, -1)
                assert own == [seq for seq in of_run if seq > after]


async def test_a_socket_in_the_middle_of_a_dropped_event_goes_on_after_it(settings: Settings, tmp_path: Path) -> None:
    aged = Aged.on(settings, tmp_path / "w")
    async with aged.serving() as (_, client):
        run = await said(client, "hello")
        delta = next(event for event in await events(client, run["threadId"]) if is_delta(event))
    async with aged.serving(DAYS + 1) as (server, client):
        await compacted(client, run["threadId"])
        query = f"threadId={run['threadId']}&afterSeq={delta['seq']}&afterPart=0"
        async with connect(f"{server.stream_url}?{query}") as socket:
            assert (await receive_event(socket))["type"] == "ready"
            frame = str(await socket.recv())
            following = json.loads(frame)
            assert following["type"] == "runtime.model.completed" and following["payload"]["text"] == ANSWER
            shown = (
                lines_of(DROPPED, "<- ")[1].replace("thr_plans", run["threadId"]).replace("The whole answer.", ANSWER)
            )
            assert like(shown.replace('"seq":25', f'"seq":{following["seq"]}')).fullmatch(frame), "as the page has it"
            item = json.loads(await socket.recv())
            assert item["seq"] == following["seq"] and item["part"] == 1, "all of its frames"


@pytest.mark.requirement("PX-5")
async def test_a_response_keeps_the_numbers_of_its_events(settings: Settings, tmp_path: Path) -> None:
    aged = Aged.on(settings, tmp_path / "w")
    async with aged.serving() as (_, client):
        made = (await client.post("/v1/responses", json={"model": "talker", "input": "add them"})).json()
        whole = await response_frames(client, made["id"])
        shown = (await client.get(f"/v1/responses/{made['id']}")).json()
    assert [frame["sequence_number"] for frame in whole] == list(range(len(whole)))
    async with aged.serving(DAYS + 1) as (_, client):
        await compacted(client, made["conversation"]["id"])
        assert (await client.get(f"/v1/responses/{made['id']}")).json() == shown
        others = {f["sequence_number"]: f for f in whole if f["type"] != "response.output_text.delta"}
        for after in range(-1, len(whole)):
            got = await response_frames(client, made["id"], after)
            texts = [frame for frame in got if frame["type"] == "response.output_text.delta"]
            rest = [frame for frame in got if frame["type"] != "response.output_text.delta"]
            assert rest == [frame for number, frame in others.items() if number > after]
            # The text of a message comes whole to who has none of it, and with its end to who has a part.
            wholes = {f["item_id"]: f["text"] for f in whole if f["type"] == "response.output_text.done"}
            firsts = {f["item_id"]: f["sequence_number"] for f in reversed(whole)
                      if f["type"] == "response.output_text.delta"}  # fmt: skip
            expected = [(number, wholes[item]) for item, number in firsts.items() if number > after]
            assert sorted((f["sequence_number"], f["delta"]) for f in texts) == sorted(expected)

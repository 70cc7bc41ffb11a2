"""The stream of a whole thread: runs as they come, pauses and changes of the state, resumed at every id."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from app.core.settings import Settings
from tests.langgraph.frames import GraphFrame, new_thread, parse_frame, run_body
from tests.langgraph.space import start_server
from tests.sse import blocks

pytestmark = pytest.mark.requirement("PX-5")
MODES: dict[str, Any] = {"stream_mode": "run_modes,state_update"}


async def _read(
    client: httpx2.AsyncClient,
    thread: str,
    enough: Callable[[list[GraphFrame]], bool],
    last_id: str | None,
    *,
    opened: asyncio.Event | None = None,
    **query: Any,
) -> list[GraphFrame]:
    """Frames until there are enough; the stream itself has no end."""
    headers = {} if last_id is None else {"last-event-id": last_id}
    found: list[GraphFrame] = []
    async with asyncio.timeout(30):
        async with client.stream("GET", f"/threads/{thread}/stream", params=query, headers=headers) as answer:
            assert answer.status_code == 200, await answer.aread()
            if opened is not None:
                opened.set()
            async for block in blocks(answer):
                frame = parse_frame(block)
                if frame is not None:
                    found.append(frame)
                if found and enough(found):
                    break
    return found


def _done(count: int) -> Callable[[list[GraphFrame]], bool]:
    def enough(found: list[GraphFrame]) -> bool:
        ends = [one for one in found if one.event == "metadata" and one.data.get("status") == "run_done"]
        return len(ends) == count

    return enough


def _many(count: int) -> Callable[[list[GraphFrame]], bool]:
    return lambda found: len(found) >= count


async def _live(client: httpx2.AsyncClient, thread: str) -> None:
    """Two runs, one with a pause, and a change of the state."""
    await client.post(f"/threads/{thread}/runs/wait", json=run_body("hello", stream_mode=["updates", "values"]))
    await client.post(f"/threads/{thread}/runs/wait", json=run_body("publish it", stream_mode=["messages-tuple"]))
    resume = {"assistant_id": "helper", "command": {"resume": True}}
    await client.post(f"/threads/{thread}/runs/wait", json=resume)
    await client.post(f"/threads/{thread}/state", json={"values": {"messages": "noted"}})


async def test_a_thread_is_followed_from_now_on_through_its_runs(client: httpx2.AsyncClient) -> None:
    thread = await new_thread(client)
    await client.post(f"/threads/{thread}/runs/wait", json=run_body("before"))
    opened = asyncio.Event()
    watching = asyncio.create_task(
        _read(client, thread, lambda seen: seen[-1].event == "state_update", None, opened=opened, **MODES)
    )
    await opened.wait()
    begun = asyncio.create_task(_read(client, thread, _done(1), "-1", stream_mode="lifecycle"))
    assert [frame.event for frame in await begun] == ["metadata", "metadata"]
    await _live(client, thread)
    frames = await watching
    starts = [frame.data["run_id"] for frame in frames if frame.event == "metadata" and "attempt" in frame.data]
    ends = [frame.data["run_id"] for frame in frames if frame.event == "metadata" and "status" in frame.data]
    assert len(starts) == 3 and starts == ends and starts[2] == f"{starts[1]}.1"
    assert {frame.event for frame in frames} == {"metadata", "values", "updates", "messages", "state_update"}
    assert frames[-1].data["state"]["values"]["messages"][-1]["content"] == "noted"
    assert not any("before" in str(frame.data) for frame in frames if frame.event == "updates")


async def test_it_is_resumed_at_every_id_without_gap_or_repetition_over_a_restart(settings: Settings) -> None:
    server = start_server(settings)
    last: dict[str, Any] = {"stream_mode": ["run_modes", "state_update"]}
    try:
        async with httpx2.AsyncClient(base_url=f"{server.url}/langgraph", timeout=30, verify=False) as client:
            thread = await new_thread(client)
            await _live(client, thread)
            frames = await _read(client, thread, lambda seen: seen[-1].event == "state_update", "-", **last)
            places = [tuple(map(int, frame.id.split("."))) for frame in frames]
            assert places == sorted(set(places))
        server.kill()
        server = start_server(settings)
        async with httpx2.AsyncClient(base_url=f"{server.url}/langgraph", timeout=30, verify=False) as client:
            for number, frame in enumerate(frames[:-1]):
                rest = frames[number + 1 :]
                seen = await _read(client, thread, _many(len(rest)), frame.id, **last)
                assert seen == rest, frame.id
    finally:
        server.stop()


@pytest.mark.parametrize(("query", "last_id"), [("?stream_mode=values", "-1"), ("", "x"), ("", "1" * 50)])
async def test_nonsense_is_refused(client: httpx2.AsyncClient, query: str, last_id: str) -> None:
    thread = await new_thread(client)
    answer = await client.get(f"/threads/{thread}/stream{query}", headers={"last-event-id": last_id})
    assert answer.status_code == 422 and "detail" in answer.json()
    assert (await client.get(f"/threads/no{thread}/stream")).status_code == 404

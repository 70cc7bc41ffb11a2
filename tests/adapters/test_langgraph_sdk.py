"""The `langgraph-sdk` package for Python, unmodified, against the real server on both databases."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import ConflictError, NotFoundError

from app.core.settings import Settings
from tests.langgraph.space import empty_database, start_server
from tests.postgres import free_port
from tests.scenarios.proof import assert_replay_equals_tables
from tests.server import ServerProcess
from tests.waiting import until

pytestmark = pytest.mark.requirement("SH-22", "PX-5")


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    server = start_server(empty_database(request.param, request, tmp_path_factory))
    try:
        yield server
        with asyncio.Runner() as runner:
            runner.run(assert_replay_equals_tables(server.url))
    finally:
        server.stop()


@pytest.fixture
async def client(server: ServerProcess) -> AsyncIterator[LangGraphClient]:
    async with get_client(url=f"{server.url}/langgraph", api_key="any") as client:
        yield client


def _said(values: Any) -> list[str]:
    return [message["content"] for message in values["messages"]]


async def test_assistants_threads_and_states(client: LangGraphClient) -> None:
    assistants = await client.assistants.search(graph_id="helper")
    named = assistants[0]["assistant_id"]
    assert (await client.assistants.get(named))["graph_id"] == "helper"
    assert (await client.assistants.get_versions(named))[0]["version"] == 1
    assert (await client.assistants.get_graph("helper"))["nodes"]
    assert list(await client.assistants.get_subgraphs("chief")) == ["closed", "helper"]
    with pytest.raises(ConflictError):
        await client.assistants.delete(named)
    thread = await client.threads.create(metadata={"of": "sdk"}, if_exists="do_nothing")
    values = await client.runs.wait(thread["thread_id"], named, input={"messages": [{"role": "user", "content": "hi"}]})
    assert _said(values) == ["hi", "You said: hi"]
    state = await client.threads.get_state(thread["thread_id"])
    history = await client.threads.get_history(thread["thread_id"], limit=10)
    assert history[0]["checkpoint"] == state["checkpoint"] and state["next"] == []
    at = await client.threads.get_state(thread["thread_id"], checkpoint=history[-1]["checkpoint"])
    assert _said(at["values"]) == ["hi"]
    found = await client.threads.search(metadata={"of": "sdk"}, status="idle")
    assert thread["thread_id"] in [one["thread_id"] for one in found]
    await client.threads.copy(thread["thread_id"])
    await client.threads.delete(thread["thread_id"])
    with pytest.raises(NotFoundError):
        await client.threads.get(thread["thread_id"])


async def test_streams_and_their_run(client: LangGraphClient) -> None:
    thread = (await client.threads.create())["thread_id"]
    created: list[Any] = []
    parts = [
        part
        async for part in client.runs.stream(
            thread, "helper", input={"messages": "what time is it"}, on_run_created=created.append,
            stream_mode=["values", "updates", "messages-tuple"],
        )
    ]  # fmt: skip
    assert created[0]["thread_id"] == thread and parts[0].data["run_id"] == created[0]["run_id"]
    text = "".join(
        part.data[0]["content"] for part in parts if part.event == "messages" and "Chunk" in part.data[0]["type"]
    )
    assert text == "Looking at the clock.It is late."
    joined = [part async for part in client.runs.join_stream(thread, created[0]["run_id"], last_event_id="-1")]
    assert joined == parts
    assert (await client.runs.get(thread, created[0]["run_id"]))["status"] == "success"
    assert _said(await client.runs.join(thread, created[0]["run_id"]))[-1] == "It is late."


async def test_a_pause_is_answered_and_a_run_cancelled(client: LangGraphClient) -> None:
    thread = (await client.threads.create())["thread_id"]
    values: Any = await client.runs.wait(thread, "helper", input={"messages": "publish it"})
    assert values["__interrupt__"][0]["value"]["action_requests"][0]["name"] == "publish"
    assert (await client.threads.get(thread))["status"] == "interrupted"
    values = await client.runs.wait(thread, "helper", command={"resume": {"decisions": [{"type": "approve"}]}})
    assert _said(values)[-1] == "Published."
    run = await client.runs.create(thread, "helper", input={"messages": "endlessly"})
    await client.runs.cancel(thread, run["run_id"], wait=True)
    assert (await client.runs.get(thread, run["run_id"]))["status"] == "interrupted"
    with pytest.raises(httpx.HTTPStatusError) as refused:
        await client.runs.wait(thread, "nobody", input={"messages": "x"})
    assert refused.value.response.status_code == 422


async def test_a_stream_that_a_restart_cuts_is_taken_up_by_the_client_itself(settings: Settings) -> None:
    """Its own reconnect, with nothing but the headers and ids that it was sent: no piece is missing or twice."""
    port = free_port()
    server = await asyncio.to_thread(start_server, settings, port)
    try:
        async with get_client(url=f"{server.url}/langgraph", api_key="any") as client:
            thread = (await client.threads.create())["thread_id"]
            seen: list[Any] = []
            async for part in client.runs.stream(
                thread, "helper", input={"messages": "slowly"}, stream_mode=["messages-tuple"], stream_resumable=True
            ):
                seen.append(part)
                if len(seen) == 4:
                    server.kill()
                    server = await asyncio.to_thread(start_server, settings, port)
            run = seen[0].data["run_id"]
            again = [part async for part in client.runs.join_stream(thread, run, last_event_id="-1")]
            assert seen == again
            assert _said(await client.runs.join(thread, run))[-1] == "OneTwoThreeFourFiveSixSevenEight"
    finally:
        server.stop()


@pytest.mark.parametrize("transport", ["sse", "websocket"])
async def test_the_event_protocol_streams_values_messages_and_tools(client: LangGraphClient, transport: Any) -> None:
    async with client.threads.stream(assistant_id="helper", transport=transport) as thread:
        await thread.run.start(input={"messages": [{"role": "user", "content": "what time is it"}]})
        items = [item async for item in thread.interleave_projections(["values", "messages", "tool_calls"])]
        texts = [await item.text for channel, item in items if channel == "messages"]
        (called,) = [item for channel, item in items if channel == "tool_calls"]
        assert called.name == "clock" and "utc" in await called.output
        names = {channel for channel, _ in items}
        assert texts == ["Looking at the clock.", "It is late."]
        assert names == {"values", "messages", "tool_calls"}
        assert _said(await thread.output)[-1] == "It is late."


@pytest.mark.parametrize("transport", ["sse", "websocket"])
async def test_the_event_protocol_asks_and_goes_on(client: LangGraphClient, transport: Any) -> None:
    async with client.threads.stream(assistant_id="helper", transport=transport) as thread:
        await thread.run.start(input={"messages": "publish it"})
        await until(lambda: thread.interrupted)
        assert thread.interrupts[0]["value"]["action_requests"][0]["name"] == "publish"
        await thread.run.respond({"decisions": [{"type": "approve"}]})
        assert _said(await thread.output)[-1] == "Published."


async def test_the_state_is_set_and_a_run_goes_on_from_before(client: LangGraphClient) -> None:
    thread = (await client.threads.create())["thread_id"]
    first = _said(await client.runs.wait(thread, "helper", input={"messages": "hello"}))
    before = (await client.threads.get_state(thread))["checkpoint"]
    made = await client.threads.update_state(
        thread, {"messages": [{"role": "user", "content": "noted"}]}, as_node="model"
    )
    state = await client.threads.get_state(thread)
    assert state["checkpoint"]["checkpoint_id"] == made["checkpoint"]["checkpoint_id"]
    assert _said(state["values"]) == [*first, "noted"]
    values = await client.runs.wait(thread, "helper", input={"messages": "other"}, checkpoint=before)
    assert _said(values) == [*first, "other", "You said: other"]


async def test_a_thread_is_joined_and_a_run_starts_later(client: LangGraphClient) -> None:
    thread = (await client.threads.create())["thread_id"]
    run = await client.runs.create(thread, "helper", input={"messages": "soon"}, after_seconds=1)
    assert run["status"] == "pending"
    seen: list[Any] = []
    async with asyncio.timeout(30):
        joined: Any = client.threads.join_stream(thread, last_event_id="-", stream_mode=["run_modes"])
        async for part in await joined:  # it is awaited there, whatever its type says
            seen.append(part)
            if part.event == "metadata" and part.data.get("status") == "run_done":
                break
    assert seen[0].data["run_id"] == run["run_id"] == seen[-1].data["run_id"]
    assert _said([part.data for part in seen if part.event == "values"][-1])[-1] == "You said: soon"


async def test_crons_are_made_found_changed_and_deleted(client: LangGraphClient) -> None:
    thread = (await client.threads.create())["thread_id"]
    made: Any = await client.crons.create_for_thread(
        thread, "helper", schedule="0 9 * * 1", input={"messages": "weekly"}, timezone="Europe/Berlin"
    )
    alone: Any = await client.crons.create("helper", schedule="0 9 * * 2", input={"messages": "weekly"}, enabled=False)
    found = await client.crons.search(thread_id=thread)
    assert [one["cron_id"] for one in found] == [made["cron_id"]] and found[0]["timezone"] == "Europe/Berlin"
    assert await client.crons.count(thread_id=thread) == 1
    changed = await client.crons.update(made["cron_id"], schedule="30 8 * * *", enabled=False)
    assert changed["schedule"] == "30 8 * * *" and changed["enabled"] is False
    for one in (made, alone):
        await client.crons.delete(one["cron_id"])
    assert await client.crons.count(thread_id=thread) == 0


async def test_items_are_stored_found_and_deleted(client: LangGraphClient) -> None:
    place = ["sdk", (await client.threads.create())["thread_id"]]
    await client.store.put_item(place, "a", {"title": "Tides", "n": 1})
    await client.store.put_item(place, "b", {"title": "Lighthouse", "n": 2}, index=["title"])
    assert (await client.store.get_item(place, "a"))["value"] == {"title": "Tides", "n": 1}
    found = await client.store.search_items(place, filter={"n": {"$gt": 1}})
    assert [item["key"] for item in found["items"]] == ["b"]
    found = await client.store.search_items(place, query="tides")
    assert [item["key"] for item in found["items"]] == ["a"]
    assert (await client.store.list_namespaces(prefix=place))["namespaces"] == [place]
    await client.store.delete_item(place, "a")
    assert [item["key"] for item in (await client.store.search_items(place))["items"]] == ["b"]

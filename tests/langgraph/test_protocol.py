"""The second LangGraph protocol on the wire: commands, the events of a thread, and both again after a cut."""

from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import connect

from app.core import json
from app.protocols.dialects.langgraph_events import CHANNELS
from tests.langgraph.frames import new_thread
from tests.protocols.auth.auth_server import open_auth_server
from tests.server import ServerProcess
from tests.sse import blocks

ALL = sorted(CHANNELS)
Frames = list[dict[str, Any]]


async def _command(client: httpx2.AsyncClient, thread: str, method: str, **params: Any) -> dict[str, Any]:
    answer = await client.post(f"/threads/{thread}/commands", json={"id": 7, "method": method, "params": params})
    made: dict[str, Any] = answer.json()
    return made


async def _start(client: httpx2.AsyncClient, thread: str, text: str) -> dict[str, Any]:
    return await _command(client, thread, "run.start", assistant_id="helper", input={"messages": text})


def _is_last(frame: dict[str, Any]) -> bool:
    data = frame["params"]["data"]
    ends = ("completed", "failed", "interrupted")
    return frame["method"] == "lifecycle" and not frame["params"]["namespace"] and data["event"] in ends


async def _events(client: httpx2.AsyncClient, thread: str, since: int | None = None, *, ends: int = 1) -> Frames:
    """Until the thread came to rest that often."""
    body = {"channels": ALL} | ({} if since is None else {"since": since})
    found: Frames = []
    async with client.stream("POST", f"/threads/{thread}/stream/events", json=body) as answer:
        assert answer.status_code == 200
        async for block in blocks(answer):
            data = [line for line in block.split(b"\n") if line.startswith(b"data: ")]
            found += [json.loads(line[6:]) for line in data]
            if found and sum(map(_is_last, found)) == ends:
                return found
    raise AssertionError("the stream ended by itself")


@pytest.mark.requirement("PX-3")
async def test_a_thread_is_followed_from_any_event_on(client: httpx2.AsyncClient) -> None:
    """What was cut off in the middle of an event comes again, and is known by its id."""
    thread = await new_thread(client)
    begun = await _start(client, thread, "what time is it")
    assert begun["type"] == "success" and begun["id"] == 7
    frames = await _events(client, thread)
    assert [frame["method"] for frame in frames[:3]] == ["lifecycle", "checkpoints", "values"]
    assert {frame["method"] for frame in frames} == set(ALL) - {"custom", "input"}
    ids = [frame["event_id"] for frame in frames]
    assert len(ids) == len(set(ids))
    for number, _frame in enumerate(frames[:-1]):
        seen = frames[: number + 1]
        cursor = max((one.get("seq", 0) for one in seen), default=0)
        known = {one["event_id"] for one in seen}
        rest = [one for one in await _events(client, thread, cursor) if one["event_id"] not in known]
        assert seen + rest == frames, frames[number]["event_id"]


async def test_a_question_is_asked_and_answered_by_commands(client: httpx2.AsyncClient) -> None:
    thread = await new_thread(client)
    await _start(client, thread, "publish it")
    (asked,) = [one["params"]["data"] for one in await _events(client, thread) if one["method"] == "input.requested"]
    wrong = await _command(client, thread, "input.respond", namespace=[], interrupt_id="int_x", response=True)
    assert wrong["error"] == "no_such_interrupt"
    done = await _command(client, thread, "input.respond", interrupt_id=asked["interrupt_id"], response=True)
    assert done["result"]["run_id"].endswith(".1")
    frames = await _events(client, thread, ends=2)
    assert frames[-1]["params"]["data"]["event"] == "completed"
    state = await _command(client, thread, "state.get", namespace=[])
    assert state["result"]["values"]["messages"][-1]["content"] == "Published."
    points = (await _command(client, thread, "state.listCheckpoints", limit=2))["result"]["checkpoints"]
    forked = await _command(client, thread, "state.fork", checkpoint_id=points[0]["id"], input={"messages": "and now"})
    assert forked["result"]["thread_id"] != thread
    assert (await _command(client, thread, "agent.getTree"))["result"]["tree"]["status"] == "completed"


async def test_a_socket_takes_commands_and_sends_what_is_subscribed(server: ServerProcess) -> None:
    address = server.url.replace("http", "ws", 1) + "/langgraph/threads/by-socket/stream/events"
    async with connect(address) as socket:

        async def say(number: int, method: str, **params: Any) -> dict[str, Any]:
            await socket.send(json.dumps({"id": number, "method": method, "params": params}).decode())
            while True:
                got: dict[str, Any] = json.loads(await socket.recv())
                if got["type"] != "event":
                    return got

        bad = await say(1, "subscription.subscribe", channels=["nothing"])
        assert bad["error"] == "invalid_argument"
        begun = await say(2, "run.start", assistant_id="helper", input={"messages": "hi"})
        assert begun["type"] == "success"
        made = await say(3, "subscription.subscribe", channels=["lifecycle", "values"])
        assert made["result"]["subscription_id"] == "sub-1"
        seen: Frames = []
        while not (seen and _is_last(seen[-1])):
            seen.append(json.loads(await socket.recv()))
        assert {one["method"] for one in seen} == {"lifecycle", "values"}
        ended = await say(4, "subscription.unsubscribe", subscription_id="sub-1")
        assert ended["type"] == "success"
        assert (await say(5, "subscription.unsubscribe", subscription_id="sub-1"))["error"] == "no_such_subscription"
        assert (await say(6, "nonsense"))["error"] == "unknown_command"
        await socket.send("{")
        assert json.loads(await socket.recv())["error"] == "invalid_argument"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"channels": []},
        {"channels": ["x"]},
        {"channels": [1]},
        {"channels": ["custom:"]},
        {"channels": ["values"], "since": True},
        {"channels": ["values"], "since": -1},
        {"channels": ["values"], "namespaces": "a"},
        {"channels": ["values"] * 100},
    ],
)
async def test_a_subscription_that_means_nothing_is_refused(client: httpx2.AsyncClient, body: Any) -> None:
    thread = await new_thread(client)
    assert (await client.post(f"/threads/{thread}/stream/events", json=body)).status_code == 400


@pytest.mark.parametrize("command", [[], {}, {"id": "1", "method": "x"}, {"id": 1}, {"id": True, "method": "x"}])
async def test_what_is_no_command_is_answered_as_an_error(client: httpx2.AsyncClient, command: Any) -> None:
    answer = await client.post(f"/threads/{await new_thread(client)}/commands", json=command)
    assert answer.json()["type"] == "error" and answer.json()["error"] == "invalid_argument"


async def test_what_is_injected_is_read_by_the_run_at_work(client: httpx2.AsyncClient) -> None:
    thread = await new_thread(client)
    begun = await _start(client, thread, "publish it")
    await client.get(f"/threads/{thread}/runs/{begun['result']['run_id']}/join")
    said = {"role": "user", "content": "and be quick"}
    done = await _command(client, thread, "input.inject", namespace=[], message=said)
    assert done["type"] == "success" and done["meta"]["applied_through_seq"] > 0
    resume = {"assistant_id": "helper", "command": {"resume": True}}
    values = (await client.post(f"/threads/{thread}/runs/wait", json=resume)).json()
    assert "and be quick" in [message["content"] for message in values["messages"]]
    late = await _command(client, thread, "input.inject", namespace=[], message=said)
    assert late["error"] == "no_such_run"
    wrong = await _command(client, thread, "input.inject", message={"role": "system", "content": "obey"})
    assert wrong["error"] == "invalid_argument"


@pytest.mark.requirement("PX-7")
async def test_a_socket_shows_nothing_of_another_tenant(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        theirs, ours = await server.caller("admin", "theirs"), await server.caller("admin", "ours")
        body = {"assistant_id": "echo", "input": {"messages": "secret"}}
        values = await theirs.post("/langgraph/runs/wait", json=body)
        thread = values.headers["content-location"].split("/")[2]
        assert (await ours.post("/langgraph/threads/prune", json={"thread_ids": [thread]})).json() == {
            "pruned_count": 0
        }
        assert (await theirs.get(f"/langgraph/threads/{thread}")).status_code == 200
        asked = await ours.post(f"/langgraph/threads/{thread}/stream/events", json={"channels": ["values"]})
        assert asked.status_code == 404 and "secret" not in asked.text
        url = f"{server.url.replace('http', 'ws', 1)}/langgraph/threads/{thread}/stream/events"
        key = ours.headers["authorization"]
        async with connect(url, additional_headers={"authorization": key}) as socket:
            await socket.send('{"id":1,"method":"state.get"}')
            assert "secret" not in str(await socket.recv())

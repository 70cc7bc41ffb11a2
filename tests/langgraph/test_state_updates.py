"""A thread's state set by a client: messages added, replaced and removed, and runs from where it stood before."""

from typing import Any

import httpx2
import pytest

from tests.langgraph.frames import new_thread, run_body

pytestmark = pytest.mark.requirement("PX-5")


async def _run(client: httpx2.AsyncClient, thread: str, text: str, **more: Any) -> list[str]:
    answer = await client.post(f"/threads/{thread}/runs/wait", json=run_body(text, **more))
    assert answer.status_code == 200, answer.text
    return _said(answer.json())


def _said(values: Any) -> list[str]:
    return [message["content"] for message in values["messages"]]


async def _state(client: httpx2.AsyncClient, thread: str) -> Any:
    return (await client.get(f"/threads/{thread}/state")).json()


async def _sent(client: httpx2.AsyncClient, thread: str) -> list[str]:
    """What the model was sent in the thread's last run."""
    root = httpx2.AsyncClient(base_url=str(client.base_url).removesuffix("/langgraph/"), timeout=30, verify=False)
    async with root:
        run = (await root.get("/api/runs", params={"threadId": thread})).json()["items"][0]["id"]
        events = (await root.get(f"/api/runs/{run}/events")).json()["items"]
        asked = next(event for event in events if event["type"] == "runtime.model.requested")
        return [message["content"] for message in asked["payload"]["messages"] if message["role"] != "system"]


async def test_messages_join_the_conversation_and_the_next_run_is_sent_them(client: httpx2.AsyncClient) -> None:
    thread = await new_thread(client)
    before = await _run(client, thread, "hello")
    said = [{"role": "user", "content": "By the way"}, {"type": "ai", "content": "Noted.", "id": "mine"}]
    made = await client.post(f"/threads/{thread}/state", json={"values": {"messages": said}, "as_node": "model"})
    assert made.status_code == 200, made.text
    state = await _state(client, thread)
    assert state["checkpoint"] == made.json()["checkpoint"] and state["metadata"]["source"] == "update"
    assert _said(state["values"]) == [*before, "By the way", "Noted."]
    assert state["values"]["messages"][-1]["id"] == "mine"
    assert await _run(client, thread, "and now") == [
        *before, "By the way", "Noted.", "and now", "You said: and now",
    ]  # fmt: skip
    assert await _sent(client, thread) == [*before, "By the way", "Noted.", "and now"]


async def test_messages_are_replaced_and_removed_by_their_ids(client: httpx2.AsyncClient) -> None:
    thread = await new_thread(client)
    await _run(client, thread, "hello")
    human, ai = (await _state(client, thread))["values"]["messages"]
    changed = [{"type": "human", "content": "Good evening", "id": human["id"]}]
    await client.post(f"/threads/{thread}/state", json={"values": {"messages": changed}})
    state = await _state(client, thread)
    assert _said(state["values"]) == ["Good evening", ai["content"]] and state["values"]["messages"][1] == ai
    removed = {"values": {"messages": [{"type": "remove", "id": ai["id"]}]}}
    assert (await client.post(f"/threads/{thread}/state", json=removed)).status_code == 200
    assert await _run(client, thread, "again") == ["Good evening", "again", "You said: again"]
    assert await _sent(client, thread) == ["Good evening", "again"]
    assert (await client.post(f"/threads/{thread}/state", json=removed)).status_code == 422
    everything = {"values": {"messages": [{"type": "remove", "id": "__remove_all__"}], "topic": "new"}}
    await client.post(f"/threads/{thread}/state", json=everything)
    assert (await _state(client, thread))["values"] == {"topic": "new", "messages": []}
    history = (await client.post(f"/threads/{thread}/history", json={"limit": 100})).json()
    assert _said(history[-1]["values"]) == ["hello"], "what was is still there to be looked at"
    copy = (await client.post(f"/threads/{thread}/copy")).json()["thread_id"]
    assert await _run(client, copy, "alone") == ["alone", "You said: alone"]


async def test_a_run_goes_on_from_an_earlier_checkpoint(client: httpx2.AsyncClient) -> None:
    thread = await new_thread(client)
    first = await _run(client, thread, "hello")
    after_first = (await _state(client, thread))["checkpoint"]
    await _run(client, thread, "what time is it")
    assert await _run(client, thread, "other", checkpoint=after_first) == [*first, "other", "You said: other"]
    assert await _sent(client, thread) == [*first, "other"]
    states = (await client.post(f"/threads/{thread}/history", json={"limit": 100})).json()
    asked = next(state for state in states if _said(state["values"]) == [*first, "what time is it"])
    again = {"assistant_id": "helper", "checkpoint": asked["checkpoint"]}
    values = (await client.post(f"/threads/{thread}/runs/wait", json=again)).json()
    assert _said(values)[:3] == [*first, "what time is it"] and _said(values)[-1] == "It is late."
    assert values["messages"][2]["id"] == asked["values"]["messages"][2]["id"]
    nothing = {"assistant_id": "helper", "checkpoint": after_first}
    assert (await client.post(f"/threads/{thread}/runs/wait", json=nothing)).status_code == 422
    set_back = {"values": {"messages": "from here"}, "checkpoint": after_first}
    assert (await client.post(f"/threads/{thread}/state", json=set_back)).status_code == 200
    state = await _state(client, thread)
    assert _said(state["values"]) == [*first, "from here"] and state["metadata"]["source"] == "fork"


async def test_a_thread_at_work_or_waiting_is_not_changed(client: httpx2.AsyncClient) -> None:
    thread = await new_thread(client)
    await client.post(f"/threads/{thread}/runs/wait", json=run_body("publish it"))
    update = {"values": {"messages": "x"}}
    refused = await client.post(f"/threads/{thread}/state", json=update)
    assert refused.status_code == 409 and refused.json()["code"] == "THREAD_BUSY"
    body = run_body("endlessly", multitask_strategy="interrupt")
    run = (await client.post(f"/threads/{thread}/runs", json=body)).json()
    assert (await client.post(f"/threads/{thread}/state", json=update)).status_code == 409
    assert (await client.post(f"/threads/{thread}/runs/{run['run_id']}/cancel?wait=1")).status_code == 200
    assert (await client.post(f"/threads/{thread}/state", json=update)).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        {"values": "x"}, {"values": {"messages": [{"role": "nobody", "content": "x"}]}}, {"values": {"messages": [1]}},
        {"values": {"messages": [{"role": "user", "content": "x", "id": 7}]}},
        {"values": {"messages": [{"role": "system", "content": "x"}]}},
        {"values": {"messages": [{"role": "tool", "content": "x", "tool_call_id": "none"}]}},
        {"values": {"messages": [{"type": "ai", "content": "", "tool_calls": [{"id": "a", "name": "b", "args": {}}]}]}},
        {"values": {"messages": ["x"] * 10_001}}, {"values": {"messages": "x" * 5_000_000}}, {"as_node": 1},
        {"checkpoint": 3}, {"values": {"messages": [{"type": "human", "content": [{"type": "image", "url": "http://x"}]}]}},
    ],
)  # fmt: skip
async def test_nonsense_changes_nothing(client: httpx2.AsyncClient, body: dict[str, Any]) -> None:
    thread = await new_thread(client)
    answer = await client.post(f"/threads/{thread}/state", json=body)
    if "checkpoint" in body:
        assert answer.status_code == 200  # not an object: as LangGraph's server takes it, no checkpoint at all
        return
    assert answer.status_code in (413, 422) and "detail" in answer.json(), answer.text
    assert (await _state(client, thread))["values"] == {}

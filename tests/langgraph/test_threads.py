"""Threads and assistants of the LangGraph interface: found, counted, copied, looked at as they were."""

import itertools

import httpx2
import pytest

from tests.langgraph.frames import new_thread, run_body
from tests.server import ServerProcess


async def test_threads_are_found_by_metadata_status_and_ids(client: httpx2.AsyncClient) -> None:
    mark = (await new_thread(client))[-12:]
    ids = [
        (await client.post("/threads", json={"metadata": {"mark": mark, "n": n}})).json()["thread_id"] for n in range(3)
    ]
    await client.post(f"/threads/{ids[0]}/runs/wait", json=run_body("publish it"))
    found = await client.post("/threads/search", json={"metadata": {"mark": mark}, "limit": 2})
    assert [one["thread_id"] for one in found.json()] == [ids[2], ids[1]]
    assert found.headers["x-pagination-total"] == "3" and found.headers["x-pagination-next"] == "2"
    waiting = await client.post("/threads/search", json={"metadata": {"mark": mark}, "status": "interrupted"})
    assert [one["thread_id"] for one in waiting.json()] == [ids[0]]
    by_agent = await client.post("/threads/search", json={"metadata": {"mark": mark, "graph_id": "helper"}})
    assert [one["thread_id"] for one in by_agent.json()] == [ids[0]]
    assert (await client.post("/threads/count", json={"metadata": {"mark": mark}})).json() == 3
    named = await client.post("/threads/search", json={"ids": [ids[1], "nobody"], "select": ["thread_id"]})
    assert named.json() == [{"thread_id": ids[1]}]


async def test_a_thread_is_created_once(client: httpx2.AsyncClient) -> None:
    thread = await new_thread(client)
    again = {"thread_id": thread, "metadata": {"a": 1}}
    assert (await client.post("/threads", json=again)).status_code == 409
    kept = await client.post("/threads", json={**again, "if_exists": "do_nothing"})
    assert kept.status_code == 200 and kept.json()["metadata"] == {}
    changed = await client.patch(f"/threads/{thread}", json={"metadata": {"b": 2}})
    assert changed.json()["metadata"] == {"b": 2}


async def test_history_shows_the_state_at_every_checkpoint(client: httpx2.AsyncClient) -> None:
    thread = await new_thread(client)
    await client.post(f"/threads/{thread}/runs/wait", json=run_body("what time is it"))
    states = (await client.post(f"/threads/{thread}/history", json={"limit": 100})).json()
    assert [len(state["values"]["messages"]) for state in states] == [4, 4, 3, 2, 1]
    for newer, older in itertools.pairwise(states):
        assert newer["parent_checkpoint"] == older["checkpoint"]
    for state in states:
        named = state["checkpoint"]["checkpoint_id"]
        assert (await client.get(f"/threads/{thread}/state/{named}")).json() == state
        asked = await client.post(f"/threads/{thread}/state/checkpoint", json={"checkpoint": state["checkpoint"]})
        assert asked.json() == state
    before = {"limit": 2, "before": states[1]["checkpoint"]}
    assert (await client.post(f"/threads/{thread}/history", json=before)).json() == states[2:4]
    assert (await client.get(f"/threads/{thread}/history", params={"limit": 1})).json() == states[:1]
    assert (await client.get(f"/threads/{thread}/state/1f000000-0000-6000-8000-0000000fffff")).status_code == 404
    assert (await client.get(f"/threads/{thread}/state/nonsense")).status_code == 404


async def test_a_run_starts_at_a_checkpoint_of_its_own_thread_only(client: httpx2.AsyncClient) -> None:
    thread = await new_thread(client)
    await client.post(f"/threads/{thread}/runs/wait", json=run_body("what time is it"))
    latest, *_ = (await client.post(f"/threads/{thread}/history", json={"limit": 100})).json()
    nowhere = {**run_body("hello"), "checkpoint_id": "1f000000-0000-6000-8000-0000000fffff"}
    assert (await client.post(f"/threads/{thread}/runs/wait", json=nowhere)).status_code == 404
    good = {**run_body("hello"), "checkpoint_id": latest["checkpoint"]["checkpoint_id"]}
    assert (await client.post(f"/threads/{thread}/runs/wait", json=good)).status_code == 200


async def test_a_copy_goes_on_by_itself(client: httpx2.AsyncClient) -> None:
    thread = await new_thread(client)
    await client.post(f"/threads/{thread}/runs/wait", json=run_body("hello"))
    copy = (await client.post(f"/threads/{thread}/copy")).json()["thread_id"]
    values = (await client.post(f"/threads/{copy}/runs/wait", json=run_body("again"))).json()
    assert [message["content"] for message in values["messages"]] == [
        "hello", "You said: hello", "again", "You said: again",
    ]  # fmt: skip
    assert len((await client.get(f"/threads/{thread}/state")).json()["values"]["messages"]) == 2


async def test_threads_are_deleted_one_by_one_and_pruned(client: httpx2.AsyncClient) -> None:
    ids = [await new_thread(client) for _ in range(3)]
    assert (await client.delete(f"/threads/{ids[0]}")).status_code == 204
    assert (await client.get(f"/threads/{ids[0]}")).status_code == 404
    pruned = await client.post("/threads/prune", json={"thread_ids": ids})
    assert pruned.json() == {"pruned_count": 2}
    refused = await client.post("/threads/prune", json={"thread_ids": ids, "strategy": "keep_latest"})
    assert refused.status_code == 422


async def test_assistants_are_the_agents_and_workflows_of_the_workspace(client: httpx2.AsyncClient) -> None:
    found = (await client.post("/assistants/search", json={"limit": 100})).json()
    assert {"helper", "chief", "workflow:review"} <= {one["graph_id"] for one in found}
    assert (await client.post("/assistants/count", json={})).json() == len(found)
    helper = next(one for one in found if one["graph_id"] == "helper")
    for named in (helper["assistant_id"], "helper"):
        assert (await client.get(f"/assistants/{named}")).json() == helper
    (version,) = (await client.post("/assistants/helper/versions", json={})).json()
    assert version == helper and len(helper["metadata"]["workspace_digest"]) == 64
    assert (await client.post("/assistants/helper/latest", json={"version": 1})).json() == helper
    graph = (await client.get("/assistants/workflow:review/graph")).json()
    assert [node["id"] for node in graph["nodes"]] == ["__start__", "draft", "check", "__end__"]
    assert list((await client.get("/assistants/chief/subgraphs")).json()) == ["closed", "helper"]
    assert (await client.get("/assistants/helper/schemas")).json()["input_schema"]["required"] == ["messages"]
    assert (await client.get("/assistants/nobody")).status_code == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", ""), ("PATCH", "/helper"), ("DELETE", "/helper"), ("POST", "/helper/latest")],
)
async def test_assistants_change_with_the_workspace_only(client: httpx2.AsyncClient, method: str, path: str) -> None:
    answer = await client.request(method, f"/assistants{path}", json={"graph_id": "helper", "version": 7})
    assert answer.status_code == 409 and "workspace" in answer.json()["detail"]


async def test_the_interface_is_at_the_root_too_where_the_settings_say_so(server: ServerProcess) -> None:
    async with httpx2.AsyncClient(base_url=server.url, timeout=30, verify=False) as client:
        values = (await client.post("/runs/wait", json=run_body("hi"))).json()
        assert values["messages"][-1]["content"] == "You said: hi"
        assert (await client.get("/threads/nothing")).json()["detail"]

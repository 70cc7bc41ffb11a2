"""Runs of the LangGraph interface: their statuses, what waits, what resumes, what is cancelled."""

from typing import Any

import httpx2
import pytest

from tests.langgraph.frames import frames_of, new_thread, run_body


async def _wait(client: httpx2.AsyncClient, thread: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = await client.post(f"/threads/{thread}/runs/wait", json=body)
    assert answer.status_code == 200, answer.text
    values: dict[str, Any] = answer.json()
    return values


@pytest.mark.requirement("SH-22", "PX-3")
async def test_a_pause_is_a_success_and_its_answer_another_run(client: httpx2.AsyncClient) -> None:
    thread = await new_thread(client)
    paused = await _wait(client, thread, run_body("publish it"))
    (asked,) = paused["__interrupt__"]
    assert asked["value"]["action_requests"][0] == {
        "name": "publish", "args": {"text": "news"}, "description": "May helper use publish?",
    }  # fmt: skip
    (run,) = (await client.get(f"/threads/{thread}/runs")).json()
    shown = (await client.get(f"/threads/{thread}")).json()
    assert run["status"] == "success" and shown["status"] == "interrupted"
    assert shown["interrupts"] == {asked["id"]: [asked]}
    state = (await client.get(f"/threads/{thread}/state")).json()
    assert state["next"] == ["tools"] and state["tasks"][0]["interrupts"] == [asked]
    done = await _wait(
        client, thread, {"assistant_id": "helper", "command": {"resume": {"decisions": [{"type": "approve"}]}}}
    )
    assert done["messages"][-1]["content"] == "Published."
    runs = (await client.get(f"/threads/{thread}/runs")).json()
    assert [one["run_id"] for one in runs] == [f"{run['run_id']}.1", run["run_id"]]
    assert [one["status"] for one in runs] == ["success", "success"]
    assert (await client.get(f"/threads/{thread}")).json()["status"] == "idle"


async def test_a_rejected_action_is_told_to_the_model(client: httpx2.AsyncClient) -> None:
    thread = await new_thread(client)
    await _wait(client, thread, run_body("publish it"))
    answer = {"type": "reject", "message": "not today"}
    done = await _wait(client, thread, {"assistant_id": "helper", "command": {"resume": [answer]}})
    assert "not today" in str(done["messages"]) and "__interrupt__" not in done


async def test_a_new_input_leaves_the_question_behind(client: httpx2.AsyncClient) -> None:
    thread = await new_thread(client)
    await _wait(client, thread, run_body("publish it"))
    done = await _wait(client, thread, run_body("hello"))
    assert done["messages"][-1]["content"] == "You said: hello" and "__interrupt__" not in done
    runs = (await client.get(f"/threads/{thread}/runs")).json()
    assert [one["status"] for one in runs] == ["success", "success"]


async def test_a_workflow_is_an_assistant_whose_steps_are_nodes(client: httpx2.AsyncClient) -> None:
    thread = await new_thread(client)
    body = {"assistant_id": "workflow:review", "input": {"topic": "x"}, "stream_mode": "updates"}
    frames = await frames_of(client, "POST", f"/threads/{thread}/runs/stream", body=body)
    assert [list(frame.data) for frame in frames if frame.event == "updates"] == [["draft"], ["__interrupt__"]]
    done = await _wait(client, thread, {"assistant_id": "workflow:review", "command": {"resume": {"good": "yes"}}})
    assert done["output"] == {"good": "yes"}


async def test_a_cancelled_run_is_interrupted(client: httpx2.AsyncClient) -> None:
    thread = await new_thread(client)
    run = (await client.post(f"/threads/{thread}/runs", json=run_body("endlessly"))).json()
    path = f"/threads/{thread}/runs/{run['run_id']}"
    assert run["status"] == "pending"
    assert (await client.post(f"{path}/cancel")).status_code == 202
    values = (await client.get(f"{path}/join")).json()
    assert values["__error__"]["error"] == "UserInterrupt"
    assert (await client.get(path)).json()["status"] == "interrupted"
    assert (await client.get(f"/threads/{thread}")).json()["status"] == "idle"


async def test_a_cancel_that_rolls_back_takes_the_run_out_of_the_conversation(client: httpx2.AsyncClient) -> None:
    thread = await new_thread(client)
    await _wait(client, thread, run_body("hello"))
    run = (await client.post(f"/threads/{thread}/runs", json=run_body("endlessly"))).json()["run_id"]
    await client.post(f"/threads/{thread}/runs/{run}/cancel?action=rollback&wait=1")
    said = (await client.get(f"/threads/{thread}/state")).json()["values"]["messages"]
    assert [message["content"] for message in said] == ["hello", "You said: hello"]


async def test_many_are_cancelled_at_once(client: httpx2.AsyncClient) -> None:
    thread = await new_thread(client)
    runs = [(await client.post(f"/threads/{thread}/runs", json=run_body("endlessly"))).json() for _ in range(3)]
    ids = [run["run_id"] for run in runs]
    answer = await client.post("/runs/cancel", json={"thread_id": thread, "run_ids": ids})
    assert answer.status_code == 204
    for run_id in ids:
        assert "__error__" in (await client.get(f"/threads/{thread}/runs/{run_id}/join")).json()


async def test_a_failed_run_is_an_error_inside_the_answer(client: httpx2.AsyncClient) -> None:
    thread = await new_thread(client)
    values = await _wait(client, thread, run_body("fail please"))
    assert values["__error__"]["error"] == "PROVIDER_ERROR"
    shown = (await client.get(f"/threads/{thread}")).json()
    assert shown["status"] == "error" and shown["error"]["error"] == "PROVIDER_ERROR"
    (run,) = (await client.get(f"/threads/{thread}/runs", params={"status": "error"})).json()
    assert run["status"] == "error"


async def test_a_busy_thread_is_answered_as_the_strategy_says(client: httpx2.AsyncClient) -> None:
    thread = await new_thread(client)
    first = (await client.post(f"/threads/{thread}/runs", json=run_body("endlessly"))).json()["run_id"]
    refused = await client.post(f"/threads/{thread}/runs", json=run_body("hi", multitask_strategy="reject"))
    assert refused.status_code == 409
    done = await _wait(client, thread, run_body("hi", multitask_strategy="interrupt"))
    assert done["messages"][-1]["content"] == "You said: hi"
    assert (await client.get(f"/threads/{thread}/runs/{first}")).json()["status"] == "interrupted"


async def test_runs_without_a_thread_leave_none_behind_in_lists(client: httpx2.AsyncClient) -> None:
    before = (await client.post("/threads/count", json={})).json()
    values = (await client.post("/runs/wait", json=run_body("hi"))).json()
    assert values["messages"][-1]["content"] == "You said: hi"
    made = (await client.post("/runs/batch", json=[run_body("a"), run_body("b")])).json()
    for run in made:
        joined = await client.get(f"/threads/{run['thread_id']}/runs/{run['run_id']}/join")
        assert joined.json()["messages"][-1]["content"].startswith("You said: ")
    assert (await client.post("/threads/count", json={})).json() == before


@pytest.mark.parametrize(
    "more",
    [
        {"webhook": "https://example.com/x"},
        {"feedback_keys": ["a"]},
        {"command": {"goto": "model"}},
        {"interrupt_before": ["model"]},
        {"multitask_strategy": "pile"},
        {"assistant_id": "nobody"},
        {"assistant_id": None},
        {"input": None},
        {"input": {"messages": []}},
        {"input": {"messages": [{"role": "wizard", "content": "x"}]}},
        {"input": {"messages": [{"role": "assistant", "content": "x"}]}},
        {"input": {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "http://x/y"}]}]}},
        {"metadata": []},
        {"command": {"resume": 1}, "input": {"messages": "x"}},
    ],
)
async def test_what_cannot_be_served_is_refused_and_starts_nothing(
    client: httpx2.AsyncClient, more: dict[str, Any]
) -> None:
    thread = await new_thread(client)
    answer = await client.post(f"/threads/{thread}/runs", json={**run_body("hi"), **more})
    assert answer.status_code == 422 and isinstance(answer.json()["detail"], str)
    assert (await client.get(f"/threads/{thread}/runs")).json() == []


async def test_a_run_is_not_deleted_alone(client: httpx2.AsyncClient) -> None:
    thread = await new_thread(client)
    run = (await client.post(f"/threads/{thread}/runs", json=run_body("hi"))).json()["run_id"]
    assert (await client.delete(f"/threads/{thread}/runs/{run}")).status_code == 409


async def test_ids_that_name_nothing_are_not_found(client: httpx2.AsyncClient) -> None:
    thread, other = await new_thread(client), await new_thread(client)
    run = (await client.post(f"/threads/{thread}/runs", json=run_body("hi"))).json()["run_id"]
    for path in (f"{other}/runs/{run}", f"{thread}/runs/{run}.1", f"{thread}/runs/{run}.01", f"{thread}/runs/x", "x"):
        assert (await client.get(f"/threads/{path}")).status_code == 404, path
    assert (await client.post("/threads/x/runs", json=run_body("hi"))).status_code == 404
    assert (await client.post("/threads/made-up/runs", json=run_body("hi", if_not_exists="create"))).status_code == 200


async def test_a_run_starts_after_its_seconds_and_not_before(client: httpx2.AsyncClient) -> None:
    thread = await new_thread(client)
    late = (await client.post(f"/threads/{thread}/runs", json=run_body("late", after_seconds=3600))).json()
    assert late["status"] == "pending"
    soon = (await client.post(f"/threads/{thread}/runs", json=run_body("soon", after_seconds=0.2))).json()
    values = (await client.get(f"/threads/{thread}/runs/{soon['run_id']}/join")).json()
    assert [message["content"] for message in values["messages"]] == ["soon", "You said: soon"]
    assert (await client.get(f"/threads/{thread}/runs/{late['run_id']}")).json()["status"] == "pending"
    cancel = await client.post(f"/threads/{thread}/runs/{late['run_id']}/cancel?wait=1")
    assert cancel.status_code == 200
    assert (await client.get(f"/threads/{thread}/runs/{late['run_id']}")).json()["status"] == "interrupted"
    for seconds in (-1, "5", True, 10**10):
        refused = await client.post(f"/threads/{thread}/runs", json=run_body("x", after_seconds=seconds))
        assert refused.status_code == 422


async def test_a_new_run_waits_for_the_one_at_work_or_takes_its_messages_out(client: httpx2.AsyncClient) -> None:
    thread = await new_thread(client)
    await client.post(f"/threads/{thread}/runs", json=run_body("slowly"))
    done = await client.post(f"/threads/{thread}/runs/wait", json=run_body("hi", multitask_strategy="enqueue"))
    said = [message["content"] for message in done.json()["messages"]]
    assert said == ["slowly", "OneTwoThreeFourFiveSixSevenEight", "hi", "You said: hi"]
    await client.post(f"/threads/{thread}/runs", json=run_body("endlessly"))
    done = await client.post(f"/threads/{thread}/runs/wait", json=run_body("again", multitask_strategy="rollback"))
    assert [message["content"] for message in done.json()["messages"]] == [*said, "again", "You said: again"]

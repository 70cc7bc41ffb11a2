"""Crons of the LangGraph interface: they are schedules, fire on a thread or on one of their own, and can be changed."""

from typing import Any

import httpx2
import pytest

from tests.langgraph.frames import new_thread, run_body

pytestmark = pytest.mark.requirement("PX-5")
YEARLY = "0 0 1 1 *"


async def _create(client: httpx2.AsyncClient, thread: str | None = None, **more: Any) -> Any:
    path = "/runs/crons" if thread is None else f"/threads/{thread}/runs/crons"
    answer = await client.post(path, json=run_body("hello", schedule=YEARLY, **more))
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_cron_is_created_found_changed_and_deleted(client: httpx2.AsyncClient) -> None:
    thread = await new_thread(client)
    made = await _create(
        client, thread, metadata={"of": thread}, timezone="Europe/Berlin", end_time="2099-01-01T00:00:00"
    )
    assert made["thread_id"] == thread and made["schedule"] == YEARLY and made["enabled"] is True
    assert made["end_time"] == "2099-01-01T00:00:00.000Z" and made["next_run_date"].endswith("T23:00:00.000Z")
    assert made["payload"]["input"] == run_body("hello")["input"]
    other = await _create(client, metadata={"of": thread}, on_run_completed="keep", enabled=False)
    assert other["thread_id"] is None and other["enabled"] is False and other["next_run_date"] is None
    wanted = {"metadata": {"of": thread}}
    found = await client.post("/runs/crons/search", json={**wanted, "limit": 1, "sort_by": "created_at"})
    assert [one["cron_id"] for one in found.json()] == [other["cron_id"]]
    assert found.headers["x-pagination-total"] == "2" and found.headers["x-pagination-next"] == "1"
    assert (await client.post("/runs/crons/count", json={"thread_id": thread})).json() == 1
    assert (await client.post("/runs/crons/count", json={**wanted, "enabled": False})).json() == 1
    assert (await client.post("/runs/crons/count", json={**wanted, "assistant_id": "chief"})).json() == 0
    change = {"schedule": "30 6 * * 1", "enabled": True, "end_time": None, "input": {"messages": "another"}}
    changed = (await client.patch(f"/runs/crons/{made['cron_id']}", json=change)).json()
    assert (
        changed["schedule"] == "30 6 * * 1" and changed["end_time"] is None and changed["timezone"] == "Europe/Berlin"
    )
    assert changed["payload"]["input"] == {"messages": "another"} and changed["created_at"] == made["created_at"]
    for one in (made, other):
        assert (await client.delete(f"/runs/crons/{one['cron_id']}")).status_code == 204
        assert (await client.delete(f"/runs/crons/{one['cron_id']}")).status_code == 404
        assert (await client.patch(f"/runs/crons/{one['cron_id']}", json={"enabled": False})).status_code == 404
    assert (await client.post("/runs/crons/count", json=wanted)).json() == 0


async def test_a_cron_fires_on_its_thread_and_its_runs_are_the_threads(client: httpx2.AsyncClient) -> None:
    """Asked for now, as everything but the clock would have it; that due times fire once is the schedules' own test."""
    thread = await new_thread(client)
    cron = await _create(client, thread, metadata={"by": "cron"}, stream_mode=["updates"])
    url = str(client.base_url).removesuffix("/langgraph/")
    async with httpx2.AsyncClient(base_url=url, timeout=30, verify=False) as root:
        assert (await root.post(f"/api/schedules/{cron['cron_id']}/run")).status_code == 202
        (run,) = (await client.get(f"/threads/{thread}/runs")).json()
        assert run["metadata"]["by"] == "cron" and run["kwargs"]["stream_mode"] == ["updates"]
        values = (await client.get(f"/threads/{thread}/runs/{run['run_id']}/join")).json()
        assert values["messages"][-1]["content"] == "You said: hello"
        alone = await _create(client)
        made = (await root.post(f"/api/schedules/{alone['cron_id']}/run")).json()
        listed = await client.post("/threads/search", json={"ids": [made["threadId"]]})
        assert listed.json() == [], "its thread is left out of lists, as that of a run without one"
        shown = (await root.get(f"/api/schedules/{cron['cron_id']}")).json()
        assert shown["cron"] == YEARLY and shown["declared"] is False
    for one in (cron, alone):
        await client.delete(f"/runs/crons/{one['cron_id']}")


async def test_a_cron_whose_end_has_passed_has_no_next_time(client: httpx2.AsyncClient) -> None:
    thread = await new_thread(client)
    body = run_body("on time", schedule="* * * * *", end_time="2000-01-01T00:00:00Z")
    over = (await client.post(f"/threads/{thread}/runs/crons", json=body)).json()
    assert over["next_run_date"] is None and over["enabled"] is True
    await client.delete(f"/runs/crons/{over['cron_id']}")


@pytest.mark.parametrize(
    "change",
    [
        {"schedule": "now and then"}, {"schedule": None}, {"schedule": "0 0 30 2 *"}, {"timezone": "Mars/Olympus"},
        {"end_time": "soon"}, {"input": None}, {"assistant_id": "nobody"}, {"on_run_completed": "burn"},
        {"enabled": "yes"}, {"metadata": {"a": "x" * 70_000}}, {"interrupt_before": ["model"]},
        {"input": {"messages": [{"role": "user", "content": "a"}, {"role": "ai", "content": "b"}]}},
        {"end_time": "0001-01-01T00:00:00+14:00"}, {"end_time": "9999-12-31T23:59:59-14:00"},
    ],
)  # fmt: skip
async def test_what_can_never_be_due_or_run_is_refused(client: httpx2.AsyncClient, change: dict[str, Any]) -> None:
    body = {**run_body("hello", schedule=YEARLY), **change}
    answer = await client.post("/runs/crons", json=body)
    assert answer.status_code in (413, 422) and "detail" in answer.json(), answer.text

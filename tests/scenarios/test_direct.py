"""Direct requests for a tool, and commands to a run, over HTTP."""

import httpx2
import pytest

from app.core.ids import new_id


@pytest.mark.requirement("SH-20", "SH-22")
async def test_a_tool_can_be_run_by_no_agent(client: httpx2.AsyncClient) -> None:
    answer = await client.post("/api/tools/calculator/invoke", json={"arguments": {"expression": "6 * 7"}})
    run = answer.json()
    assert (answer.status_code, run["status"], run["tool"], run["agent"]) == (200, "completed", "calculator", None)
    assert "42" in str(run["output"])
    types = [event["type"] for event in (await client.get(f"/api/runs/{run['id']}/events")).json()["items"]]
    assert "runtime.tool.invoked" in types and "runtime.tool.resulted" in types


@pytest.mark.requirement("SH-20", "SH-12")
async def test_a_direct_call_passes_the_same_guard(client: httpx2.AsyncClient) -> None:
    answer = await client.post("/api/tools/calculator/invoke", json={"arguments": {"formula": "6 * 7"}})
    run = answer.json()
    assert (answer.status_code, run["status"], run["error"]["code"]) == (200, "failed", "INVALID_ARGUMENTS")


@pytest.mark.requirement("SH-20", "CM-4")
async def test_a_direct_call_that_needs_approval_waits_for_it(client: httpx2.AsyncClient) -> None:
    schema = (await client.get("/api/tools/publish")).json()["input"]
    arguments = dict.fromkeys(schema["required"], "hello")
    answer = await client.post("/api/tools/publish/invoke", json={"arguments": arguments})
    assert (answer.status_code, answer.json()["status"]) == (202, "waiting")
    (interrupt,) = answer.json()["waitingOn"]
    assert (await client.get(f"/api/interrupts/{interrupt}")).json()["tool"] == "publish"
    assert (await client.post(f"/api/interrupts/{interrupt}/answer", json={"decision": "deny"})).status_code == 200


async def test_an_unknown_tool_is_404_and_a_key_is_bound_to_its_tool(client: httpx2.AsyncClient) -> None:
    unknown = await client.post("/api/tools/nothing/invoke", json={})
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "TOOL_NOT_FOUND")
    headers = {"idempotency-key": new_id("step")}
    first = await client.post("/api/tools/clock/invoke", json={}, headers=headers)
    again = await client.post("/api/tools/clock/invoke", json={}, headers=headers)
    other = await client.post("/api/tools/echo/invoke", json={}, headers=headers)
    assert first.json()["id"] == again.json()["id"]
    assert (other.status_code, other.json()["error"]["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")


async def test_agent_and_tool_exclude_each_other(client: httpx2.AsyncClient) -> None:
    answer = await client.post("/api/runs", json={"agent": "echo", "tool": "clock", "input": {}})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "INVALID_REQUEST")


async def test_limits_are_checked_and_kept(client: httpx2.AsyncClient) -> None:
    wrong = await client.post("/api/runs", json={"agent": "echo", "input": "x", "limits": {"tokens": 0}})
    assert wrong.json()["error"]["issues"][0]["path"] == "/limits/tokens"
    body = {"agent": "echo", "input": "x", "limits": {"modelCalls": 3}}
    run = (await client.post("/api/runs?wait=20", json=body)).json()
    queued = (await client.get(f"/api/runs/{run['id']}/events?limit=1")).json()["items"][0]
    assert queued["payload"]["limits"] == {"modelCalls": 3}


@pytest.mark.requirement("HK-12")
async def test_a_trace_context_is_recorded_with_its_run(client: httpx2.AsyncClient) -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    body = {"agent": "echo", "input": "x"}
    headers = {"traceparent": parent, "x-request-id": "order-1"}
    run = (await client.post("/api/runs", json=body, headers=headers)).json()
    queued = (await client.get(f"/api/runs/{run['id']}/events?limit=1")).json()["items"][0]
    assert queued["payload"]["traceContext"] == {"traceparent": parent, "requestId": "order-1"}


@pytest.mark.requirement("HK-26")
async def test_commands_reach_a_run_that_has_not_ended_and_no_other(client: httpx2.AsyncClient) -> None:
    waiting = (await client.post("/api/runs?wait=20", json={"agent": "assistant", "input": "publish it now"})).json()
    path = f"/api/runs/{waiting['id']}/commands"
    answer = await client.post(path, json={"command": "checkpoint", "arguments": {"label": "here"}})
    assert (answer.status_code, answer.json()["id"]) == (202, waiting["id"])
    wrong = await client.post(path, json={"command": "steer", "arguments": {"shout": "x"}})
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (400, "COMMAND_INVALID")
    await client.post(f"/api/runs/{waiting['id']}/cancel")
    late = await client.post(path, json={"command": "pause"})
    assert (late.status_code, late.json()["error"]["code"]) == (409, "RUN_TERMINAL")

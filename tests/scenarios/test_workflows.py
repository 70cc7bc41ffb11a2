"""Workflows through HTTP, on both databases: graphs of agents, tools, questions, timers and other workflows."""

from typing import Any

import httpx2
import pytest

from tests.clients import reached

Client = httpx2.AsyncClient


async def start(client: Client, workflow: str, given: Any, **more: Any) -> dict[str, Any]:
    """The run when it has ended, or waits."""
    asked = {"workflow": workflow, "input": given, **more}
    answer = await client.post("/api/runs", params={"wait": 20}, json=asked)
    assert answer.status_code in (200, 202), answer.text
    return dict(answer.json())


async def events(client: Client, run: dict[str, Any]) -> list[dict[str, Any]]:
    page = (await client.get(f"/api/threads/{run['threadId']}/events", params={"limit": 1000})).json()
    return list(page["items"])


async def answered(client: Client, run: dict[str, Any], answer: dict[str, Any]) -> None:
    open_ = [one for one in run["waitingOn"] if one.startswith("int_")]
    given = await client.post(f"/api/interrupts/{open_[0]}/answer", json=answer)
    assert given.status_code == 200, given.text


def nodes(found: list[dict[str, Any]]) -> list[str]:
    """The steps in the order in which they completed."""
    signals = [one["payload"]["event"] for one in found if one["type"] == "runtime.adapter.event"]
    return [one["nodeId"] for one in signals if one["phase"] == "agent.node.completed"]


def types(found: list[dict[str, Any]], prefix: str) -> list[str]:
    return [one["type"] for one in found if one["type"].startswith(prefix)]


@pytest.mark.requirement("SH-5")
async def test_graph_with_foreach_approval_cycle_and_timer_runs_to_its_result(flow: Client) -> None:
    asked = {"routeId": "ship", "input": {"goal": "v1"}}
    run = (await flow.post("/api/runs", params={"wait": 20}, json=asked)).json()
    assert (run["workflow"], run["agent"], run["status"]) == ("release", None, "waiting")
    shown = (await flow.get(f"/api/interrupts/{run['waitingOn'][0]}")).json()
    assert (shown["title"], shown["arguments"]["notes"]) == ("Ship v1?", ["wrote a", "wrote b", "wrote c"])
    await answered(flow, run, {"decision": "deny", "reason": "not yet"})
    again = await reached(flow, run["id"], "waiting")
    while again["waitingOn"] == run["waitingOn"]:
        again = await reached(flow, run["id"], "waiting")
    await answered(flow, again, {"decision": "approve"})
    run = await reached(flow, run["id"])
    assert run["output"] == {"shipped": "shipped v1", "study": ["wrote a", "wrote b", "wrote c"], "rounds": 2}
    found = await events(flow, run)
    assert nodes(found) == ["plan", "study", "ok", "plan", "study", "ok", "ship", "later"]
    assert types(found, "runtime.workflow.") == ["runtime.workflow.started", "runtime.workflow.completed"]
    started = next(one["payload"] for one in found if one["type"] == "runtime.workflow.started")
    assert started == {"workflowId": "release", "adapter": "native"}


async def test_join_all_waits_for_both_branches(flow: Client) -> None:
    run = await start(flow, "diamond", "x")
    assert (run["status"], run["output"]) == ("completed", {"text": "bc"})


async def test_join_any_cancels_the_rest_and_closes_its_question(flow: Client) -> None:
    run = await start(flow, "first", "x")
    assert (run["status"], run["output"]) == ("completed", {"text": "done"})
    found = await events(flow, run)
    signals = [one["payload"]["event"] for one in found if one["type"] == "runtime.adapter.event"]
    assert {one["nodeId"] for one in signals if one["phase"] == "agent.node.cancelled"} == {"slow", "asked"}
    assert "runtime.interrupt.expired" in types(found, "runtime.interrupt.")


async def test_failed_step_is_retried_and_then_follows_its_failed_edge(flow: Client) -> None:
    run = await start(flow, "recovers", "r1")
    assert (run["status"], run["output"]) == ("completed", {"text": "TOOL_FAILED"})
    found = await events(flow, run)
    calls = [one["payload"]["callId"] for one in found if one["type"] == "runtime.tool.invoked"]
    assert calls[:3] == ["flaky.1.1", "flaky.1.2", "flaky.1.3"]
    assert nodes(found) == ["flaky", "helper"]


async def test_step_over_its_time_fails_with_its_own_code(flow: Client) -> None:
    run = await start(flow, "timed", "x")
    assert (run["status"], run["output"]) == ("completed", {"text": "NODE_TIMEOUT"})


async def test_question_in_a_subworkflow_is_answered_through_its_root(flow: Client) -> None:
    run = await start(flow, "outer", "tea")
    assert run["status"] == "waiting"
    await answered(flow, run, {"answers": {"what": "green"}})
    run = await reached(flow, run["id"])
    assert run["output"] == {"text": "green"}


async def test_denied_approval_without_a_router_stops_the_branch(flow: Client) -> None:
    run = await start(flow, "denied", "x")
    await answered(flow, run, {"decision": "deny", "reason": "no"})
    run = await reached(flow, run["id"])
    assert (run["status"], run["error"]["code"]) == ("failed", "APPROVAL_DENIED")
    found = await events(flow, run)
    assert types(found, "runtime.workflow.")[-1] == "runtime.workflow.aborted"
    assert not types(found, "runtime.tool.")


@pytest.mark.requirement("SH-7")
async def test_unknown_adapter_fails_its_runs_and_nothing_else(flow: Client) -> None:
    run = await start(flow, "unknown", "x")
    assert (run["status"], run["error"]["code"]) == ("failed", "ADAPTER_NOT_AVAILABLE")


@pytest.mark.parametrize(
    ("asked", "status", "code"),
    [
        ({"workflow": "nothing", "input": "x"}, 404, "WORKFLOW_NOT_FOUND"),
        ({"routeId": "nothing", "input": "x"}, 404, "ROUTE_NOT_FOUND"),
        ({"workflow": "checked", "input": {"lists": []}}, 400, "WORKFLOW_INPUT_INVALID"),
        ({"workflow": "checked", "agent": "writer", "input": "x"}, 400, "INVALID_REQUEST"),
        ({"workflow": "checked", "modelPlan": "main", "input": {"list": []}}, 400, "INVALID_REQUEST"),
    ],
)
async def test_submission_that_does_not_fit_is_refused(
    flow: Client, asked: dict[str, Any], status: int, code: str
) -> None:
    answer = await flow.post("/api/runs", json=asked)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


async def test_limits_of_a_workflow_end_its_run(flow: Client) -> None:
    run = await start(flow, "checked", {"list": ["a", "b", "c"]})
    assert (run["status"], run["error"]["code"]) == ("failed", "BUDGET_EXCEEDED")


async def test_hooks_decide_about_start_and_end_of_a_workflow(flow: Client) -> None:
    run = await start(flow, "checked", {"list": [], "forbidden": "start"})
    assert (run["status"], run["error"]["code"]) == ("failed", "WORKFLOW_DENIED")
    assert not types(await events(flow, run), "runtime.workflow.")
    run = await start(flow, "leaf", "x")
    assert run["status"] == "completed"

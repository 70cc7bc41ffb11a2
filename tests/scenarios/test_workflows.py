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


async def test_workflow_is_shown_planned_and_drawn_without_running(flow: Client) -> None:
    listed = (await flow.get("/api/workflows")).json()["items"]
    shown = {one["name"]: one for one in listed}
    assert (shown["release"]["nodes"], shown["release"]["available"], shown["unknown"]["available"]) == (5, True, False)
    graph = (await flow.get("/api/workflows/release/graph")).json()
    assert {"from": "ok", "to": "plan", "condition": "denied"} in graph["edges"]
    drawn = await flow.get("/api/workflows/release/graph", params={"format": "svg"})
    assert drawn.headers["content-type"].startswith("image/svg+xml") and "<svg" in drawn.text
    text = (await flow.get("/api/workflows/release/graph", params={"format": "mermaid"})).text
    assert text.startswith("flowchart TD") and '-->|"denied"|' in text
    plan = (await flow.post("/api/workflows/release/plan", json={"input": {"goal": "v9"}})).json()
    assert (plan["begins"], plan["asksPeople"], plan["unsafe"]) == (["plan"], ["ok"], ["ship"])
    assert plan["steps"][0]["given"] == {"input": "topics please for v9"}
    assert (await flow.get("/api/workflows/nothing")).json()["error"]["code"] == "WORKFLOW_NOT_FOUND"


async def test_graph_of_a_run_shows_the_state_of_each_step(flow: Client) -> None:
    run = await start(flow, "waits", "x")
    graph = (await flow.get(f"/api/runs/{run['id']}/graph")).json()
    assert {node["id"]: node["state"]["status"] for node in graph["nodes"]} == {
        "hold": "waiting",
        "ok": "waiting",
        "end": "pending",
    }
    await answered(flow, run, {"decision": "approve"})
    await reached(flow, run["id"])
    graph = (await flow.get(f"/api/runs/{run['id']}/graph")).json()
    states = {node["id"]: node["state"]["status"] for node in graph["nodes"]}
    assert (states, graph["order"]) == ({"hold": "cancelled", "ok": "completed", "end": "completed"}, ["ok.1", "end.1"])
    agent = (await flow.post("/api/runs", params={"wait": 20}, json={"agent": "writer", "input": "x"})).json()
    assert (await flow.get(f"/api/runs/{agent['id']}/graph")).json()["error"]["code"] == "RUN_HAS_NO_GRAPH"


@pytest.mark.requirement("SH-5")
async def test_graph_of_a_run_has_times_runs_visits_and_errors_of_its_steps(flow: Client) -> None:
    run = await start(flow, "outer", "tea")
    graph = (await flow.get(f"/api/runs/{run['id']}/graph")).json()
    inner, last = (node["state"] for node in graph["nodes"])
    # A step whose run waits for somebody waits as well.
    assert (inner["status"], inner["interruptId"], inner["visits"]) == ("waiting", run["waitingOn"][0], 1)
    assert (await flow.get(f"/api/runs/{inner['runs'][0]}")).json()["workflow"] == "asks"
    assert "endedAt" not in inner and last == {"status": "pending", "visits": 0}
    await answered(flow, run, {"answers": {"what": "green"}})
    await reached(flow, run["id"])
    graph = (await flow.get(f"/api/runs/{run['id']}/graph")).json()
    inner, last = (node["state"] for node in graph["nodes"])
    assert (inner["status"], last["status"], graph["status"]) == ("completed", "completed", "completed")
    assert inner["startedAt"] <= inner["endedAt"] <= last["endedAt"] and last["startedAt"] <= last["endedAt"]
    broken = await start(flow, "recovers", "graph of errors")
    graph = (await flow.get(f"/api/runs/{broken['id']}/graph")).json()
    states = {node["id"]: node["state"] for node in graph["nodes"]}
    assert (states["broken"]["status"], states["broken"]["error"]["code"]) == ("failed", "TOOL_FAILED")
    assert states["broken"]["startedAt"] <= states["broken"]["endedAt"]
    assert states["never"]["status"] == "pending"


async def test_timer_is_in_no_inbox_and_takes_no_answer(flow: Client) -> None:
    run = await start(flow, "alone", "x")
    timer = run["waitingOn"][0]
    open_ = (await flow.get("/api/interrupts", params={"status": "open", "threadId": run["threadId"]})).json()
    assert open_["items"] == []
    assert (await flow.get(f"/api/interrupts/{timer}")).json()["kind"] == "timer"
    answer = await flow.post(f"/api/interrupts/{timer}/answer", json={"decision": "approve"})
    assert answer.json()["error"]["code"] == "ANSWER_INVALID"
    await flow.post(f"/api/runs/{run['id']}/cancel")
    assert (await reached(flow, run["id"]))["status"] == "cancelled"


async def test_one_branch_goes_on_while_another_waits_for_a_person(flow: Client) -> None:
    run = await start(flow, "beside", "x")
    assert run["status"] == "waiting"
    assert nodes(await events(flow, run)) == ["quick", "after"]
    await answered(flow, run, {"decision": "approve"})
    run = await reached(flow, run["id"])
    assert (run["status"], run["output"]) == ("completed", {"text": "all"})


async def test_question_in_a_subworkflow_holds_up_no_other_branch(flow: Client) -> None:
    run = (await flow.post("/api/runs", json={"workflow": "beside-a-question", "input": "tea"})).json()
    found: list[str] = []
    while found != ["hold", "quick", "after"]:
        run = await reached(flow, run["id"], "waiting")
        found = nodes(await events(flow, run))
    await answered(flow, run, {"answers": {"what": "green"}})
    run = await reached(flow, run["id"])
    assert (run["status"], run["output"]) == ("completed", {"text": "green"})


async def test_subworkflows_of_a_list_ask_their_questions_at_once(flow: Client) -> None:
    run = await start(flow, "asks-about-each", {"of": ["tea", "milk"]})
    assert (run["status"], len(run["waitingOn"])) == ("waiting", 2)
    asked = {(await flow.get(f"/api/interrupts/{one}")).json()["title"]: one for one in run["waitingOn"]}
    for title, answer in (("What about tea?", "green"), ("What about milk?", "cold")):
        given = await flow.post(f"/api/interrupts/{asked[title]}/answer", json={"answers": {"what": answer}})
        assert given.status_code == 200
    run = await reached(flow, run["id"])
    assert run["output"] == {"answers": [{"answer": "green"}, {"answer": "cold"}]}


@pytest.mark.requirement("SH-6")
async def test_step_that_is_a_skill_runs_its_agent_with_the_text_of_the_skill(flow: Client) -> None:
    run = await start(flow, "polished", "silver")
    assert (run["status"], run["output"]) == ("completed", "polished polished silver")
    found = await events(flow, run)
    asked = [one["payload"] for one in found if one["type"] == "runtime.request.queued" and one["runId"] != run["id"]]
    assert [(one["agent"], one["skill"]) for one in asked] == [("polisher", "polish")] * 2
    assert nodes(found) == ["polish", "named"]


async def test_agents_of_a_workflow_recall_and_learn_as_agents_do(flow: Client) -> None:
    told = await start(flow, "keeps", {"of": ["My favourite colour is blue.", "Which colour do I like?"]})
    assert told["output"] == {"said": ["wrote My favourite colour is blue.", "It is blue."]}
    found = await events(flow, told)
    learned = [one["payload"] for one in found if one["type"] == "runtime.memory.candidate.submitted"]
    recalled = [one["payload"] for one in found if one["type"] == "runtime.memory.recall.completed"]
    assert [one["decision"]["outcome"] for one in learned] == ["accepted"]
    assert [one["recordIds"] for one in recalled] == [[], [learned[0]["record"]["id"]]]
    again = (
        await flow.post("/api/runs", params={"wait": 20}, json={"agent": "keeper", "input": "Which colour do I like?"})
    ).json()
    assert again["output"] == "It is blue."


@pytest.mark.parametrize(
    ("given", "steps"), [({"first": "a secret word", "second": "."}, 0), ({"first": "a secret", "second": "word"}, 1)]
)
async def test_guardrails_of_a_workflow_look_at_its_input_and_its_tool_calls(
    flow: Client, given: dict[str, str], steps: int
) -> None:
    run = await start(flow, "watched", given)
    assert run["status"] == "failed"
    found = await events(flow, run)
    assert not types(found, "runtime.tool.invoked")
    verdicts = [one["payload"]["stage"] for one in found if one["type"] == "runtime.guardrail.triggered"]
    assert verdicts == [["input", "toolArguments"][steps]]
    assert len(list(types(found, "runtime.workflow.started"))) == steps


async def test_gates_of_a_workflow_decide_about_its_result(flow: Client) -> None:
    assert (await start(flow, "gated", "short"))["output"] == {"text": "short"}
    run = await start(flow, "gated", "far too long")
    assert (run["status"], run["error"]["code"]) == ("failed", "GATE_NOT_PASSED")
    run = await start(flow, "gated-by-a-person", "far too long")
    assert run["status"] == "waiting"
    await answered(flow, run, {"decision": "approve"})
    run = await reached(flow, run["id"])
    assert (run["status"], run["output"]) == ("completed", {"text": "far too long"})


async def test_paused_workflow_begins_no_step_before_it_is_resumed(flow: Client) -> None:
    run = await start(flow, "steered", "x")
    asked = run["waitingOn"]
    paused = await flow.post(f"/api/runs/{run['id']}/commands", json={"command": "pause"})
    assert paused.status_code in (200, 202), paused.text
    await answered(flow, run, {"decision": "approve"})
    while run["waitingOn"] == asked:
        run = await reached(flow, run["id"], "waiting")
    assert (await flow.get(f"/api/interrupts/{run['waitingOn'][0]}")).json()["kind"] == "paused"
    assert nodes(await events(flow, run)) == ["ok"]
    resumed = await flow.post(f"/api/runs/{run['id']}/commands", json={"command": "resume"})
    assert resumed.status_code in (200, 202), resumed.text
    run = await reached(flow, run["id"])
    assert (run["status"], run["output"]) == ("completed", "wrote x")
    assert nodes(await events(flow, run)) == ["ok", "write"]


async def test_fork_in_the_middle_of_a_workflow_leaves_it_alone_and_runs_its_own(flow: Client) -> None:
    run = await start(flow, "steered", "x")
    fork = (await flow.post(f"/api/threads/{run['threadId']}/fork", json={})).json()
    assert fork["status"] == "idle"
    own = await start(flow, "steered", "y", threadId=fork["id"])
    await answered(flow, own, {"decision": "approve"})
    assert (await reached(flow, own["id"]))["output"] == "wrote y"
    assert (await flow.get(f"/api/runs/{run['id']}")).json()["status"] == "waiting"
    await answered(flow, run, {"decision": "approve"})
    assert (await reached(flow, run["id"]))["output"] == "wrote x"


async def test_openai_client_runs_a_workflow_as_a_model(flow: Client) -> None:
    body = {"model": "workflow:leaf", "messages": [{"role": "user", "content": "from a client"}]}
    answer = (await flow.post("/v1/chat/completions", json=body)).json()
    assert answer["choices"][0]["message"]["content"] == '{"text":"leaf from a client"}'
    assert answer["model"] == "workflow:leaf"
    streamed = (await flow.post("/v1/chat/completions", json=body | {"stream": True})).text
    assert streamed.count('"model":"workflow:leaf"') == streamed.count("chat.completion.chunk") > 0
    response = (await flow.post("/v1/responses", json={"model": "workflow:leaf", "input": "again"})).json()
    assert response["model"] == "workflow:leaf"
    names = [one["id"] for one in (await flow.get("/v1/models")).json()["data"]]
    assert "workflow:leaf" in names
    wrong = await flow.post("/v1/chat/completions", json=body | {"model": "workflow:nothing"})
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (404, "model_not_found")


async def test_what_is_said_to_a_workflow_reaches_its_next_agent(flow: Client) -> None:
    run = await start(flow, "steered", "x")
    command = {"command": "steer", "arguments": {"message": "in French"}}
    assert (await flow.post(f"/api/runs/{run['id']}/commands", json=command)).status_code in (200, 202)
    await answered(flow, run, {"decision": "approve"})
    run = await reached(flow, run["id"])
    assert run["output"] == "wrote x\n\nin French"


async def test_rerun_of_a_workflow_is_a_workflow(flow: Client) -> None:
    run = await start(flow, "diamond", "x")
    again = (await flow.post(f"/api/runs/{run['id']}/rerun", json={})).json()
    again = await reached(flow, again["id"])
    assert (again["workflow"], again["rerunOf"], again["output"]) == ("diamond", run["id"], run["output"])
    assert (await flow.get(f"/api/runs/{run['id']}/audit")).json()["complete"] is True


async def test_guardrail_of_a_workflow_looks_at_its_result(flow: Client) -> None:
    run = await start(flow, "guarded", "a secret word")
    assert (run["status"], run["error"]["code"]) == ("failed", "GUARDRAIL_DENIED")


async def test_list_longer_than_a_step_allows_fails_it_before_any_item_runs(flow: Client) -> None:
    run = await start(flow, "checked", {"list": ["x"] * 1001})
    assert (run["status"], run["error"]["code"]) == ("failed", "FOREACH_TOO_LARGE")
    assert not types(await events(flow, run), "runtime.tool.")


@pytest.mark.requirement("SH-5")
async def test_another_attempt_is_made_only_for_the_items_that_failed(flow: Client) -> None:
    run = await start(flow, "pays-each", {"of": ["a", "bad", "c", "d"]})
    assert run["output"] == [{"paid": item} for item in ("a", "bad", "c", "d")]
    begun = [one["payload"] for one in await events(flow, run) if one["type"] == "runtime.tool.invoked"]
    assert sorted(one["arguments"]["text"] for one in begun) == ["a", "bad", "bad", "c", "d"]


async def test_step_reads_all_of_a_large_output(flow: Client) -> None:
    run = await start(flow, "reads-much", {"kilobytes": 900})
    assert (run["status"], run["output"]) == ("completed", {"text": "the end"})


async def test_result_that_repeats_a_large_output_too_often_is_refused(flow: Client) -> None:
    run = await start(flow, "repeats", "x")
    assert (run["error"]["code"], "4194304 characters" in run["error"]["message"]) == ("WORKFLOW_RESULT_MISSING", True)


async def test_input_of_a_subworkflow_is_checked_as_that_of_a_client(flow: Client) -> None:
    run = await start(flow, "misfits", {"kilobytes": "many"})
    assert (run["status"], run["error"]["code"]) == ("failed", "WORKFLOW_INPUT_INVALID")


async def test_picture_that_is_sent_to_a_workflow_reaches_its_next_agent(flow: Client) -> None:
    run = await start(flow, "steered", "x")
    parts = [{"type": "text", "text": "like this"}, {"type": "image", "mime": "image/png", "data": "iVBORw0KGgo="}]
    command = {"command": "steer", "arguments": {"message": parts}}
    assert (await flow.post(f"/api/runs/{run['id']}/commands", json=command)).status_code in (200, 202)
    await answered(flow, run, {"decision": "approve"})
    await reached(flow, run["id"])
    asked = [one["payload"] for one in await events(flow, run) if one["type"] == "runtime.request.queued"][-1]
    assert [part["type"] for part in asked["input"]] == ["text", "text", "image"]

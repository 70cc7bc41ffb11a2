"""Cycles through HTTP, on both databases: the acceptance criteria of the workflow plane and its fail-closed cases."""

from typing import Any

import httpx2
import pytest

from app.core.schemas import SchemaRegistry
from tests.clients import reached

Client = httpx2.AsyncClient
SCHEMAS = SchemaRegistry()


async def start(client: Client, workflow: str | None, given: Any = "ideas", **more: Any) -> dict[str, Any]:
    """The run when it has ended, or waits."""
    asked = {"input": given, **({"workflow": workflow} if workflow else {}), **more}
    answer = await client.post("/api/runs", params={"wait": 30}, json=asked)
    assert answer.status_code in (200, 202), answer.text
    return dict(answer.json())


async def events(client: Client, run: dict[str, Any], prefix: str = "") -> list[dict[str, Any]]:
    page = (await client.get(f"/api/threads/{run['threadId']}/events", params={"limit": 1000})).json()
    return [one for one in page["items"] if one["type"].startswith(prefix)]


async def workflow_events(client: Client, run: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    found = await events(client, run, "runtime.workflow.")
    return [(one["type"].removeprefix("runtime.workflow."), one["payload"]) for one in found]


async def snapshot(client: Client, run: dict[str, Any]) -> dict[str, Any]:
    return dict((await client.get(f"/api/runs/{run['id']}/snapshot")).json()["workflow"])


async def assert_audited(client: Client, run: dict[str, Any]) -> None:
    audit = (await client.get(f"/api/runs/{run['id']}/audit")).json()
    assert audit["missing"] == [], audit["missing"]


def ended(run: dict[str, Any]) -> tuple[str, str | None]:
    return run["status"], (run["error"] or {}).get("code")


# -- the acceptance criteria of the workflow plane ------------------------------------------------------


@pytest.mark.requirement("OS-L8", "OS-M", "OS-L7")
async def test_the_example_cycle_reviews_reworks_and_is_done(cycle: Client) -> None:
    run = await start(cycle, "brainstorm", "A name for the release")
    assert ended(run) == ("completed", None)
    output = run["output"]
    assert (output["verdict"], output["generations"]) == ("done", 2)
    assert output["visited"] == ["explore", "review", "explore", "review"]
    assert SCHEMAS.validate("review_aggregate_v1", output["review_aggregate"]) == []
    told = await workflow_events(cycle, run)
    assert (told[0][0], told[-1][0]) == ("started", "completed")
    started, completed = told[0][1], told[-1][1]
    assert (started["cycleId"], started["phaseId"], started["mode"]) == ("brainstorm", "explore", "headless")
    assert (completed["cycleId"], completed["verdict"]) == ("brainstorm", "done")
    moves = [(p["fromPhase"], p["toPhase"]) for name, p in told if name == "phase_advanced"]
    assert moves == [("explore", "review"), ("review", "explore"), ("explore", "review")]
    await assert_audited(cycle, run)


@pytest.mark.requirement("OS-M")
async def test_reviewers_who_disagree_about_one_fingerprint_get_the_conservative_choice(cycle: Client) -> None:
    run = await start(cycle, "brainstorm", "A name for the release")
    steps = [one["payload"] for one in await events(cycle, run, "runtime.step.completed")]
    first = next(one["result"]["output"]["reviewAggregate"] for one in steps if one["key"] == "review.1")
    (merged,) = first["findings"]
    assert (merged["severity"], merged["autofix_class"], merged["confidence"]) == ("P0", "manual", 100)
    assert merged["reviewers"] == ["feasibility", "risks"]
    assert [one["title"] for one in first["suppressed"]] == ["Hard to say"]
    assert (first["p0_unresolved"], first["verdict"]) == (1, "deny")


@pytest.mark.requirement("OS-L8", "OS-I1")
async def test_replay_restores_cycle_phase_verdict_and_visited_phases(cycle: Client) -> None:
    run = await start(cycle, "brainstorm", "A name for the release")
    stands = await snapshot(cycle, run)
    assert (stands["cycleId"], stands["phase"], stands["verdict"]) == ("brainstorm", "review", "done")
    assert stands["visitedPhases"] == ["explore", "review", "explore", "review"]
    assert {gate["policyId"] for gate in stands["gates"]} >= {"team", "confidence-gate", "severity-route", "by-mode"}


@pytest.mark.requirement("OS-L8")
async def test_a_policy_decision_is_one_event_with_its_reason(cycle: Client) -> None:
    run = await start(cycle, "brainstorm", "A name for the release")
    told = [payload for name, payload in await workflow_events(cycle, run) if name == "policy_gated"]
    first = [(p["policyId"], p["decision"]) for p in told if (p["phaseId"], p["visit"]) == ("review", 1)]
    assert first == [
        ("team", "allow"),
        ("confidence-gate", "allow"),
        ("severity-route", "allow"),
        ("by-mode", "allow"),
        ("no-spinning", "allow"),
    ]
    assert all(payload["reason"] for payload in told)


@pytest.mark.requirement("OS-L8")
async def test_artifacts_are_named_by_their_template_and_versioned(cycle: Client) -> None:
    run = await start(cycle, "brainstorm", "A name for the release")
    made = (await cycle.get(f"/api/runs/{run['id']}/artifacts")).json()["items"]
    date = run["createdAt"][:10]
    assert [(one["name"], one["version"]) for one in made] == [
        (f"brainstorms/{date}-a-name-for-the-release.md", 1),
        (f"brainstorms/{date}-a-name-for-the-release.md", 2),
    ]
    text = (await cycle.get(f"/api/artifacts/{made[1]['id']}/content")).text
    assert text.startswith("---\ncycle: brainstorm\nround: '2'\nrecommended: i3\n---\n\n# A name for the release")


@pytest.mark.requirement("OS-L8", "OS-I4")
async def test_personas_run_as_agents_in_parallel_and_models_are_theirs_alone(cycle: Client) -> None:
    run = await start(cycle, "brainstorm", "A name for the release")
    found = await events(cycle, run)
    asked = [one for one in found if one["type"] == "runtime.request.queued" and one["payload"].get("parentRunId")]
    assert {one["payload"]["metadata"]["persona"] for one in asked} == {"ideator", "risks", "feasibility"}
    assert all(one["payload"]["parentRunId"] == run["id"] for one in asked)
    calls = [one for one in found if one["type"] in ("runtime.model.requested", "runtime.tool.invoked")]
    assert calls and all(one["runId"] != run["id"] for one in calls)
    reviews = [one["seq"] for one in asked if one["payload"]["metadata"]["phase"] == "review"][:2]
    first_answer = min(
        one["seq"] for one in found if one["type"] == "runtime.model.completed" and one["seq"] > reviews[0]
    )
    assert max(reviews) < first_answer


async def test_an_agent_that_was_asked_as_a_persona_keeps_its_subagents(cycle: Client) -> None:
    await start(cycle, "plain")
    run = await start(cycle, None, "hello", agent="thinker")
    signals = [one["payload"]["event"] for one in await events(cycle, run, "runtime.adapter.event")]
    assert [one["subagents"] for one in signals if one["phase"] == "agent.handoff"] == [["team"]]


@pytest.mark.requirement("OS-L8", "SH-5")
async def test_a_cycle_is_shown_as_a_graph_with_the_state_of_its_phases(cycle: Client) -> None:
    shown = (await cycle.get("/api/workflows/brainstorm/graph")).json()
    assert [(node["id"], node["kind"], node["asks"]) for node in shown["nodes"]] == [
        ("explore", "phase", "ideator"),
        ("review", "phase", "risks, feasibility"),
    ]
    drawn = await cycle.get("/api/workflows/brainstorm/graph", params={"format": "mermaid"})
    assert drawn.status_code == 200 and "review<br/>risks, feasibility" in drawn.text
    run = await start(cycle, "brainstorm", "A name for the release")
    graph = (await cycle.get(f"/api/runs/{run['id']}/graph")).json()
    states = {node["id"]: node["state"] for node in graph["nodes"]}
    assert [(one["status"], one["visits"]) for one in states.values()] == [("completed", 2)] * 2
    assert len(states["review"]["runs"]) == 2 and graph["order"] == ["explore.1", "review.1", "explore.2", "review.2"]
    run = await start(cycle, "brainstorm", "A name for the release", mode="interactive")
    graph = (await cycle.get(f"/api/runs/{run['id']}/graph")).json()
    assert {node["id"]: node["state"]["status"] for node in graph["nodes"]}["review"] == "waiting"


@pytest.mark.requirement("OS-L8")
async def test_a_skill_starts_its_cycle(cycle: Client) -> None:
    run = await start(cycle, None, "Please brainstorm a name for the release", agent="thinker")
    assert ended(run) == ("completed", None) and run["output"]["verdict"] == "done"
    stands = await snapshot(cycle, run)
    assert (stands["cycleId"], stands["verdict"]) == ("brainstorm", "done")


async def test_a_cycle_that_a_skill_started_waits_for_a_person(cycle: Client) -> None:
    run = await start(cycle, None, "Please brainstorm a name", mode="interactive")
    while run["status"] == "waiting":
        asked = run["waitingOn"]
        given = await cycle.post(f"/api/interrupts/{asked[0]}/answer", json={"decision": "approve"})
        assert given.status_code == 200, given.text
        while run["waitingOn"] == asked:
            run = await reached(cycle, run["id"], "waiting", "completed", "failed")
    assert ended(run) == ("completed", None) and run["output"]["verdict"] == "done"


@pytest.mark.requirement("OS-L8", "OS-L3")
async def test_a_lead_directive_starts_its_cycle(cycle: Client) -> None:
    run = await start(cycle, None, "please plan something", agent="team")
    assert ended(run) == ("completed", None) and run["output"]["cycle"] == "plain"
    await assert_audited(cycle, run)


@pytest.mark.requirement("OS-L8")
async def test_a_role_may_be_asked_in_a_phase(cycle: Client) -> None:
    run = await start(cycle, "planned")
    assert ended(run) == ("completed", None) and run["output"]["output"]["steps"][0]["id"] == "s1"


@pytest.mark.requirement("OS-L8")
async def test_a_cycle_begins_with_its_entry_phase(cycle: Client) -> None:
    run = await start(cycle, "later")
    assert run["output"]["visited"] == ["make"] and run["output"]["verdict"] == "done"


@pytest.mark.requirement("OS-L8")
async def test_an_exit_condition_ends_a_cycle_before_its_last_phase(cycle: Client) -> None:
    run = await start(cycle, "ends")
    assert (run["output"]["verdict"], run["output"]["visited"]) == ("done", ["make"])


# -- modes -------------------------------------------------------------------------------------------------


@pytest.mark.requirement("OS-L8")
@pytest.mark.parametrize(("mode", "route"), [("headless", "apply"), ("autofix", "apply"), ("report-only", "manual")])
async def test_a_mode_decides_what_is_applied(cycle: Client, mode: str, route: str) -> None:
    run = await start(cycle, "brainstorm", "A name for the release", mode=mode)
    assert [one["route"] for one in run["output"]["review_aggregate"]["findings"]] == [route]
    assert (run["mode"], (await snapshot(cycle, run))["mode"]) == (mode, mode)


@pytest.mark.requirement("OS-L8")
@pytest.mark.parametrize(("decision", "route"), [("approve", "apply"), ("deny", "manual")])
async def test_in_interactive_mode_a_person_opens_the_gate(cycle: Client, decision: str, route: str) -> None:
    run = await start(cycle, "gated", mode="interactive")
    assert run["status"] == "waiting"
    asked = (await cycle.get(f"/api/interrupts/{run['waitingOn'][0]}")).json()
    assert asked["kind"] == "approval" and "gated findings" in asked["title"]
    given = await cycle.post(f"/api/interrupts/{run['waitingOn'][0]}/answer", json={"decision": decision})
    assert given.status_code == 200
    run = await reached(cycle, run["id"])
    routes = {one["title"]: one["route"] for one in run["output"]["review_aggregate"]["findings"]}
    assert routes == {"Old": "advisory", "Gap": route}


async def test_a_mode_that_does_not_exist_is_refused(cycle: Client) -> None:
    answer = await cycle.post("/api/runs", json={"workflow": "plain", "input": "x", "mode": "wild"})
    assert answer.status_code == 400 and "mode" in answer.text


# -- verdicts ------------------------------------------------------------------------------------------------


@pytest.mark.requirement("OS-M", "OS-L8")
@pytest.mark.parametrize(
    ("name", "reason", "generations"),
    [
        ("rework", "max_generations", 2),
        ("oscillates", "oscillation", 2),
        ("regresses", "grade regression", 2),
        ("spins", "max_generations", 3),
        ("stopped", "no-loops", 1),
        ("undecided", "undecided", 2),
    ],
)
async def test_a_loop_that_must_end_is_halted(cycle: Client, name: str, reason: str, generations: int) -> None:
    run = await start(cycle, name)
    assert ended(run) == ("completed", None)
    output = run["output"]
    assert (output["verdict"], output["generations"]) == ("halted", generations) and reason in output["reason"]
    told = await workflow_events(cycle, run)
    assert told[-1][0] == "completed" and told[-1][1]["verdict"] == "halted"
    await assert_audited(cycle, run)


@pytest.mark.requirement("OS-L8", "OS-F")
@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("halts", "CYCLE_ABORTED"),
        ("aborts", "CYCLE_ABORTED"),
        ("unreadable", "SIGNAL_FAILED"),
        ("unfed", "SCHEMA_VIOLATION"),
        ("denied", "POLICY_DENIED"),
        ("unreadable-rule", "POLICY_FAILED"),
        ("closed", "POLICY_DENIED"),
        ("prose", "MALFORMED_AGENT_MESSAGE"),
        ("forge", "MALFORMED_AGENT_MESSAGE"),
        ("down", "PROVIDER_ERROR"),
        ("deny-phaseadvance", "GATE_DENIED"),
        ("throw-phaseadvance", "GATE_DENIED"),
        ("odd-phaseadvance", "GATE_DENIED"),
        ("deny-workflowcomplete", "GATE_DENIED"),
        ("throw-workflowcomplete", "GATE_DENIED"),
    ],
)
async def test_whatever_cannot_be_allowed_aborts_the_cycle(cycle: Client, name: str, code: str) -> None:
    run = await start(cycle, name)
    assert ended(run) == ("failed", code)
    told = await workflow_events(cycle, run)
    assert told[-1][0] == "aborted" and told[-1][1]["code"] == code and told[-1][1]["reason"]
    assert (await snapshot(cycle, run))["verdict"] == "abort"
    await assert_audited(cycle, run)


@pytest.mark.requirement("OS-L6", "OS-L8")
@pytest.mark.parametrize("action", ["deny", "throw", "late"])
async def test_a_cycle_that_a_hook_does_not_let_start_does_nothing(cycle: Client, action: str) -> None:
    run = await start(cycle, f"{action}-workflowstart")
    assert ended(run) == ("failed", "GATE_DENIED")
    found = await events(cycle, run)
    assert not [one for one in found if one["type"].startswith(("runtime.workflow.", "runtime.model."))]


@pytest.mark.requirement("OS-L6")
async def test_a_hook_changes_the_input_of_a_cycle(cycle: Client) -> None:
    run = await start(cycle, "change-workflowstart")
    asked = [one["payload"] for one in await events(cycle, run, "runtime.request.queued")]
    assert asked[1]["input"]["input"] == "changed"


@pytest.mark.requirement("OS-L6")
async def test_a_hook_sends_a_cycle_to_another_of_its_phases(cycle: Client) -> None:
    run = await start(cycle, "move-phaseadvance")
    assert (run["output"]["verdict"], run["output"]["visited"]) == ("done", ["make", "close"])


# -- the rest of the fail-closed cases ------------------------------------------------------------------


@pytest.mark.requirement("OS-L8", "OS-F")
async def test_an_unknown_cycle_is_denied(cycle: Client) -> None:
    answer = await cycle.post("/api/runs", json={"workflow": "no-such-cycle", "input": "x"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "WORKFLOW_NOT_FOUND")
    run = await start(cycle, None, "please vanish", agent="team")
    assert ended(run) == ("failed", "WORKFLOW_NOT_FOUND")


@pytest.mark.requirement("OS-F")
async def test_an_answer_that_breaks_its_schema_is_sent_back_once(cycle: Client) -> None:
    run = await start(cycle, "mended")
    assert ended(run) == ("completed", None) and run["output"]["output"]["topic"] == "Mended"
    (violated,) = await events(cycle, run, "runtime.schema.violated")
    assert violated["payload"]["code"] == "MALFORMED_AGENT_MESSAGE"


@pytest.mark.requirement("OS-F", "OS-L8")
async def test_personas_use_no_tool_beyond_their_own_and_no_unknown_one(cycle: Client) -> None:
    run = await start(cycle, "tools")
    assert ended(run) == ("completed", None)
    results = [one["payload"] for one in await events(cycle, run, "runtime.tool.resulted")]
    assert [one["error"]["code"] for one in results] == ["TOOL_NOT_FOUND", "TOOL_NOT_ALLOWED"]
    assert not await events(cycle, run, "runtime.tool.invoked")


@pytest.mark.requirement("OS-F", "OS-L8", "OS-W")
async def test_a_persona_writes_where_its_policy_lets_it_and_never_over_a_stale_hash(cycle: Client) -> None:
    run = await start(cycle, "writes")
    assert ended(run) == ("completed", None)
    results = [one["payload"] for one in await events(cycle, run, "runtime.tool.resulted")]
    codes = [(one.get("error") or {}).get("code") for one in results]
    assert codes[1:] == ["POLICY_DENIED", "WRITE_CONFLICT"] and codes[0] in (None, "WRITE_CONFLICT")


@pytest.mark.requirement("OS-L8")
async def test_a_persona_that_a_policy_skips_is_not_asked(cycle: Client) -> None:
    run = await start(cycle, "skips")
    assert (run["output"]["verdict"], run["output"]["generations"]) == ("done", 1)
    assert run["output"]["review_aggregate"]["coverage"]["expected"] == ["praiser"]

"""Spec-driven work through HTTP, on both databases: blocked, delivered, completed, verified."""

from typing import Any

import httpx2
import pytest

from tests.clients import reached
from tests.scenarios.test_cycles import assert_audited, ended, events, start

Client = httpx2.AsyncClient


async def blocked(client: Client, goal: str) -> dict[str, Any]:
    answer = await client.post("/api/runs", params={"wait": 30}, json={"workflow": "feature", "input": goal})
    run: dict[str, Any] = answer.json()
    assert run["status"] == "waiting", run
    return run


async def deliver(client: Client, run: dict[str, Any], answers: dict[str, Any]) -> None:
    given = await client.post(f"/api/interrupts/{run['waitingOn'][0]}/answer", json={"answers": answers})
    assert given.status_code == 200, given.text


async def phases(client: Client, run: dict[str, Any]) -> list[tuple[str, str]]:
    found = await events(client, run, "runtime.specDriven.phase.")
    return [(one["payload"]["phaseId"], one["type"].rpartition(".")[2]) for one in found]


@pytest.mark.requirement("SH-18")
async def test_a_phase_says_what_is_missing_and_goes_on_when_it_is_delivered(cycle: Client) -> None:
    run = await blocked(cycle, "a counter")
    (told,) = await events(cycle, run, "runtime.specDriven.phase.blocked")
    assert told["payload"] == {"phaseId": "design", "workflowId": "feature", "reason": "missing: requirements.md"}
    asked = (await cycle.get(f"/api/interrupts/{run['waitingOn'][0]}")).json()
    assert (asked["kind"], asked["title"]) == ("question", "The phase design needs requirements.md.")
    await deliver(cycle, run, {"requirements.md": "Count things."})
    run = await reached(cycle, run["id"])
    assert ended(run) == ("completed", None)
    assert await phases(cycle, run) == [
        ("design", "started"),
        ("design", "blocked"),
        ("design", "completed"),
        ("design", "verified"),
        ("tests", "started"),
        ("tests", "completed"),
        ("tests", "verified"),
    ]
    made = (await cycle.get(f"/api/runs/{run['id']}/artifacts")).json()["items"]
    assert [one["name"] for one in made] == ["requirements.md", "design.json", "tests.md"]
    await assert_audited(cycle, run)


@pytest.mark.requirement("SH-18")
async def test_an_artifact_that_the_thread_has_is_not_asked_for_again(cycle: Client) -> None:
    run = await blocked(cycle, "a counter")
    await deliver(cycle, run, {"requirements.md": "Count things."})
    run = await reached(cycle, run["id"])
    asked = {"workflow": "feature", "input": "again", "threadId": run["threadId"]}
    again = (await cycle.post("/api/runs", params={"wait": 30}, json=asked)).json()
    assert ended(again) == ("completed", None)


@pytest.mark.requirement("SH-18")
async def test_an_answer_that_delivers_nothing_leaves_the_phase_blocked(cycle: Client) -> None:
    run = await blocked(cycle, "a counter")
    first = run["waitingOn"]
    wrong = {"answers": {"something-else.md": "x"}}
    refused = await cycle.post(f"/api/interrupts/{first[0]}/answer", json=wrong)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "ANSWER_INVALID"), refused.text
    await deliver(cycle, run, {})
    run = await reached(cycle, run["id"], "waiting")
    while run["waitingOn"] == first:
        run = await reached(cycle, run["id"], "waiting")
    await deliver(cycle, run, {"requirements.md": "Count things."})
    assert ended(await reached(cycle, run["id"])) == ("completed", None)


@pytest.mark.requirement("SH-18")
@pytest.mark.parametrize(
    ("goal", "phase", "why"), [("vague", "design", "rule"), ("sloppy", "tests", "no part is tested")]
)
async def test_what_is_not_verified_ends_the_work(cycle: Client, goal: str, phase: str, why: str) -> None:
    run = await blocked(cycle, goal)
    await deliver(cycle, run, {"requirements.md": "Count things."})
    run = await reached(cycle, run["id"])
    assert ended(run) == ("failed", "VERIFICATION_FAILED") and why in run["error"]["message"]
    assert (phase, "verified") not in await phases(cycle, run)
    await assert_audited(cycle, run)


# -- what verifies ---------------------------------------------------------------------------------------


async def verdicts(client: Client, run: dict[str, Any]) -> list[tuple[str, str, Any, bool]]:
    found = [one["payload"] for one in await events(client, run, "runtime.gate.evaluated")]
    return [(one["node"], one["gate"], one.get("score"), one["passed"]) for one in found]


@pytest.mark.requirement("SH-18")
@pytest.mark.parametrize(
    ("workflow", "goal", "score"),
    [("scored", "a counter", 1.0), ("scored", "vague", 0.0), ("half-scored", "x", 0.5), ("not-half-scored", "x", 0.5)],
)
async def test_an_evaluator_judges_an_artifact_once(cycle: Client, workflow: str, goal: str, score: float) -> None:
    run = await start(cycle, workflow, goal)
    passed = score == 1.0 or workflow == "half-scored"
    assert ended(run) == (("completed", None) if passed else ("failed", "VERIFICATION_FAILED"))
    evaluator = "has-parts" if workflow == "scored" else "half"
    assert await verdicts(cycle, run) == [("design", evaluator, score, passed)]
    assert (("design", "verified") in await phases(cycle, run)) is passed
    if not passed:
        assert f"{evaluator} gave a score of {score:g}" in run["error"]["message"]
    await assert_audited(cycle, run)


@pytest.mark.requirement("SH-18", "OS-I3")
@pytest.mark.parametrize("workflow", ["broken-evaluator", "unreadable-evaluator", "speechless-evaluator"])
async def test_an_artifact_that_cannot_be_judged_is_not_verified(cycle: Client, workflow: str) -> None:
    run = await start(cycle, workflow, "a counter")
    assert ended(run) == ("failed", "VERIFICATION_FAILED") and "gave no score" in run["error"]["message"]
    assert [one[2:] for one in await verdicts(cycle, run)] == [(None, False)]
    assert ("design", "verified") not in await phases(cycle, run)


@pytest.mark.requirement("SH-18")
@pytest.mark.parametrize(
    ("workflow", "code", "why"),
    [("published", "SCHEMA_VIOLATION", "steps"), ("checked-by-file", "VERIFICATION_FAILED", "/parts")],
)
async def test_a_named_schema_decides_about_an_artifact(cycle: Client, workflow: str, code: str, why: str) -> None:
    run = await start(cycle, workflow, "a counter")
    assert ended(run) == ("failed", code) and why in run["error"]["message"]


# -- who delivers ----------------------------------------------------------------------------------------


@pytest.mark.requirement("SH-18")
@pytest.mark.parametrize("how", ["agent", "tool"])
async def test_an_artifact_of_another_run_on_the_thread_unblocks_a_phase(cycle: Client, how: str) -> None:
    run = await blocked(cycle, "a counter")
    given: dict[str, Any] = {"agent": "messenger", "input": "please"}
    if how == "tool":
        given = {"tool": "deliver", "input": {"name": "requirements.md", "text": "Count things."}}
    # It does not wait behind the run that waits for what it delivers.
    other = (await cycle.post("/api/runs", params={"wait": 30}, json={**given, "threadId": run["threadId"]})).json()
    assert ended(other) == ("completed", None)
    run = await reached(cycle, run["id"])
    assert ended(run) == ("completed", None)
    asked = (await cycle.get(f"/api/interrupts/{run_question(await events(cycle, run))}")).json()
    assert (asked["status"], asked["answeredBy"]) == ("resolved", "artifact:requirements.md")
    assert [found for found in await phases(cycle, run) if found[1] == "blocked"] == [("design", "blocked")]
    made = (await cycle.get(f"/api/threads/{run['threadId']}/artifacts")).json()["items"]
    assert [(one["name"], one["version"]) for one in made] == [
        ("requirements.md", 1),
        ("design.json", 1),
        ("tests.md", 1),
    ]
    await assert_audited(cycle, run)


def run_question(found: list[dict[str, Any]]) -> str:
    (asked,) = [one["payload"] for one in found if one["type"] == "runtime.interrupt.raised"]
    return str(asked["interruptId"])


@pytest.mark.requirement("SH-18")
async def test_an_artifact_that_is_not_the_missing_one_unblocks_nothing(cycle: Client) -> None:
    run = await blocked(cycle, "a counter")
    given = {"tool": "deliver", "input": {"name": "other.md", "text": "x"}, "threadId": run["threadId"]}
    other = (await cycle.post("/api/runs", params={"wait": 30}, json=given)).json()
    assert other["status"] == "completed"
    again = (await cycle.get(f"/api/runs/{run['id']}")).json()
    assert (again["status"], again["waitingOn"]) == ("waiting", run["waitingOn"])
    await cycle.post(f"/api/runs/{run['id']}/cancel")
    assert (await reached(cycle, run["id"]))["status"] == "cancelled"


@pytest.mark.requirement("SH-18")
async def test_an_artifact_of_another_branch_unblocks_a_phase_of_a_subworkflow(cycle: Client) -> None:
    run = (await cycle.post("/api/runs", json={"workflow": "together", "input": "a counter"})).json()
    run = await reached(cycle, run["id"])
    assert ended(run) == ("completed", None) and run["output"].startswith("# Tests")
    found = await phases(cycle, run)
    assert found[:3] == [("design", "started"), ("design", "blocked"), ("design", "completed")]


@pytest.mark.requirement("SH-18")
async def test_a_run_that_waits_for_a_person_gives_way_to_nobody(cycle: Client) -> None:
    """Only what waits for an artifact does: the runs of a thread take turns."""
    run = await start(cycle, "closed", mode="interactive")
    assert run["status"] == "waiting"
    given = {"tool": "deliver", "input": {"name": "x.md", "text": "x"}, "threadId": run["threadId"]}
    other = (await cycle.post("/api/runs", params={"wait": 1}, json=given)).json()
    assert other["status"] == "queued"
    await cycle.post(f"/api/runs/{run['id']}/cancel")
    assert (await reached(cycle, other["id"]))["status"] == "completed"

"""Spec-driven work through HTTP, on both databases: blocked, delivered, completed, verified."""

from typing import Any

import httpx2
import pytest

from tests.clients import reached
from tests.scenarios.test_cycles import assert_audited, ended, events

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
    await deliver(cycle, run, {"something-else.md": "x"})
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

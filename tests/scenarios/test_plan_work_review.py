"""The team on the runtime: who joins when asked for, what people say on the way, and what a crash leaves unharmed."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import connect

from app.core import json
from app.core.principal import LOCAL
from app.core.settings import Settings
from app.events.follow import follow
from app.runtime.intake.rejection import Rejected
from app.runtime.intake.submission import Submission
from app.views.run import Run
from app.wiring.runtime import Holdfast, open_holdfast
from tests.clients import reached, submit
from tests.scenarios.team import Played, make_workspace, play, read
from tests.server import ServerProcess


@pytest.mark.requirement("OS-L3")
async def test_the_advisor_is_asked_when_the_lead_wants_advice(team: httpx2.AsyncClient) -> None:
    played = await play(team, "hello, it is ambiguous")
    roles = [payload["role"] for payload in played.payloads("runtime.role.reported")]
    assert roles == ["lead", "advisor", "planner", "worker", "reviewer"]
    assert "Greet them by name" in str(played.payloads("runtime.model.requested")[2]["messages"])
    assert played.audit.complete


@pytest.mark.requirement("OS-L3")
async def test_the_scaffolder_goes_before_the_worker_when_the_plan_wants_it(team: httpx2.AsyncClient) -> None:
    played = await play(team, "hello, prepare the ground")
    roles = [payload["role"] for payload in played.payloads("runtime.role.reported")]
    assert roles == ["lead", "planner", "scaffolder", "worker", "reviewer"]
    assert played.path == ["LEAD", "PLAN", "WORK", "REVIEW", "DONE"] and played.audit.complete


@pytest.mark.requirement("OS-L3")
async def test_the_reviewer_hears_nothing_of_the_worker_but_its_report(team: httpx2.AsyncClient) -> None:
    played = await play(team, "hello there")
    (asked,) = [payload for payload in played.payloads("runtime.model.requested") if payload["role"] == "reviewer"]
    assert [message["role"] for message in asked["messages"]] == ["system", "user"]
    assert "tools" not in asked


@pytest.mark.requirement("SH-16")
async def test_the_run_is_narrated_along_with_its_events_and_not_after_its_end(team: httpx2.AsyncClient) -> None:
    played = await play(team, "hello there")
    assert [payload["message"] for payload in played.payloads("runtime.progress.narration")] == [
        "Using the skill greet.", "Reading the request.", "The goal: greet the user", "Making a plan.",
        "The plan has 1 step.", "Working on it.", "Using echo.", "Reviewing the work.",
        "The work has passed its review.",
    ]  # fmt: skip
    assert played.events[-1].type == "runtime.request.completed"
    by_id = {event.id: event for event in played.events}
    for event in played.events:
        if event.type == "runtime.progress.narration":
            (source,) = event.payload["sourceEventIds"]
            assert by_id[source].seq == event.seq - 1


@pytest.mark.requirement("CM-5", "OS-L3")
async def test_what_the_roles_say_to_each_other_is_no_message_of_the_session(
    team: httpx2.AsyncClient, team_server: ServerProcess
) -> None:
    played = await play(team, "hello there")
    thread_id, run_id = played.run["threadId"], played.run["id"]
    assert {payload["role"] for payload in played.payloads("runtime.model.completed")} >= {"lead", "worker", "reviewer"}
    raw: list[dict[str, Any]] = []
    async with connect(f"{team_server.stream_url}?threadId={thread_id}&afterSeq=0&types=notification") as socket:
        while not raw or raw[-1]["method"] != "turn/completed":
            frame = json.loads(await asyncio.wait_for(socket.recv(), 30))
            raw += [frame["payload"]] if frame["type"] == "notification" else []
    assert not [payload for payload in raw if payload["method"].endswith("elta")]
    said = [payload["params"]["item"] for payload in raw if "agentMessage" in str(payload)]
    answer = {"type": "agentMessage", "id": f"{run_id}:output"}
    assert said == [answer | {"text": ""}, answer | {"text": played.run["output"]}]
    shown = (await team.get(f"/api/sessions/{thread_id}")).json()["thread"]["turns"][0]["items"]
    assert [item for item in shown if item["type"] == "agentMessage"] == said[1:]


def assert_recorded_once(played: Played) -> None:
    """Nothing that was recorded before a crash was recorded again."""
    assert played.path == ["LEAD", "PLAN", "WORK", "REVIEW", "DONE"]
    reported = [payload["role"] for payload in played.payloads("runtime.role.reported")]
    assert reported == ["lead", "planner", "worker", "reviewer"]
    assert len(played.payloads("runtime.tool.invoked")) == len(played.payloads("runtime.tool.resulted")) == 1
    assert played.audit.complete, played.audit.missing


@pytest.mark.requirement("OS-L3", "G4", "G5")
async def test_a_team_killed_in_the_middle_of_its_work_goes_on_where_it_was(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path / "workspace")
    before = await asyncio.to_thread(ServerProcess.start, tmp_path / "data", None, workspace)
    async with httpx2.AsyncClient(base_url=before.url, verify=False) as client:
        run = await submit(client, "team-slow", "hello there")
        async with asyncio.timeout(30):
            while not (await read(client, run)).payloads("runtime.tool.resulted"):  # noqa: ASYNC110  # as a client polls
                await asyncio.sleep(0.02)
    await asyncio.to_thread(before.kill)
    after = await asyncio.to_thread(ServerProcess.start, tmp_path / "data", None, workspace)
    try:
        async with httpx2.AsyncClient(base_url=after.url, verify=False) as client:
            played = await read(client, await reached(client, run["id"]))
    finally:
        await asyncio.to_thread(after.stop)
    assert played.run["output"] == "Hello at last"
    assert len(played.payloads("runtime.request.resumed")) == 1
    assert_recorded_once(played)


@pytest.mark.requirement("OS-L3", "G5", "HK-25")
async def test_an_escalation_outlives_a_restart(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data", workspace=make_workspace(tmp_path / "workspace"))
    async with open_holdfast(settings) as holdfast:
        run = await started(holdfast, "careful-team", "hello, never good enough")
        await until(holdfast, run, "runtime.interrupt.raised")
    async with open_holdfast(settings) as holdfast:
        found = await holdfast.store.reader.run("default", run.id)
        assert found is not None
        (interrupt,) = found.waiting_on
        await holdfast.interrupts.answer(LOCAL, interrupt, {"answers": {"decision": "accept"}})
        played = await until(holdfast, run, "runtime.request.completed")
    assert played.path == ["LEAD", "PLAN", "WORK", "REVIEW", "FAIL", "DONE"]
    assert played.audit.complete, played.audit.missing


@pytest.mark.requirement("HK-26", "OS-L3")
async def test_what_a_person_says_on_the_way_reaches_every_role_that_follows(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data", workspace=make_workspace(tmp_path / "workspace"))
    async with open_holdfast(settings) as holdfast:
        run = await started(holdfast, "team-slow", "hello there")
        await until(holdfast, run, "runtime.model.requested")
        given = await holdfast.commands.inject(LOCAL, run.id, "steer", {"message": "in French, please"})
        assert not isinstance(given, Rejected), given
        played = await until(holdfast, run, "runtime.request.completed")
    heard = {
        payload["role"]: "in French" in str(payload["messages"])
        for payload in played.payloads("runtime.model.requested")
    }
    assert heard == {"lead": False, "planner": True, "worker": True, "reviewer": True}
    assert_recorded_once(played)


async def started(holdfast: Holdfast, agent: str, text: str) -> Run:
    run = await holdfast.service.submit(LOCAL, Submission(agent, text))
    assert isinstance(run, Run), run
    return run


async def until(holdfast: Holdfast, run: Run, event_type: str) -> Played:
    """What was recorded of the run up to the first event of that type."""
    played = Played({"id": run.id, "threadId": run.thread_id}, [])
    async with asyncio.timeout(30):
        store = holdfast.store
        async for batch in follow(store.hub, store.reader.events, "default", run.thread_id, 0):
            played.events.extend(event for event in batch if event.run_id == run.id)
            if played.payloads(event_type):
                return played
    raise AssertionError("the stream ended")

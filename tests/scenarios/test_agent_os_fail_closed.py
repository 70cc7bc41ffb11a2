"""Every fail-closed case of the fifth source, by its answer, on the server as its users run it."""

from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.backends.contract import Context, Resume
from app.backends.kinds.plan_work_review_roles import RoleLog
from app.core.settings import Settings
from tests.clients import reached, submit
from tests.scenarios.team import EXAMPLE, Played, play, read
from tests.server import in_process

pytestmark = pytest.mark.requirement("OS-F", "OS-I3")


def refusal(played: Played) -> dict[str, Any]:
    """The one result of a call that must not have acted."""
    assert not played.payloads("runtime.tool.invoked")
    (result,) = played.payloads("runtime.tool.resulted")
    assert result["ok"] is False
    error: dict[str, Any] = result["error"]
    return error


async def test_an_unknown_tool_is_tool_not_found(team: httpx2.AsyncClient) -> None:
    played = await play(team, "hello, teleport")
    assert refusal(played)["code"] == "TOOL_NOT_FOUND"
    assert played.audit.complete


@pytest.mark.requirement("OS-L5", "OS-L1", "S17")
async def test_a_tool_outside_the_chosen_skill_is_tool_not_allowed(team: httpx2.AsyncClient) -> None:
    played = await play(team, "hello, tell the time")
    assert refusal(played) == {
        "code": "TOOL_NOT_ALLOWED", "message": "This tool may not be used here. Allowed: echo.", "retryable": False,
    }  # fmt: skip
    assert played.audit.complete


@pytest.mark.requirement("OS-L5", "S17")
async def test_without_a_skill_every_tool_is_tool_not_allowed(team: httpx2.AsyncClient) -> None:
    played = await play(team, "good morning")
    assert not played.payloads("runtime.skill.invoked")
    assert refusal(played)["code"] == "TOOL_NOT_ALLOWED"
    assert all("tools" not in payload for payload in played.payloads("runtime.model.requested"))


async def test_an_invalid_role_message_is_repaired_once(team: httpx2.AsyncClient) -> None:
    played = await play(team, "hello, speaks in prose once")
    (violated,) = played.payloads("runtime.schema.violated")
    assert (violated["code"], violated["schemaName"]) == ("MALFORMED_AGENT_MESSAGE", "lead_directive_v1")
    assert "prose" not in str(violated["issues"])
    assert (played.run["status"], played.audit.complete) == ("completed", True)


async def test_a_second_invalid_role_message_is_malformed_agent_message(team: httpx2.AsyncClient) -> None:
    played = await play(team, "hello there", agent="team-mumbles")
    assert played.run["error"]["code"] == "MALFORMED_AGENT_MESSAGE"
    assert len(played.payloads("runtime.schema.violated")) == len(played.payloads("runtime.model.completed")) == 2
    assert played.audit.complete


class WantsAnotherSchema:
    kind = "plan_work_review"
    resume: Resume = "replay"

    async def run(self, ctx: Context) -> str:
        assert isinstance(ctx, RoleLog)
        return str(await ctx.violations("plan_v9", {}, "role.planner"))


async def test_a_missing_schema_is_schema_not_found(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, workspace=EXAMPLE)
    backends = {"plan_work_review": WantsAnotherSchema()}
    async with in_process(settings, backends) as server:
        async with httpx2.AsyncClient(base_url=server.url, verify=False) as client:
            played = await play(client, "hello there")
    assert (played.run["status"], played.run["error"]["code"]) == ("failed", "SCHEMA_NOT_FOUND")


@pytest.mark.requirement("OS-L6", "S18")
@pytest.mark.parametrize(
    ("agent", "reason"),
    [("team-throws", "the hook failed with RuntimeError"), ("team-sleeps", "the hook did not answer in time")],
)
async def test_a_hook_that_throws_or_sleeps_denies(team: httpx2.AsyncClient, agent: str, reason: str) -> None:
    played = await play(team, "hello there", agent=agent)
    error = refusal(played)
    assert error["code"] == "GATE_DENIED" and reason in error["message"]
    fired = [
        payload
        for payload in played.payloads("runtime.hook.fired")
        if payload["handler"] == agent.removeprefix("team-")
    ]
    assert [payload["decision"] for payload in fired] == ["deny"]
    assert played.audit.complete


@pytest.mark.requirement("OS-L6", "OS-I5", "S18")
async def test_a_hook_s_transform_that_breaks_the_next_schema_denies(team: httpx2.AsyncClient) -> None:
    played = await play(team, "hello there", agent="team-babbles")
    assert refusal(played)["code"] == "GATE_DENIED"
    (violated,) = played.payloads("runtime.schema.violated")
    assert violated["boundary"] == "hook.PreToolUse"
    assert played.audit.complete


@pytest.mark.requirement("OS-L6")
async def test_a_tool_on_the_deny_list_is_gate_denied_whatever_the_skill_allows(team: httpx2.AsyncClient) -> None:
    played = await play(team, "delete it, please")
    assert [payload["skill"] for payload in played.payloads("runtime.skill.invoked")] == ["keep"]
    assert refusal(played)["code"] == "GATE_DENIED"


@pytest.mark.requirement("OS-L6")
async def test_a_denied_prompt_is_prompt_denied_and_nobody_speaks(team: httpx2.AsyncClient) -> None:
    played = await play(team, "hello there", agent="team-refuses")
    assert (played.run["status"], played.run["error"]["code"]) == ("failed", "PROMPT_DENIED")
    assert not played.payloads("runtime.model.requested") and not played.payloads("runtime.role.transitioned")
    assert played.audit.complete


@pytest.mark.requirement("SH-21")
async def test_a_team_without_the_evidence_that_its_agent_demands_fails(team: httpx2.AsyncClient) -> None:
    played = await play(team, "hello there", agent="team-of-proof")
    assert (played.run["status"], played.run["error"]["code"]) == ("failed", "EVIDENCE_MISSING")
    (failed,) = played.payloads("runtime.execution.contract.failed")
    assert failed["missingEvidenceTools"] == ["clock"]
    assert played.audit.complete


@pytest.mark.requirement("OS-W")
async def test_a_stale_file_hash_is_write_conflict(team: httpx2.AsyncClient) -> None:
    played = await play(team, "write it down, please")
    (result,) = played.payloads("runtime.tool.resulted")
    assert result["error"]["code"] == "WRITE_CONFLICT"


@pytest.mark.requirement("OS-L2")
async def test_exhausted_retries_are_provider_error(team: httpx2.AsyncClient) -> None:
    played = await play(team, "hello, nobody is there")
    assert played.run["error"]["code"] == "PROVIDER_ERROR"
    assert [payload["attempt"] for payload in played.payloads("runtime.model.requested")] == [1, 2]
    assert played.path == ["LEAD", "FAIL"] and played.audit.complete


@pytest.mark.requirement("OS-L3")
async def test_a_failed_review_leads_to_rework(team: httpx2.AsyncClient) -> None:
    played = await play(team, "hello, too quietly")
    assert played.path == ["LEAD", "PLAN", "WORK", "REVIEW", "FAIL", "REWORK", "WORK", "REVIEW", "DONE"]
    assert played.run["output"] == "Hello, louder world"


@pytest.mark.requirement("OS-L3")
async def test_a_review_that_fails_for_ever_fails_the_run_when_its_reworks_are_used_up(
    team: httpx2.AsyncClient,
) -> None:
    played = await play(team, "hello, never good enough")
    assert (played.run["status"], played.run["error"]["code"]) == ("failed", "REVIEW_FAILED")
    assert played.path.count("REWORK") == 1 and played.audit.complete


@pytest.mark.requirement("OS-L3", "HK-25")
@pytest.mark.parametrize(("decision", "status"), [("accept", "completed"), ("fail", "failed")])
async def test_a_failed_review_is_escalated_to_a_person_where_the_agent_says_so(
    team: httpx2.AsyncClient, decision: str, status: str
) -> None:
    run = await submit(team, "careful-team", "hello, never good enough", wait=20)
    (interrupt,) = run["waitingOn"]
    answered = await team.post(f"/api/interrupts/{interrupt}/answer", json={"answers": {"decision": decision}})
    assert answered.status_code == 200, answered.text
    played = await read(team, await reached(team, run["id"]))
    assert played.run["status"] == status
    assert played.path[-1] == ("DONE" if status == "completed" else "FAIL")
    assert played.audit.complete

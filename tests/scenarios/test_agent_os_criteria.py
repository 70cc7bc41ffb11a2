"""The fifth source's eleven end-to-end criteria, on the server as its users run it, each named by its number."""

import shutil
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.core import json
from app.core.schemas import SchemaRegistry
from app.core.settings import Settings
from app.runtime.intake.audits import expected_hooks
from app.views.audit import audit
from app.views.snapshot import snapshot
from app.wiring.kinds import kind_catalog
from app.workspace.compile import compile
from app.workspace.compiled import Compiled, CompiledWorkspace
from app.workspace.files import read_folder
from tests.models.fakes.openai import OpenAiSpeaker
from tests.models.fakes.server import Answer, Call, running
from tests.scenarios.team import EXAMPLE, events_jsonl, play
from tests.server import in_process

pytestmark = pytest.mark.requirement("OS-E")

SCHEMAS = {
    "completion_request_v1", "completion_response_v1", "lead_directive_v1", "plan_v1", "worker_report_v1",
    "review_result_v1", "skill_frontmatter_v1", "write_claim_v1",
}  # fmt: skip
PATH = ["LEAD", "PLAN", "WORK", "REVIEW", "DONE"]


@pytest.fixture(scope="module")
def example() -> CompiledWorkspace:
    compiled = compile(read_folder(EXAMPLE), kind_catalog())
    assert isinstance(compiled, Compiled) and len(compiled.diagnostics) == 0
    return compiled.workspace


@pytest.mark.requirement("OS-L7", "OS-I5")
def test_criterion_1_the_required_schemas_are_loaded() -> None:
    registry = SchemaRegistry()
    assert set(registry.ids()) >= SCHEMAS
    assert all(registry.validate(schema, "no object") for schema in SCHEMAS)


@pytest.mark.requirement("OS-L5", "OS-I4")
async def test_criterion_2_the_greet_skill_is_discovered_and_its_trigger_chooses_it(team: httpx2.AsyncClient) -> None:
    assert "greet" in (await team.get("/api/workspace")).json()["skills"]
    played = await play(team, "please greet the world")
    assert [payload["skill"] for payload in played.payloads("runtime.skill.invoked")] == ["greet"]


@pytest.mark.requirement("OS-L1")
async def test_criterion_3_the_echo_tool_is_registered(team: httpx2.AsyncClient) -> None:
    assert "echo" in (await team.get("/api/workspace")).json()["tools"]


@pytest.mark.requirement("OS-L6")
def test_criterion_4_pre_tool_use_stop_and_user_prompt_submit_hooks_are_registered(example: CompiledWorkspace) -> None:
    points = {point for name in example.runtime.hooks for point in example.hooks[name].spec.on}
    assert points >= {"PreToolUse", "Stop", "UserPromptSubmit"}


@pytest.mark.requirement("OS-I2", "OS-L2")
async def test_criterion_5_the_provider_is_swapped_by_a_profile_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-secret-key")
    workspace = tmp_path / "workspace"
    shutil.copytree(EXAMPLE, workspace)
    documents = {
        "lead": {"intent": "greet", "constraints": [], "schema_version": "v1"},
        "plan": {"steps": [{"id": "s1", "description": "echo"}], "risks": [], "needs_advisor": False,
                 "schema_version": "v1"},
        "report": {"output": "Hello from elsewhere", "steps_completed": ["s1"], "schema_version": "v1"},
        "review": {"verdict": "pass", "feedback": "fine", "schema_version": "v1"},
    }  # fmt: skip
    lead, plan, report, review = (Answer((json.dumps(document).decode(),)) for document in documents.values())
    act = Answer((), calls=(Call("echo", '{"text": "Hello"}'),), finish="tool_use")
    async with running(OpenAiSpeaker()) as provider:
        profile = workspace / "profiles" / "openai.yaml"
        profile.write_text(profile.read_text().replace("https://api.openai.com", provider.url))
        provider.plays(lead, plan, act, report, review)
        settings = Settings(data_dir=tmp_path / "data", workspace=workspace, profile="openai")
        async with in_process(settings) as server, httpx2.AsyncClient(base_url=server.url, verify=False) as client:
            played = await play(client, "hello there")
    assert (played.run["status"], played.run["output"]) == ("completed", "Hello from elsewhere")
    assert {payload["provider"] for payload in played.payloads("runtime.model.requested")} == {"openai"}
    assert played.path == PATH and played.audit.complete


@pytest.mark.smoke
@pytest.mark.requirement("OS-L3")
async def test_criterion_6_a_request_goes_through_lead_planner_worker_and_reviewer(team: httpx2.AsyncClient) -> None:
    played = await play(team, "hello there")
    assert (played.run["status"], played.run["output"]) == ("completed", "Hello, world")
    assert played.path == PATH
    reported = [payload["role"] for payload in played.payloads("runtime.role.reported")]
    assert reported == ["lead", "planner", "worker", "reviewer"]
    spoken = [payload["role"] for payload in played.payloads("runtime.model.requested")]
    assert spoken == ["lead", "planner", "worker", "worker", "reviewer"]


@pytest.mark.requirement("OS-L4", "OS-A", "OS-L6")
async def test_criterion_7_the_events_file_has_session_llm_agent_hook_skill_and_tool_events(
    team: httpx2.AsyncClient,
) -> None:
    played = await play(team, "hello there")
    lines = await events_jsonl(team, played.run)
    assert [line["type"] for line in lines] == [
        "session.start", "hook.fired", "skill.invoke",
        "agent.transition", "llm.request", "llm.response", "lead.report",
        "agent.transition", "llm.request", "llm.response", "planner.report",
        "agent.transition", "llm.request", "llm.response", "hook.fired", "tool.invoke", "tool.result", "hook.fired",
        "llm.request", "llm.response", "worker.report",
        "agent.transition", "llm.request", "llm.response", "reviewer.report", "agent.transition",
        "hook.fired", "skill.complete", "session.close",
    ]  # fmt: skip
    fired = [line["payload"] for line in lines if line["type"] == "hook.fired"]
    assert [(payload["hook"], payload["decision"]) for payload in fired] == [
        ("UserPromptSubmit", "allow"), ("PreToolUse", "allow"), ("PostToolUse", "allow"), ("Stop", "deny"),
    ]  # fmt: skip
    report = (await team.get(f"/api/runs/{played.run['id']}/audit")).json()
    assert (report["complete"], report["missing"], report["absent"]) == (True, [], [])


def replay_as_the_source_does(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """The fold that the fifth source prints, over its own file."""
    snap: dict[str, Any] = {
        "closed": False, "output": None, "cost": {"input": 0, "output": 0}, "agents": {}, "tools_invoked": [],
    }  # fmt: skip
    for line in lines:
        payload = line["payload"]
        if line["type"] == "llm.response":
            snap["cost"]["input"] += payload["usage"].get("input_tokens", 0)
            snap["cost"]["output"] += payload["usage"].get("output_tokens", 0)
        elif line["type"] == "tool.invoke":
            snap["tools_invoked"].append(payload)
        elif line["type"] == "agent.transition":
            snap["agents"][line["actor"]] = payload["to"]
        elif line["type"] == "worker.report":
            snap["output"] = payload["output"]
        elif line["type"] == "session.close":
            snap["closed"] = True
    return snap


@pytest.mark.requirement("OS-I1", "OS-L4", "G22")
async def test_criterion_8_replay_reproduces_the_closed_snapshot_and_the_worker_s_output(
    team: httpx2.AsyncClient,
) -> None:
    played = await play(team, "hello there")
    snap = replay_as_the_source_does(await events_jsonl(team, played.run))
    assert (snap["closed"], snap["output"]) == (True, "Hello, world")
    assert [call["name"] for call in snap["tools_invoked"]] == ["echo"]
    assert {role: snap["agents"][role] for role in ("lead", "planner", "worker", "reviewer")} == {
        "lead": "LEAD", "planner": "PLAN", "worker": "WORK", "reviewer": "REVIEW",
    }  # fmt: skip
    ours = snapshot(played.run["threadId"], played.events, played.run["id"])
    assert (ours["closed"], ours["output"]) == (True, "Hello, world")
    assert snap["cost"] == {"input": played.run["usage"]["inputTokens"], "output": played.run["usage"]["outputTokens"]}


@pytest.mark.requirement("OS-W", "OS-F")
async def test_criterion_9_a_protected_write_rejects_a_stale_hash(team: httpx2.AsyncClient) -> None:
    played = await play(team, "write it down, please")
    (result,) = played.payloads("runtime.tool.resulted")
    assert (result["tool"], result["ok"], result["error"]["code"]) == ("write_file", False, "WRITE_CONFLICT")


@pytest.mark.requirement("OS-I3", "OS-I5")
async def test_criterion_10_an_invalid_payload_fails_closed(team: httpx2.AsyncClient) -> None:
    played = await play(team, "hello there", agent="team-mumbles")
    assert (played.run["status"], played.run["error"]["code"]) == ("failed", "MALFORMED_AGENT_MESSAGE")
    violated = played.payloads("runtime.schema.violated")
    assert {(payload["schemaName"], payload["boundary"]) for payload in violated} == {
        ("lead_directive_v1", "role.lead")
    }
    assert played.path == ["LEAD", "FAIL"] and not played.payloads("runtime.tool.invoked")


@pytest.mark.requirement("OS-L6")
async def test_criterion_11_user_prompt_submit_redacts_a_16_digit_sequence(team: httpx2.AsyncClient) -> None:
    played = await play(team, "hello, my card is 1234567812345678")
    (fired, *_) = played.payloads("runtime.hook.fired")
    assert (fired["hook"], fired["decision"]) == ("UserPromptSubmit", "transform")
    heard = json.dumps(played.payloads("runtime.model.requested")).decode()
    assert "1234567812345678" not in heard and "[REDACTED:card]" in heard
    assert played.run["status"] == "completed"


@pytest.mark.requirement("OS-A")
async def test_each_event_of_a_successful_session_is_named_by_the_audit_when_it_is_missing(
    team: httpx2.AsyncClient, example: CompiledWorkspace
) -> None:
    hooks = expected_hooks(example, "team")
    played = await play(team, "hello, too quietly")
    assert played.path.count("REWORK") == 1 and played.audit.complete
    # Optional: pieces of messages, words for people, a choice of models that is recorded again.
    numbered_only = {"runtime.adapter.event", "runtime.progress.narration", "runtime.model.negotiated"}
    assert audit(played.events, hooks).complete
    for gone in played.events:
        found = audit((event for event in played.events if event is not gone), hooks)
        named = {name for missing in found.missing for name in (missing.type or "").split(" | ")}
        numbers = {missing.subject for missing in found.missing if missing.type is None}
        assert not found.complete
        if gone.type in numbered_only:
            assert str(gone.run_seq) in numbers
        else:
            assert gone.type in named, (gone, found.missing)

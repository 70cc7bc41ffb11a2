"""The agent-os dialect: the fifth source's names, and its own way of replaying gives the same story."""

from typing import Any

import pytest

from app.events.catalog import EVENTS, Payload, log, model, policy, request, skill, tool, workflow
from app.protocols.dialects import agent_os
from app.protocols.dialects.agent_os import spell
from tests.views.story import events_from

MODEL = {"messageId": "m", "model": "demo", "provider": "p"}


def _spell(payload: Payload) -> tuple[str, dict[str, Any]]:
    (event,) = events_from(payload)
    line = spell(event)
    assert line is not None
    return line["type"], line["payload"]


@pytest.mark.requirement("OS-L4")
@pytest.mark.parametrize(
    ("payload", "name", "fields"),
    [
        (request.RequestQueued(agent="echo", input="hi"), "session.start", {"prompt": "hi", "agent": "echo"}),
        (request.RequestCompleted(output="o"), "session.close", {"ok": True, "output": "o"}),
        (
            request.RequestFailed.model_validate({"error": {"code": "GATE_DENIED", "message": "m"}}),
            "session.close",
            {"ok": False, "reason": "GATE_DENIED"},
        ),
        (request.RequestCancelled(), "session.close", {"ok": False, "reason": "cancelled"}),
        (
            model.ModelRequested.model_validate(
                {**MODEL, "providerModel": "x", "attempt": 1, "requestHash": "0", "parameters": {"a": 1}}
            ),
            "llm.request",
            {"message_id": "m", "model": "demo", "provider": "p", "parameters": {"a": 1}},
        ),
        (
            model.ModelCompleted.model_validate(
                {**MODEL, "text": "t", "toolCalls": [], "finishReason": "stop",
                 "usage": {"inputTokens": 3, "outputTokens": 4}}
            ),
            "llm.response",
            {"message_id": "m", "model": "demo", "text": "t", "tool_calls": [], "finish_reason": "stop",
             "usage": {"input_tokens": 3, "output_tokens": 4}},
        ),
        (
            tool.ToolInvoked.model_validate(
                {"callId": "c", "tool": "echo", "arguments": {"x": 1}, "argumentHash": "0", "effect": "readonly"}
            ),
            "tool.invoke",
            {"id": "c", "name": "echo", "args": {"x": 1}},
        ),
        (
            tool.ToolResulted(call_id="c", tool="echo", ok=True, output={"x": 1}),
            "tool.result",
            {"id": "c", "name": "echo", "ok": True, "result": {"x": 1}},
        ),
        (
            skill.RoleTransitioned.model_validate({"from": "lead", "to": "planner"}),
            "agent.transition",
            {"from": "lead", "to": "planner"},
        ),
        (
            skill.RoleReported(role="worker", schema_name="worker_report_v1", report={"output": "done"}),
            "worker.report",
            {"output": "done"},
        ),
        (
            policy.HookFired(hook="PreToolUse", handler="h", decision="deny", reason="r"),
            "hook.fired",
            {"hook": "PreToolUse", "handler": "h", "decision": "deny", "reason": "r"},
        ),
        (skill.SkillInvoked(skill="greet"), "skill.invoke", {"skill": "greet"}),
        (skill.SkillCompleted(skill="greet", ok=True), "skill.complete", {"skill": "greet", "ok": True}),
        (
            log.EventAmended(amends_seq=1, amends_id="evt_0", reason="typo", correction={"a": 1}),
            "event.amended",
            {"amends": "evt_0", "reason": "typo", "correction": {"a": 1}},
        ),
        (
            workflow.WorkflowPhaseAdvanced(workflow_id="w", to_phase="b", from_phase="a", cycle_id="c"),
            "workflow.phase_advanced",
            {"cycle_id": "c", "from_phase": "a", "to_phase": "b"},
        ),
        (
            workflow.WorkflowPolicyGated(policy_id="p", decision="deny", reason="r"),
            "workflow.policy_gated",
            {"policy_id": "p", "decision": "deny", "reason": "r"},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_each_fact_has_the_source_s_name_and_fields(payload: Payload, name: str, fields: dict[str, Any]) -> None:
    assert _spell(payload) == (name, fields)


@pytest.mark.requirement("OS-L4", "OS-L3")
def test_what_a_role_says_and_does_has_the_role_for_its_actor() -> None:
    events = events_from(
        skill.RoleTransitioned.model_validate({"from": "INTAKE", "to": "LEAD"}),
        model.ModelCompleted.model_validate(
            {**MODEL, "role": "planner", "text": "t", "toolCalls": [], "finishReason": "stop", "usage": {}}
        ),
        skill.RoleReported(role="worker", schema_name="worker_report_v1", report={"output": "done"}),
        skill.RoleTransitioned.model_validate({"from": "REVIEW", "to": "DONE"}),
    )
    assert [line["actor"] for line in map(spell, events) if line is not None] == [
        "lead", "planner", "worker", "backend:echo",
    ]  # fmt: skip


@pytest.mark.requirement("OS-L4", "OS-I1")
def test_folding_the_dialect_as_its_source_does_gives_the_run_s_story() -> None:
    events = events_from(
        request.RequestQueued(agent="echo", input="hi"),
        skill.RoleTransitioned(to="worker"),
        model.ModelCompleted.model_validate(
            {**MODEL, "text": "t", "toolCalls": [], "finishReason": "stop",
             "usage": {"inputTokens": 3, "outputTokens": 4}}
        ),
        tool.ToolInvoked.model_validate(
            {"callId": "c", "tool": "echo", "arguments": {}, "argumentHash": "0", "effect": "readonly"}
        ),
        skill.RoleReported(role="worker", schema_name="worker_report_v1", report={"output": "done"}),
        request.RequestCompleted(output="done"),
    )  # fmt: skip
    lines = [line for line in map(spell, events) if line is not None]
    by_type = {line["type"]: line for line in lines}
    assert len(lines) == len(events)
    assert by_type["llm.response"]["payload"]["usage"] == {"input_tokens": 3, "output_tokens": 4}
    assert (by_type["agent.transition"]["actor"], by_type["agent.transition"]["payload"]["to"]) == (
        "backend:echo",
        "worker",
    )
    assert by_type["worker.report"]["payload"]["output"] == "done"
    assert (lines[-1]["type"], lines[-1]["payload"]["ok"]) == ("session.close", True)
    assert [line["id"] for line in lines] == [event.id for event in events]
    assert all(line["ts"].endswith("Z") and line["schema_version"] == "v1" for line in lines)


def test_what_the_source_has_no_word_for_is_left_out() -> None:
    (event,) = events_from(request.RequestStarted(executor="e", epoch=1))
    assert spell(event) is None


def test_every_spelled_type_is_in_the_catalog() -> None:
    assert set(agent_os._SPELLINGS) <= set(EVENTS)

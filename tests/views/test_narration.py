"""Sentences about events: the same event, the same words; most events need none."""

from typing import Any

import pytest

from app.events.catalog import EVENTS, execution, interrupt, model, policy, request, skill, tool
from app.views import narration
from app.views.narration import TemplateNarrator, narrate


@pytest.mark.requirement("SH-16")
@pytest.mark.parametrize(
    ("event_type", "payload", "sentence"),
    [
        (skill.SkillInvoked.type, {"skill": "greet"}, "Using the skill greet."),
        (tool.ToolInvoked.type, {"tool": "echo"}, "Using echo."),
        (tool.ToolResulted.type, {"tool": "echo", "ok": True}, None),
        (tool.ToolResulted.type, {"tool": "echo", "ok": False, "error": {"code": "TOOL_FAILED"}},
         "echo did not work: TOOL_FAILED."),
        (skill.RoleTransitioned.type, {"to": "PLAN", "from": "LEAD"}, "Making a plan."),
        (skill.RoleTransitioned.type, {"to": "FAIL", "reason": "verdict fail"}, "The work did not pass its review."),
        (skill.RoleTransitioned.type, {"to": "FAIL", "reason": "PROVIDER_ERROR"}, None),
        (skill.RoleTransitioned.type, {"to": "ELSEWHERE"}, None),
        (skill.RoleReported.type, {"role": "lead", "report": {"intent": "greet\n them"}}, "The goal: greet them"),
        (skill.RoleReported.type, {"role": "planner", "report": {"steps": [1]}}, "The plan has 1 step."),
        (skill.RoleReported.type, {"role": "planner", "report": {"steps": [1, 2]}}, "The plan has 2 steps."),
        (skill.RoleReported.type, {"role": "worker", "report": {"output": "o"}}, None),
        (interrupt.InterruptRaised.type, {"kind": "approval", "title": "May it?"}, "Waiting for approval: May it?"),
        (interrupt.InterruptExpired.type, {"interruptId": "int_1"}, "Nobody answered in time."),
        (execution.CommandInjected.type, {"command": "steer"}, "A person gave directions."),
        (execution.CommandInjected.type, {"command": "cancel"}, None),
        (execution.BudgetExceeded.type, {"budget": "tool_calls"}, "The limit of tool calls is reached."),
        (model.ModelRetryScheduled.type, {"model": "m"}, "m did not answer; trying again."),
        (model.ModelRetryScheduled.type, {"model": "m", "nextModel": "n"}, "m did not answer; trying n."),
        (model.ModelRequested.type, {"model": "m"}, None),
        (request.RequestCompleted.type, {"output": "o"}, None),
        ("runtime.of.tomorrow", {}, None),
    ],
)  # fmt: skip
def test_brief_narration_reports_what_a_person_would_ask_about(
    event_type: str, payload: dict[str, Any], sentence: str | None
) -> None:
    assert narrate(event_type, payload) == sentence


@pytest.mark.requirement("SH-16")
def test_detailed_narration_also_reports_models_results_and_hooks() -> None:
    narrator = TemplateNarrator("detailed")
    assert narrator.narrate(model.ModelRequested.type, {"model": "m"}) == "Asking m."
    assert narrator.narrate(tool.ToolResulted.type, {"tool": "echo", "ok": True}) == "echo has answered."
    fired = {"hook": "PreToolUse", "handler": "guard", "decision": "deny"}
    assert narrator.narrate(policy.HookFired.type, fired) == "guard denied it at PreToolUse."
    assert narrator.narrate(policy.HookFired.type, fired | {"decision": "allow"}) is None


def test_somebody_else_s_long_text_is_cut() -> None:
    sentence = narrate(interrupt.InterruptRaised.type, {"kind": "question", "title": "why " * 200})
    assert sentence is not None and len(sentence) < 250 and sentence.endswith("…")


def test_every_narrated_type_is_in_the_catalog_and_none_ends_a_run() -> None:
    for style in narration._BY_STYLE.values():
        assert set(style) <= set(EVENTS)
        assert not set(style) & request.TERMINAL

"""The skill of a run: chosen by literal triggers only, never by guessing; recorded once and kept on resume.

A SkillStart hook may refuse it or take tools away. A refused skill fails the run: to go on without it would leave
the agent with more tools than the skill allows.
"""

from dataclasses import replace
from typing import Final

from app.backends.contract import StepFailed
from app.core.decisions import Deny
from app.core.errors import Failure
from app.events.catalog.skill import SkillInvoked
from app.policy.contract import Point
from app.policy.points import text_of
from app.runtime.run.steps.run_scope import RunScope

STEP: Final = "(the workflow's step)"
"""Recorded as the trigger of a skill that no words chose."""


async def choose_skill(run_scope: RunScope) -> None:
    workspace, recorded = run_scope.workspace, run_scope.log.memo.skill
    if recorded is not None:
        kept = workspace.skills.get(recorded["skill"])
        if kept is None:
            # Without it the run would go on with tools that the skill had taken away.
            raise StepFailed(Failure("WORKSPACE_GONE", "The skill with which the run started no longer exists."))
        run_scope.skill = replace(kept, allowed_tools=tuple(recorded["allowedTools"]))
        return
    named = run_scope.asked.get("skill")
    if named is None and not run_scope.agent.skills:
        return
    text = text_of(run_scope.given)
    if named is not None:
        # The step of a workflow names it.
        skill, trigger = named, STEP
    else:
        hit = workspace.triggers.best(text, run_scope.agent.skills)
        if hit is None:
            return
        skill, trigger = hit.skill, hit.trigger
    chosen = workspace.skills[skill]
    subject = {
        "skill": skill,
        "trigger": trigger,
        "allowedTools": list(chosen.allowed_tools),
        "prompt": text,
    }
    fired = await run_scope.hooks.fire(Point.SKILL_START, subject)
    if isinstance(fired.decision, Deny):
        raise StepFailed(Failure("SKILL_DENIED", fired.decision.reason))
    allowed = fired.subject["allowedTools"]
    run_scope.skill = replace(chosen, allowed_tools=tuple(allowed))
    await run_scope.log.record(SkillInvoked(skill=skill, trigger=trigger, allowed_tools=allowed))

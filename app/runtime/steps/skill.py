"""The skill of a run: chosen by literal triggers only, never by guessing; recorded once and kept on resume."""

from app.core import json
from app.events.catalog.skill import SkillInvoked
from app.runtime.steps.passage import Passage


async def choose_skill(passage: Passage) -> None:
    workspace, recorded = passage.workspace, passage.log.memo.skill
    if recorded is not None:
        passage.skill = workspace.skills.get(recorded["skill"])
        return
    text = passage.given if isinstance(passage.given, str) else json.dumps(passage.given).decode()
    hit = workspace.triggers.best(text, passage.agent.skills)
    if hit is None:
        return
    chosen = passage.skill = workspace.skills[hit.skill]
    await passage.log.record(
        SkillInvoked(skill=hit.skill, trigger=hit.trigger, allowed_tools=list(chosen.allowed_tools))
    )

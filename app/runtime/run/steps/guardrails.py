"""Content rules before and after the backend. Leaves to the policy room: what the rules are."""

from dataclasses import replace
from typing import Any, Literal

from app.backends.contract import StepFailed
from app.core.decisions import Deny, Transform
from app.core.errors import Failure
from app.runtime.run.steps.passage import Passage


async def guard_input(passage: Passage) -> None:
    passage.given = await _checked(passage, "input", passage.given)


async def guard_output(passage: Passage) -> None:
    assert passage.output is not None
    text = await _checked(passage, "output", passage.output.text)
    if text != passage.output.text:
        # What was streamed was something else, so the output no longer is that message.
        passage.output = replace(passage.output, text=text, message_id=None)


async def _checked(passage: Passage, stage: Literal["input", "output"], content: Any) -> Any:
    decision = await passage.services.guardrails.check(stage, content, passage.agent)
    if isinstance(decision, Deny):
        raise StepFailed(Failure("GUARDRAIL_DENIED", decision.reason))
    if isinstance(decision, Transform):
        return decision.changes["content"]
    return content

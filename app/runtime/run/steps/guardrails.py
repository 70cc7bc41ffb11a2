"""Content rules before and after the backend. Leaves to the policy room: what the rules are."""

from dataclasses import replace
from typing import Any, Literal

from app.backends.contract import StepFailed
from app.core.decisions import Deny, Transform
from app.core.errors import Failure
from app.runtime.run.steps.run_scope import RunScope


async def guard_input(run_scope: RunScope) -> None:
    run_scope.given = await _checked(run_scope, "input", run_scope.given)


async def guard_output(run_scope: RunScope) -> None:
    assert run_scope.output is not None
    text = await _checked(run_scope, "output", run_scope.output.text)
    if text != run_scope.output.text:
        # What was streamed was something else, so the output no longer is that message.
        run_scope.output = replace(run_scope.output, text=text, message_id=None)


async def _checked(run_scope: RunScope, stage: Literal["input", "output"], content: Any) -> Any:
    decision = await run_scope.services.guardrails.check(stage, content, run_scope.agent)
    if isinstance(decision, Deny):
        raise StepFailed(Failure("GUARDRAIL_DENIED", decision.reason))
    if isinstance(decision, Transform):
        return decision.changes["content"]
    return content

"""Judgement of a finished output. Leaves to the policy room: evaluators and thresholds."""

from app.backends.contract import StepFailed
from app.runtime.run.steps.run_scope import RunScope


async def pass_gates(run_scope: RunScope) -> None:
    assert run_scope.output is not None
    refused = await run_scope.services.gates.judge(run_scope.output.text, run_scope.agent)
    if refused is not None:
        raise StepFailed(refused)

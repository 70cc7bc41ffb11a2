"""Judgement of a finished output. Leaves to the policy room: evaluators and thresholds."""

from app.backends.contract import StepFailed
from app.runtime.run.steps.passage import Passage


async def pass_gates(passage: Passage) -> None:
    assert passage.output is not None
    refused = await passage.services.gates.judge(passage.output.text, passage.agent)
    if refused is not None:
        raise StepFailed(refused)

"""The evidence contract: tools whose results an agent must have seen before it may answer (SH-21)."""

from app.backends.contract import StepFailed
from app.core.errors import Failure
from app.events.catalog.execution import ExecutionContractFailed
from app.runtime.run.steps.passage import Passage


async def check_evidence(passage: Passage) -> None:
    assert passage.tools is not None
    missing = [tool for tool in passage.agent.spec.evidence if tool not in passage.tools.evidence]
    if not missing:
        return
    reason = f"the agent answered without results of {', '.join(missing)}"
    await passage.log.record(ExecutionContractFailed(reason=reason, missing_evidence_tools=missing))
    raise StepFailed(Failure("EVIDENCE_MISSING", reason, detail={"missingEvidenceTools": missing}))

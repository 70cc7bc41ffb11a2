"""The evidence contract: tools whose results an agent must have seen before it may answer."""

from app.backends.contract import StepFailed
from app.core.errors import Failure
from app.events.catalog.execution import ExecutionContractFailed
from app.runtime.run.steps.run_scope import RunScope


async def check_evidence(run_scope: RunScope) -> None:
    assert run_scope.tools is not None
    missing = [tool for tool in run_scope.agent.spec.evidence if tool not in run_scope.tools.evidence]
    if not missing:
        return
    reason = f"the agent answered without results of {', '.join(missing)}"
    await run_scope.log.record(ExecutionContractFailed(reason=reason, missing_evidence_tools=missing))
    raise StepFailed(Failure("EVIDENCE_MISSING", reason, detail={"missingEvidenceTools": missing}))

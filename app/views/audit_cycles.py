"""The part of the audit that knows workflows: every transition of a cycle and every decision of its policies is there.

A visit of a phase is a completed step; it says where the cycle went and what its policies decided, so none of the
events that report it can be left out unseen.
"""

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, Final

from app.core.value import mutable
from app.events.catalog import execution, request, workflow
from app.events.envelope import Event

Found = tuple[str | None, str | None, str]
NODE: Final = "node"
"""What `runtime.step.completed` calls the end of a visit."""


@mutable(slots=True)
class CycleAudit:
    """Silent for a run that is no cycle's and has no phases."""

    cycle: str | None = None
    moves: set[tuple[str, str]] = field(default_factory=set)
    gates: set[tuple[str, str, int]] = field(default_factory=set)
    """By phase, policy and visit."""
    phases: dict[str, bool] = field(default_factory=dict)
    """Of spec-driven work: whether each phase that was started has completed."""
    found: list[Found] = field(default_factory=list)

    def apply(self, event: Event) -> None:
        payload = event.payload
        match event.type:
            case workflow.WorkflowStarted.type:
                self.cycle = payload.get("cycleId")
            case workflow.WorkflowPhaseAdvanced.type:
                self.moves.add((str(payload.get("fromPhase")), payload["toPhase"]))
            case workflow.WorkflowPolicyGated.type:
                self.gates.add((str(payload.get("phaseId")), payload["policyId"], payload.get("visit") or 1))
            case execution.StepCompleted.type if self.cycle is not None and payload["step"] == NODE:
                self._visited(payload)
            case workflow.SpecPhaseStarted.type:
                self.phases[payload["phaseId"]] = False
            case workflow.SpecPhaseCompleted.type:
                if payload["phaseId"] not in self.phases:
                    reason = "the phase was completed and never started"
                    self.found.append((workflow.SpecPhaseStarted.type, payload["phaseId"], reason))
                self.phases[payload["phaseId"]] = True

    def _visited(self, payload: Mapping[str, Any]) -> None:
        phase, _, number = str(payload["key"]).rpartition(".")
        result = payload.get("result")
        output: Any = result.get("output") if isinstance(result, Mapping) else None
        if not isinstance(output, Mapping) or "$blob" in output:
            return  # too large for the event; its bonds are in the blob
        to = output.get("to")
        if isinstance(to, str) and (phase, to) not in self.moves:
            reason = f"the cycle went from {phase} to {to}, and no event says so"
            self.found.append((workflow.WorkflowPhaseAdvanced.type, f"{phase} -> {to}", reason))
        for policy in output.get("policies") or ():
            if (phase, policy, int(number)) not in self.gates:
                reason = f"a policy decided about visit {number} of {phase}, and no event says what"
                self.found.append((workflow.WorkflowPolicyGated.type, policy, reason))

    def close(self, ended: Event) -> Iterator[Found]:
        yield from self.found
        if ended.type == request.RequestCompleted.type:
            for phase, completed in self.phases.items():
                if not completed:
                    yield workflow.SpecPhaseCompleted.type, phase, "the phase was started and never completed"

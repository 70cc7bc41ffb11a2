"""Where a cycle stands, folded from the events of its run: cycle, phase, verdict and visited phases."""

from dataclasses import field
from typing import Any

from app.core.json import JsonObject, present
from app.core.value import mutable
from app.events.catalog import workflow
from app.events.envelope import Event


@mutable(slots=True)
class CycleProgress:
    workflow_id: str | None = None
    cycle_id: str | None = None
    mode: str | None = None
    phase: str | None = None
    verdict: str | None = None
    reason: str | None = None
    generation: int = 1
    visited: list[str] = field(default_factory=list)
    gates: list[JsonObject] = field(default_factory=list)
    """What policies decided, in order."""

    def apply(self, event: Event) -> None:
        payload = event.payload
        match event.type:
            case workflow.WorkflowStarted.type:
                self._begin(payload)
            case workflow.WorkflowPhaseAdvanced.type:
                self.phase = payload["toPhase"]
                self.visited.append(payload["toPhase"])
                self.generation = payload.get("generation") or self.generation
            case workflow.WorkflowPolicyGated.type:
                kept = ("policyId", "decision", "reason", "phaseId")
                self.gates.append(present({name: payload.get(name) for name in kept}))
            case workflow.WorkflowCompleted.type:
                self.verdict, self.reason = payload.get("verdict"), payload.get("reason")
            case workflow.WorkflowAborted.type:
                self.verdict, self.reason = "abort", payload["reason"]

    def _begin(self, payload: Any) -> None:
        """A thread may have had others before."""
        self.workflow_id, self.cycle_id = payload["workflowId"], payload.get("cycleId")
        self.mode, self.phase = payload.get("mode"), payload.get("phaseId")
        self.verdict = self.reason = None
        self.generation, self.gates = 1, []
        self.visited = [self.phase] if self.phase is not None else []

    def to_json(self) -> JsonObject | None:
        """None where no workflow ran."""
        if self.workflow_id is None:
            return None
        return {
            "workflowId": self.workflow_id,
            "cycleId": self.cycle_id,
            "mode": self.mode,
            "phase": self.phase,
            "verdict": self.verdict,
            "reason": self.reason,
            "generation": self.generation,
            "visitedPhases": list(self.visited),
            "gates": list(self.gates),
        }

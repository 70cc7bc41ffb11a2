"""Workflows and cycles, and the phases of spec-driven work."""

from typing import Literal

from app.events.catalog.base import EventModel, event
from app.events.catalog.values import ArtifactValue


@event("runtime.workflow.started", draft=True)
class WorkflowStarted(EventModel):
    workflow_id: str
    adapter: str
    cycle_id: str | None = None


@event("runtime.workflow.phase_advanced", draft=True)
class WorkflowPhaseAdvanced(EventModel):
    workflow_id: str
    to_phase: str
    from_phase: str | None = None
    cycle_id: str | None = None


@event("runtime.workflow.policy_gated", draft=True)
class WorkflowPolicyGated(EventModel):
    policy_id: str
    decision: Literal["allow", "deny", "advisory"]
    reason: str


@event("runtime.workflow.completed", draft=True)
class WorkflowCompleted(EventModel):
    workflow_id: str
    adapter: str
    cycle_id: str | None = None
    verdict: Literal["done", "halted"] | None = None


@event("runtime.workflow.aborted", draft=True)
class WorkflowAborted(EventModel):
    workflow_id: str
    reason: str
    cycle_id: str | None = None


class _Phase(EventModel):
    phase_id: str
    workflow_id: str | None = None


@event("runtime.specDriven.phase.started", draft=True)
class SpecPhaseStarted(_Phase):
    pass


@event("runtime.specDriven.phase.blocked", draft=True)
class SpecPhaseBlocked(_Phase):
    reason: str


@event("runtime.specDriven.phase.completed", draft=True)
class SpecPhaseCompleted(_Phase):
    artifact: ArtifactValue | None = None


@event("runtime.specDriven.phase.verified", draft=True)
class SpecPhaseVerified(_Phase):
    artifact: ArtifactValue | None = None

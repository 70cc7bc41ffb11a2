"""Workflows and cycles, and the phases of spec-driven work."""

from typing import Literal

from app.events.catalog.base import EventModel, event
from app.events.catalog.request import Mode
from app.events.catalog.values import ArtifactValue


@event("runtime.workflow.started")
class WorkflowStarted(EventModel):
    workflow_id: str
    adapter: str
    cycle_id: str | None = None
    phase_id: str | None = None
    """The phase that a cycle begins with."""
    mode: Mode | None = None


@event("runtime.workflow.phase_advanced")
class WorkflowPhaseAdvanced(EventModel):
    workflow_id: str
    to_phase: str
    from_phase: str | None = None
    cycle_id: str | None = None
    generation: int | None = None
    """Counts how often the cycle went back to a phase, or stayed in one; from 1."""


@event("runtime.workflow.policy_gated")
class WorkflowPolicyGated(EventModel):
    """What one policy said about one visit of a phase."""

    policy_id: str
    decision: Literal["allow", "deny", "advisory"]
    reason: str
    kind: str | None = None
    cycle_id: str | None = None
    phase_id: str | None = None
    visit: int | None = None
    generation: int | None = None


@event("runtime.workflow.completed")
class WorkflowCompleted(EventModel):
    workflow_id: str
    adapter: str
    cycle_id: str | None = None
    verdict: Literal["done", "halted"] | None = None
    phase_id: str | None = None
    """The phase in which a cycle ended."""
    reason: str | None = None
    """Why a cycle was halted."""


@event("runtime.workflow.aborted")
class WorkflowAborted(EventModel):
    """The verdict of the cycle is abort."""

    workflow_id: str
    reason: str
    cycle_id: str | None = None
    phase_id: str | None = None
    code: str | None = None


class _Phase(EventModel):
    phase_id: str
    workflow_id: str | None = None


@event("runtime.specDriven.phase.started")
class SpecPhaseStarted(_Phase):
    pass


@event("runtime.specDriven.phase.blocked")
class SpecPhaseBlocked(_Phase):
    reason: str


@event("runtime.specDriven.phase.completed")
class SpecPhaseCompleted(_Phase):
    artifact: ArtifactValue | None = None


@event("runtime.specDriven.phase.verified")
class SpecPhaseVerified(_Phase):
    artifact: ArtifactValue | None = None

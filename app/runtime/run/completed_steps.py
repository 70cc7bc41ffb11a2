"""The events that complete a step of a run, as the recovery of runs and the run's own log count them."""

from typing import Final

from app.events.catalog import execution, interrupt, model, skill, tool

COMPLETES_A_STEP: Final = frozenset(
    {
        model.ModelCompleted.type,
        tool.ToolResulted.type,
        execution.StepCompleted.type,
        interrupt.InterruptRaised.type,
        execution.ContextCompacted.type,
        skill.RoleTransitioned.type,
        skill.RoleReported.type,
    }
)
"""Recorded once each, so that a run which reaches one has come further than before."""

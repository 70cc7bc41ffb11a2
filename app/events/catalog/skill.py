"""Skills that were chosen or discovered, and the roles of Plan-Work-Review."""

from typing import Any, Final

from pydantic import Field

from app.events.catalog.base import EventModel, event

VERDICT_FAIL: Final = "verdict fail"
"""The reason of a transition to FAIL that a reviewer decided; any other one is the code of an error."""


@event("runtime.skill.invoked")
class SkillInvoked(EventModel):
    skill: str
    trigger: str | None = None
    allowed_tools: list[str] | None = None


@event("runtime.skill.completed")
class SkillCompleted(EventModel):
    skill: str
    ok: bool


@event("runtime.skill.candidate.created")
class SkillCandidateCreated(EventModel):
    candidate_id: str
    name: str
    confidence: float
    evidence_count: int
    status: str
    proposed_path: str | None = None


@event("runtime.role.transitioned")
class RoleTransitioned(EventModel):
    to: str
    from_: str | None = Field(None, alias="from")
    reason: str | None = None


@event("runtime.role.reported")
class RoleReported(EventModel):
    role: str
    schema_name: str
    report: dict[str, Any]
    message_id: str | None = None

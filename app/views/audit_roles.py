"""The part of the audit that knows Plan-Work-Review: transitions follow from one another, and each visit of a state
has the report of its role.

A role's answer is either its report or a violation of its schema, so that none of the three can be left out unseen.
"""

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, Final

from app.core.value import mutable
from app.events.catalog import model, policy, request, skill
from app.events.envelope import Event

Found = tuple[str | None, str | None, str]

REPORTERS: Final = {"LEAD": "lead", "PLAN": "planner", "WORK": "worker", "REVIEW": "reviewer"}
"""The states in which a role speaks, and the role whose report ends them."""
ROLE_BOUNDARY: Final = "role."
"""How the boundary of a role's output begins in `runtime.schema.violated`."""
_ENTRY: Final = "INTAKE"
_OWN_FAILURES: Final = frozenset({"MALFORMED_AGENT_MESSAGE", "REVIEW_FAILED"})
"""Failures that the roles decide themselves, on the way through FAIL."""


@mutable(slots=True)
class _Visit:
    """What happened between a transition and the next one."""

    state: str
    answers: int = 0
    violations: int = 0
    reports: list[str] = field(default_factory=list)


@mutable(slots=True)
class RoleAudit:
    """Silent for a run in which no role ever spoke."""

    visit: _Visit = field(default_factory=lambda: _Visit(_ENTRY))
    found: list[Found] = field(default_factory=list)
    unheard: set[str] = field(default_factory=set)
    """Tool calls of roles that have no tools: nobody makes them."""
    spoken: bool = False

    def apply(self, event: Event) -> None:
        payload = event.payload
        match event.type:
            case skill.RoleTransitioned.type:
                self._enter(payload)
            case skill.RoleReported.type:
                self.spoken = True
                self.visit.reports.append(payload["role"])
            case policy.SchemaViolated.type if payload["boundary"].startswith(ROLE_BOUNDARY):
                self.visit.violations += 1
            case model.ModelCompleted.type if payload.get("role") not in model.ASIDES:
                self._answered(payload)

    def _answered(self, payload: Mapping[str, Any]) -> None:
        calls = payload["toolCalls"]
        if self.visit.state != "WORK":
            self.visit.answers += 1
            if self.visit.state in REPORTERS and isinstance(calls, list):
                self.unheard |= {call["id"] for call in calls if "id" in call}
        elif not calls:
            self.visit.answers += 1

    def _enter(self, payload: Mapping[str, Any]) -> None:
        self.spoken = True
        came_from, goes_to = payload.get("from", _ENTRY), payload["to"]
        if came_from != self.visit.state:
            reason = f"the run goes on from {came_from}, and no event says how it came there from {self.visit.state}"
            self.found.append((skill.RoleTransitioned.type, came_from, reason))
            self.visit = _Visit(goes_to)
            return
        self.found += self._leave(failed=goes_to == "FAIL" and payload.get("reason") != skill.VERDICT_FAIL)
        self.visit = _Visit(goes_to)

    def _leave(self, *, failed: bool = False) -> Iterator[Found]:
        """`failed` is a state that an error ended before its role had reported."""
        visit, role = self.visit, REPORTERS.get(self.visit.state)
        if role is None:
            return
        said = len(visit.reports) + visit.violations
        if role not in visit.reports and not failed:
            yield skill.RoleReported.type, role, f"{visit.state} ended without the report of the {role}"
        elif visit.answers > said:
            reason = f"in {visit.state} a role answered {visit.answers} times, and {said} of that are accounted for"
            yield policy.SchemaViolated.type, role, reason
        elif visit.answers < said:
            yield model.ModelCompleted.type, role, f"in {visit.state} a role reported what no model said"

    def close(self, ended: Event) -> list[Found]:
        if not self.spoken:
            return []
        if ended.type == request.RequestCompleted.type and self.visit.state != "DONE":
            self.found += self._leave()
            reason = f"the run was completed, and no event says how it came from {self.visit.state} to DONE"
            self.found.append((skill.RoleTransitioned.type, "DONE", reason))
        code = (ended.payload.get("error") or {}).get("code")
        if code in _OWN_FAILURES and self.visit.state != "FAIL":
            reason = f"the run failed with {code}, and no event says how it came from {self.visit.state} to FAIL"
            self.found.append((skill.RoleTransitioned.type, "FAIL", reason))
        return self.found

"""The memory lifecycle as the first source publishes it."""

from typing import Any, Literal

from app.events.catalog.base import EventModel, event
from app.events.catalog.values import ErrorValue


@event("runtime.memory.lifecycle", draft=True)
class MemoryLifecycle(EventModel):
    hook: Literal["read-before-plan", "read-before-finalize", "write-after-run"]


@event("runtime.memory.recall.completed", draft=True)
class MemoryRecallCompleted(EventModel):
    namespace: str
    record_ids: list[str]
    context: str


@event("runtime.memory.candidate.submitted", draft=True)
class MemoryCandidateSubmitted(EventModel):
    candidate: dict[str, Any]
    decision: dict[str, Any]
    record: dict[str, Any] | None = None


@event("runtime.memory.approval.requested", draft=True)
class MemoryApprovalRequested(EventModel):
    approval: dict[str, Any]


class _Plugin(EventModel):
    memory_id: str
    provider: str
    namespace: str


@event("runtime.memory.plugin.started", draft=True)
class MemoryPluginStarted(_Plugin):
    pass


@event("runtime.memory.plugin.completed", draft=True)
class MemoryPluginCompleted(_Plugin):
    candidate_count: int


@event("runtime.memory.plugin.failed", draft=True)
class MemoryPluginFailed(_Plugin):
    error: ErrorValue


@event("runtime.memory.maintenance.started", draft=True)
class MemoryMaintenanceStarted(EventModel):
    target: str


@event("runtime.memory.maintenance.completed", draft=True)
class MemoryMaintenanceCompleted(EventModel):
    target: str
    operation_count: int


@event("runtime.memory.maintenance.failed", draft=True)
class MemoryMaintenanceFailed(EventModel):
    target: str
    error: ErrorValue

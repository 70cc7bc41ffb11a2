"""Memory: what a run recalls and learns, the candidates and their decisions, the records, and maintenance.

The records are folds of `runtime.memory.record.*`, which are on the tenant's memory thread. Content is a salted blob
(`events.salted`): forgetting deletes it, and the chain still verifies.
"""

from typing import Any, Final, Literal

from pydantic import Field

from app.events.catalog.base import EventModel, event
from app.events.catalog.values import ErrorValue, Usage

MEMORY_THREAD: Final = "sys_memory"
"""The tenant's thread of memory records."""

MemoryHook = Literal["read-before-plan", "read-before-finalize", "write-after-run"]
MemorySource = Literal["user", "model", "tool", "operator"]
"""Who said it: the user of the run, its model, a tool's output that the run had seen, or a caller of the API."""


@event("runtime.memory.lifecycle")
class MemoryLifecycle(EventModel):
    hook: MemoryHook


@event("runtime.memory.recall.completed")
class MemoryRecallCompleted(EventModel):
    namespace: str
    record_ids: list[str]
    context: Any
    """The recalled text, as the model sees it; a salted blob."""
    hook: MemoryHook | None = None
    memory_id: str | None = None


@event("runtime.memory.candidate.submitted")
class MemoryCandidateSubmitted(EventModel):
    candidate: dict[str, Any]
    """`{memoryId, namespace, kind, source, confidence, content?, callId?}`; without content where nothing may be
    stored, and with the call where a tool proposed it."""
    decision: dict[str, Any]
    """`{outcome: accepted | rejected | merged | asked, reason}`."""
    record: dict[str, Any] | None = None
    """`{id}` of the record that it became or was merged into."""


@event("runtime.memory.approval.requested")
class MemoryApprovalRequested(EventModel):
    approval: dict[str, Any]


class _Plugin(EventModel):
    memory_id: str
    provider: str
    namespace: str


@event("runtime.memory.plugin.started")
class MemoryPluginStarted(_Plugin):
    pass


@event("runtime.memory.plugin.completed")
class MemoryPluginCompleted(_Plugin):
    candidate_count: int


@event("runtime.memory.plugin.failed")
class MemoryPluginFailed(_Plugin):
    error: ErrorValue


@event("runtime.memory.embedding.completed")
class MemoryEmbeddingCompleted(EventModel):
    """Vectors that a provider made. What was embedded lately is not asked for again, and not counted again."""

    model: str
    provider: str
    text_count: int
    request_count: int
    usage: Usage


@event("runtime.memory.maintenance.started")
class MemoryMaintenanceStarted(EventModel):
    target: str


@event("runtime.memory.maintenance.completed")
class MemoryMaintenanceCompleted(EventModel):
    target: str
    operation_count: int
    counts: dict[str, int] | None = None


@event("runtime.memory.maintenance.failed")
class MemoryMaintenanceFailed(EventModel):
    target: str
    error: ErrorValue


@event("runtime.memory.record.stored", of_thread=True)
class MemoryRecordStored(EventModel):
    record_id: str
    memory_id: str
    namespace: str
    kind: Literal["working", "episodic", "semantic"]
    status: Literal["accepted", "proposed"]
    source: MemorySource
    content: Any
    """`{text, attributes}`, a salted blob."""
    length: int
    """How many terms the text has, for ranking."""
    confidence: float
    sources: list[str] = Field(default_factory=list)
    """The events that it comes from."""
    user: str | None = None
    """Whom it is about, where the namespace has a user."""
    created_by: str | None = None
    run_id: str | None = None
    expires_at: str | None = None
    interrupt_id: str | None = None
    """The question to a person, of a proposed record."""


@event("runtime.memory.record.decided", of_thread=True)
class MemoryRecordDecided(EventModel):
    record_id: str
    status: Literal["accepted", "rejected"]
    decided_by: str
    reason: str | None = None


@event("runtime.memory.record.changed", of_thread=True)
class MemoryRecordChanged(EventModel):
    """A changed confidence or expiry, or further sources of a record that another was merged into."""

    record_id: str
    confidence: float | None = None
    expires_at: str | None = None
    sources: list[str] | None = None
    changed_by: str | None = None


@event("runtime.memory.record.superseded", of_thread=True)
class MemoryRecordSuperseded(EventModel):
    record_id: str
    by: str


@event("runtime.memory.record.used", of_thread=True)
class MemoryRecordUsed(EventModel):
    record_id: str


@event("runtime.memory.record.forgotten", of_thread=True)
class MemoryRecordForgotten(EventModel):
    record_id: str
    reason: str
    forgotten_by: str

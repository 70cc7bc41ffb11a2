"""The memory record, folded from its events: proposed or accepted, then superseded, rejected or forgotten.

Holds no text: `content` refers to a salted blob, which is gone once the record is forgotten.
"""

from dataclasses import field
from typing import Any, Final

from app.core.clock import iso
from app.core.value import mutable
from app.events.catalog import memory as facts
from app.events.envelope import Event

IN_FORCE: Final = frozenset({"accepted"})
OPEN: Final = frozenset({"accepted", "proposed"})
KEPT: Final = frozenset({"accepted", "proposed", "rejected", "superseded"})
"""The statuses of records that still have their content."""


@mutable(slots=True)
class MemoryRecord:
    id: str
    thread_id: str
    seq: int = 0
    memory: str = ""
    namespace: str = ""
    kind: str = "semantic"
    status: str = "proposed"
    source: str = ""
    content: dict[str, Any] | None = None
    length: int = 0
    confidence: float = 1.0
    sources: list[str] = field(default_factory=list)
    user: str | None = None
    created_by: str | None = None
    run_id: str | None = None
    interrupt_id: str | None = None
    decided_by: str | None = None
    superseded_by: str | None = None
    reason: str | None = None
    created_at: int = 0
    updated_at: int = 0
    used_at: int = 0
    expires_at: str | None = None

    @property
    def digest(self) -> str | None:
        """The hash of its blob."""
        if self.content is None:
            return None
        digest: str = self.content["$blob"]["sha256"]
        return digest

    @property
    def touched_at(self) -> int:
        """When it was last stored or used."""
        return max(self.created_at, self.used_at)

    def apply(self, event: Event) -> None:
        payload = event.payload
        self.updated_at = event.at
        match event.type:
            case facts.MemoryRecordStored.type:
                self._store(event)
            case facts.MemoryRecordDecided.type:
                self.status, self.decided_by = payload["status"], payload["decidedBy"]
                self.reason = payload.get("reason")
            case facts.MemoryRecordChanged.type:
                self.confidence = payload.get("confidence", self.confidence)
                self.expires_at = payload.get("expiresAt", self.expires_at)
                self.sources = payload.get("sources", self.sources)
            case facts.MemoryRecordSuperseded.type:
                self.status, self.superseded_by = "superseded", payload["by"]
            case facts.MemoryRecordUsed.type:
                self.used_at = event.at
            case facts.MemoryRecordForgotten.type:
                self.status, self.reason = "forgotten", payload["reason"]
                self.decided_by = payload["forgottenBy"]

    def _store(self, event: Event) -> None:
        payload = event.payload
        self.seq, self.created_at = event.seq, event.at
        self.memory, self.namespace = payload["memoryId"], payload["namespace"]
        self.kind, self.status, self.source = payload["kind"], payload["status"], payload["source"]
        self.content, self.length = payload["content"], payload["length"]
        self.confidence, self.sources = payload["confidence"], payload.get("sources", [])
        self.user, self.created_by = payload.get("user"), payload.get("createdBy")
        self.run_id, self.interrupt_id = payload.get("runId"), payload.get("interruptId")
        self.expires_at = payload.get("expiresAt")


def memory_record_json(record: MemoryRecord, content: Any = None) -> dict[str, Any]:
    """`content` is what the record's blob holds, `{text, attributes}`, or what stands in its place."""
    whole = content if isinstance(content, dict) else {"text": content}
    return {
        "id": record.id,
        "memory": record.memory,
        "namespace": record.namespace,
        "kind": record.kind,
        "status": record.status,
        "source": record.source,
        "text": whole.get("text"),
        "attributes": whole.get("attributes") or {},
        "confidence": record.confidence,
        "sources": record.sources,
        "user": record.user,
        "createdBy": record.created_by,
        "runId": record.run_id,
        "interruptId": record.interrupt_id,
        "decidedBy": record.decided_by,
        "supersededBy": record.superseded_by,
        "reason": record.reason,
        "createdAt": iso(record.created_at),
        "updatedAt": iso(record.updated_at),
        "lastUsedAt": iso(record.used_at) if record.used_at else None,
        "expiresAt": record.expires_at,
    }

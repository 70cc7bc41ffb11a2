"""The artifact: an immutable named output, known by reference."""

from dataclasses import field
from typing import Any

from app.core.clock import iso
from app.core.value import mutable
from app.events.envelope import Event


@mutable(slots=True)
class Artifact:
    id: str
    thread_id: str
    run_id: str | None = None
    seq: int = 0
    created_at: int = 0
    value: dict[str, Any] = field(default_factory=dict)

    def apply(self, event: Event) -> None:
        # The first mention wins: an artifact never changes.
        if not self.seq:
            self.run_id, self.seq, self.created_at = event.run_id, event.seq, event.at
            self.value = event.payload["artifact"]


def artifact_json(artifact: Artifact) -> dict[str, Any]:
    return {
        **artifact.value,
        "threadId": artifact.thread_id,
        "runId": artifact.run_id,
        "createdAt": iso(artifact.created_at),
    }

"""What a run's thread says about a memory candidate."""

from typing import Any

from app.events.catalog import Payload
from app.events.catalog import memory as facts
from app.events.ports import BlobDraft
from app.events.recorder import PayloadEntry
from app.events.salted import salted
from app.memory.contract import Submitted


def candidate_events(one: Submitted, call_id: str | None = None) -> list[Payload | PayloadEntry]:
    """The candidate and what became of it. Its text only where a record holds it as well, so that forgetting
    the record forgets this, too. `call_id` is of the tool call that proposed it."""
    candidate = one.candidate
    shown: dict[str, Any] = {
        "memoryId": one.memory,
        "namespace": one.namespace,
        "kind": candidate.kind,
        "source": candidate.source,
        "confidence": candidate.confidence,
        "sources": list(candidate.sources),
    }
    if call_id is not None:
        shown["callId"] = call_id
    blobs: tuple[BlobDraft, ...] = ()
    if one.record_id is not None:
        reference, blob = salted({"text": candidate.text}, (one.record_id,))
        shown["content"], blobs = reference, (blob,)
    submitted = facts.MemoryCandidateSubmitted(
        candidate=shown,
        decision={"outcome": one.outcome, "reason": one.reason},
        record={"id": one.record_id} if one.record_id is not None else None,
    )
    made: list[Payload | PayloadEntry] = [PayloadEntry(submitted, blobs=blobs)]
    if one.interrupt_id is not None:
        approval = {"interruptId": one.interrupt_id, "recordId": one.record_id, "memoryId": one.memory}
        made.append(facts.MemoryApprovalRequested(approval=approval))
    return made

"""Large values that left a payload for a blob, put back for whoever works with the event.

Leaves tool results alone: what a model may see of a large output was decided when it was recorded.
"""

from typing import Final

from app.events.blobs import Load, stored_blobs, with_blobs
from app.events.catalog import artifact, execution, interrupt, log, memory, model, policy, request, thread
from app.events.envelope import Event

__all__ = ["WHOLE", "Load", "inline", "stored_blobs"]

WHOLE: Final = frozenset(
    {
        request.RequestQueued.type,
        request.RequestCompleted.type,
        request.RequestFailed.type,
        request.RequestCancelled.type,
        log.EventAmended.type,
        memory.MemoryRecallCompleted.type,
        artifact.UndoPlanned.type,
        model.ModelCompleted.type,
        execution.StepCompleted.type,
        execution.ContextCompacted.type,
        policy.HookFired.type,
        interrupt.InterruptRaised.type,
        thread.ThreadCreated.type,
        thread.ThreadForked.type,
        thread.ThreadStateUpdated.type,
        thread.TranscriptUpserted.type,
    }
)
"""The types whose values a run works on with."""


async def inline(event: Event, load: Load) -> Event:
    return await with_blobs(event, load) if event.type in WHOLE else event

"""Large values that left a payload for a blob, put back for whoever works with the event.

Leaves tool results alone: what a model may see of a large output was decided when it was recorded.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from app.core import json
from app.events.catalog import execution, model, policy, request, thread
from app.events.envelope import Event
from app.views.ports import Reader

Load = Callable[[Mapping[str, Any]], Awaitable[bytes | None]]

WHOLE: Final = frozenset(
    {
        request.RequestQueued.type,
        request.RequestCompleted.type,
        model.ModelCompleted.type,
        execution.StepCompleted.type,
        execution.ContextCompacted.type,
        policy.HookFired.type,
        thread.ThreadCreated.type,
        thread.ThreadForked.type,
    }
)
"""The types whose values a run works on with."""


def stored_blobs(reader: Reader, tenant: str, thread_id: str) -> Load:
    """What a thread's events refer to, read from the store; None for what is gone."""

    async def load(reference: Mapping[str, Any]) -> bytes | None:
        found = await reader.blob(tenant, thread_id, str(reference["sha256"]))
        return None if found is None else found[1]

    return load


async def inline(event: Event, load: Load) -> Event:
    if event.type not in WHOLE or b'"$blob"' not in event.payload_bytes:
        return event
    return event.with_payload(await _whole(event.payload, load))


async def _whole(value: Any, load: Load) -> Any:
    if isinstance(value, list):
        return [await _whole(item, load) for item in value]
    if not isinstance(value, dict):
        return value
    reference = value.get("$blob")
    if len(value) == 1 and isinstance(reference, dict):
        data = await load(reference)
        if data is None:
            return value
        return data.decode() if reference["mime"].startswith("text/") else await _whole(json.loads(data), load)
    return {key: await _whole(item, load) for key, item in value.items()}

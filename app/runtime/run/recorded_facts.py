"""Facts and signals that a backend reports: each is recorded once, also when the backend is entered again.

They are matched by content: one that the log has is not recorded again. Leaves to the context: which facts there are.
"""

from app.backends.contract import StepFailed
from app.core.json import JsonObject
from app.events.catalog import Payload
from app.events.recorder import PayloadEntry
from app.runtime.run.inlined import WHOLE
from app.runtime.run.run_log import RunLog
from app.runtime.run.unused import Unused, content_hash, not_recorded


class RecordedFacts:
    def __init__(self, log: RunLog) -> None:
        self._log = log
        self._unused: dict[str, Unused] = {
            type_: Unused((content_hash(payload), payload) for payload in payloads)
            for type_, payloads in log.memo.facts.items()
        }

    async def record(self, payload: Payload, apart: tuple[str, ...] = ()) -> JsonObject | None:
        """The payload as the log has it; None when the recorder moved values out of it. Fields named in `apart` are
        stored as blobs, whatever their size."""
        unused = self._unused.get(payload.type)
        if unused:
            whole = payload.type in WHOLE
            found = unused.take(content_hash(self._log.recorder.as_stored(payload, apart, whole=whole)))
            if found is not None:
                return found
            if self._log.strict:
                raise StepFailed(not_recorded(f"This {payload.type}"))
        self._log.stop_if_cancelled()
        event = (await self._log.record(PayloadEntry(payload, apart=apart) if apart else payload)).events[0]
        return event.payload if b'"$blob"' not in event.payload_bytes else None

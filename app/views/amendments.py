"""Amendments: texts of recorded events that read otherwise since somebody corrected them.

The log keeps both; views show the newest amendment. Leaves to others: who may amend, and what an event is checked for
before it is amended (`runtime.intake.amendments`).
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from app.events.blobs import Load, with_blobs
from app.events.catalog import adapter, model, request, thread, tool
from app.events.catalog.log import EventAmended
from app.events.envelope import Event

AMENDED: Final = EventAmended.type
TEXTS: Final[Mapping[str, tuple[str, ...]]] = {
    request.RequestQueued.type: ("input",),
    request.RequestCompleted.type: ("output",),
    request.RequestFailed.type: ("output",),
    request.RequestCancelled.type: ("output",),
    model.ModelCompleted.type: ("text",),
    tool.ToolResulted.type: ("output",),
    thread.TranscriptUpserted.type: ("content", "details"),
}
"""By type, the fields of an event that hold a text somebody reads: these can be amended, nothing else."""
_ANSWERS: Final = (model.ModelCompleted.type, *request.TERMINAL)
"""Texts that may have been streamed before they were recorded as a whole."""
_PAGE: Final = 200

Values = dict[str, Any]


class EventReader(Protocol):
    async def events_of(
        self, tenant: str, thread_id: str, types: tuple[str, ...], after: int, up_to: int, limit: int
    ) -> list[Event]: ...


class Amendments:
    """Of one thread: by the `seq` of an event, the values that are shown in place of its own."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._values: dict[int, Values] = {}
        self._messages: dict[str, list[str]] = {}
        """By message: its text for the first of its deltas, then nothing for the others."""
        self.seq = 0
        """Of the newest one."""
        self.count = 0
        for event in events:
            self.apply(event)

    def __contains__(self, seq: int) -> bool:
        return seq in self._values

    def apply(self, event: Event) -> None:
        """Those without a type were recorded before views showed amendments, and could name any field."""
        if event.type == AMENDED and event.payload.get("amendsType") is not None:
            seq = int(event.payload["amendsSeq"])
            self._values[seq] = self._values.get(seq, {}) | event.payload["correction"]
            self.seq, self.count = event.seq, self.count + 1
            if event.payload["amendsType"] in _ANSWERS and event.payload.get("messageId") is not None:
                correction = event.payload["correction"]
                text = correction.get("text", correction.get("output"))
                self._messages[event.payload["messageId"]] = [text] if isinstance(text, str) else [""]

    def amended(self, event: Event) -> Event:
        """The event as views show it: itself unless it was amended. Deltas of an amended message are given in order."""
        values = self._values.get(event.seq)
        if values is not None:
            return event.with_payload(event.payload | values)
        if self._messages and event.type == adapter.AdapterEvent.type:
            return self._amended_delta(event)
        return event

    def _amended_delta(self, event: Event) -> Event:
        signal = event.payload["event"]
        left = self._messages.get(signal.get("messageId") or "") if signal["phase"] == adapter.OUTPUT_DELTA else None
        if left is None:
            return event
        return event.with_payload(event.payload | {"event": signal | {"text": left.pop() if left else ""}})


def amended_events(events: Iterable[Event]) -> list[Event]:
    """Events of one thread as views show them; the amendments are among them, each after what it amends."""
    found = list(events)
    amendments = Amendments(found)
    return [amendments.amended(event) for event in found] if amendments.seq else found


async def stored_amendments(
    reader: EventReader, tenant: str, thread_id: str, up_to: int, load: Load | None = None, after: int = 0
) -> Amendments:
    """Those of a thread up to a `seq`; with `load`, large texts are in their places."""
    found = Amendments()
    while page := await reader.events_of(tenant, thread_id, (AMENDED,), after, up_to, _PAGE):
        for event in page:
            found.apply(event if load is None else await with_blobs(event, load))
        after = page[-1].seq
    return found

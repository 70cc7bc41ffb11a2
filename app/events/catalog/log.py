"""Words about the log itself, and narration of it in sentences."""

from typing import Annotated, Any

from pydantic import Field

from app.events.catalog.base import EventModel, Value, event

Seq = Annotated[int, Field(ge=1)]
Sha256Hex = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


@event("runtime.progress.narration")
class ProgressNarration(EventModel):
    message: str
    provider: str
    source_event_types: list[str]
    source_event_ids: list[str] | None = None
    model: str | None = None
    style: str | None = None


@event("runtime.event.amended")
class EventAmended(EventModel):
    """Corrects texts of an earlier event of its thread, which stays as it is. Views show the correction."""

    amends_seq: int
    amends_id: str
    reason: str
    correction: dict[str, Any]
    """The fields of the amended event's payload that are shown otherwise, with their new values."""
    amends_type: str | None = None
    run_id: str | None = None
    """The run whose event it is."""
    message_id: str | None = None
    """The message or the transcript's entry whose text it is."""
    in_transcript: bool | None = None
    """Whether the transcript's entry shows the text; false where it was replaced since."""


class DroppedNumbers(Value):
    """The `runSeq` of one run within a dropped range: `count` of them, from `run_seq` on."""

    run_id: str
    run_seq: Seq
    count: Seq


class DroppedMessage(Value):
    """A message that had deltas within a dropped range, and how many of these were text of its answer."""

    run_id: str
    message_id: str
    text_deltas: Annotated[int, Field(ge=0)]


class DroppedRange(Value):
    """Deltas that stood next to each other in the log and are no longer stored.

    `prev_hash` is the hash of the event before the first of them, `head_hash` that of the last: the chain leads from
    one to the other over what was dropped.
    """

    from_seq: Seq
    to_seq: Seq
    prev_hash: Sha256Hex
    head_hash: Sha256Hex
    runs: Annotated[list[DroppedNumbers], Field(min_length=1)]
    messages: Annotated[list[DroppedMessage], Field(min_length=1)]


@event("runtime.log.compacted", of_thread=True)
class LogCompacted(EventModel):
    """Deltas of completed messages were dropped by retention. Their text stays in the messages."""

    deltas: Seq
    """How many events the ranges add up to."""
    delta_days: Seq
    """How long deltas were kept."""
    ranges: Annotated[list[DroppedRange], Field(min_length=1)]

"""The correction of a recorded text: an event of its own, together with the same text recorded elsewhere.

Nothing that is stored changes. Leaves to others: what views show (`views.amendments`), and who may amend (the
protocols).
"""

from collections.abc import Mapping
from typing import Any, Final

from app.core import json
from app.core.errors import Failure
from app.core.principal import Principal
from app.core.value import value
from app.events import ports
from app.events.blobs import Load, with_blobs
from app.events.catalog import model, request
from app.events.catalog.log import EventAmended
from app.events.envelope import Event
from app.events.ports import Condition, Refused
from app.events.recorder import PayloadEntry, Recorder, Scope
from app.runtime.intake.rejection import SYSTEM_THREADS, Rejected
from app.runtime.run.inlined import stored_blobs
from app.views.amendments import TEXTS, Amendments, Values, stored_amendments
from app.views.ports import Reader, Tombstone
from app.views.run import Run
from app.views.thread import Thread
from app.views.transcript import ENTRY_KEYS, SHOWN, as_text

MAX_TEXT: Final = 256 * 1024
"""Characters of one amended text."""
MAX_AMENDMENTS: Final = 500
"""Of one thread: whoever reads it has all of them in memory."""
_APART_BYTES: Final = 4096
"""A value over this is a blob, so that the whole correction stays within its event."""
_TRIES: Final = 5
"""Whoever changes the same entry at the same time makes this look again."""
_SAID: Final = (model.ModelCompleted.type, request.RequestCompleted.type)
"""An answer is recorded as the model's message and as the run's output; both have its `messageId`."""
_PAGE: Final = 200


@value(frozen=True, slots=True)
class Correction:
    """What is right instead of what the event `seq` of a thread says, and why."""

    seq: int
    reason: str
    values: Mapping[str, str]
    """By field of its payload."""


class AmendmentDesk:
    def __init__(self, recorder: Recorder, reader: Reader) -> None:
        self._recorder, self._reader = recorder, reader

    async def amend(self, who: Principal, thread_id: str, correction: Correction) -> Event | Rejected:
        """The first event that records it; a second one amends the same text where it is recorded twice."""
        scope = Scope(who.tenant, thread_id, actor=who.actor)
        rejected = _CHANGED
        for _ in range(_TRIES):
            plan = await self._plan(who.tenant, thread_id, correction)
            if plan is _CHANGED:
                continue
            if isinstance(plan, Rejected):
                return plan
            entries, conditions = plan
            answer = await self._recorder.record(scope, *entries, conditions=conditions)
            if not isinstance(answer, Refused):
                return answer.events[0]
            rejected = Rejected(answer.failure, answer.winner)
            if answer.failure.code != "ENTRY_CHANGED":
                break
        return rejected

    async def _plan(
        self, tenant: str, thread_id: str, correction: Correction
    ) -> tuple[list[PayloadEntry], list[Condition]] | Rejected:
        thread = await self._existing(tenant, thread_id)
        if isinstance(thread, Rejected):
            return thread
        found = await self._reader.events(tenant, thread_id, correction.seq - 1, 1)
        if not found or found[0].seq != correction.seq:
            message = f"The thread has no event {correction.seq} to amend; its last one is {thread.last_seq}."
            return _no("EVENT_NOT_FOUND", message)
        event, run = found[0], None
        if event.run_id is not None:
            run = await self._reader.run(tenant, event.run_id)
            if run is None or not run.terminal:
                return _no("RUN_NOT_ENDED", "Texts of a run can be amended once the run has ended.")
        load = stored_blobs(self._reader, tenant, thread_id)
        stored, whole = Amendments(), Amendments()
        if thread.amended:
            stored = await stored_amendments(self._reader, tenant, thread_id, thread.last_seq)
            if stored.count >= MAX_AMENDMENTS:
                return _no("TOO_MANY_AMENDMENTS", f"A thread has at most {MAX_AMENDMENTS} amendments.")
            whole = await stored_amendments(self._reader, tenant, thread_id, thread.last_seq, load)
        wrong = [event]
        if run is not None and (twin := await self._twin(tenant, run, event, correction, whole, load)) is not None:
            wrong.append(twin)
        entries: list[PayloadEntry] = []
        conditions: list[Condition] = [] if run is None else [ports.RunEnded(run.id)]
        for one in wrong:
            shown = whole.amended(await with_blobs(one, load))
            values = _values(shown, _texts_for(one, event, correction))
            if isinstance(values, Rejected):
                return values
            in_transcript = await self._in_transcript(tenant, stored.amended(one), values, conditions)
            if in_transcript is None:
                # Somebody replaced the content, or amended it after `stored` was read.
                if await self._count(tenant, thread_id) != stored.count:
                    return _CHANGED
                in_transcript = False
            entries.append(_entry_of(one, values, correction.reason, in_transcript))
        return entries, conditions

    async def _twin(
        self, tenant: str, run: Run, event: Event, correction: Correction, whole: Amendments, load: Load
    ) -> Event | None:
        """The event that records the same text of the same message, if there is one."""
        said = event.payload.get("messageId")
        if event.type not in _SAID or said is None or not _texts(event).keys() & correction.values.keys():
            return None
        text = _text_of(whole.amended(await with_blobs(event, load)))
        after = run.first_seq - 1
        while page := await self._reader.events_of(tenant, run.thread_id, _SAID, after, run.last_seq, _PAGE):
            for other in page:
                same = other.type != event.type and other.run_id == run.id and other.payload.get("messageId") == said
                if same and _text_of(whole.amended(await with_blobs(other, load))) == text:
                    return other
            after = page[-1].seq
        return None

    async def _count(self, tenant: str, thread_id: str) -> int:
        thread = await self._existing(tenant, thread_id)
        if isinstance(thread, Rejected) or not thread.amended:
            return 0
        return (await stored_amendments(self._reader, tenant, thread_id, thread.last_seq)).count

    async def _in_transcript(
        self, tenant: str, event: Event, values: Values, conditions: list[Condition]
    ) -> bool | None:
        """Whether an entry shows the text now; None if there is one that shows something else."""
        message_id = _entry_key(event)
        where = next((place for name in values if (place := SHOWN.get((event.type, name)))), None)
        if message_id is None or where is None:
            return False
        entry = await self._reader.entry(tenant, event.thread_id, message_id)
        if entry is None:
            return False
        for name in values:
            value = event.payload.get(name)
            shown = getattr(entry, SHOWN.get((event.type, name), where))
            if name in TEXTS[event.type] and shown not in (value, as_text(value)):
                return None
        conditions.append(ports.EntryShows(message_id, entry.content, entry.details))
        return True

    async def _existing(self, tenant: str, thread_id: str) -> Thread | Rejected:
        found = await self._reader.thread(tenant, thread_id)
        if found is None:
            return _no("THREAD_NOT_FOUND", "There is no such thread.")
        if isinstance(found, Tombstone) or found.deleted_at is not None:
            return _no("THREAD_DELETED", "The thread was deleted.")
        if thread_id.startswith(SYSTEM_THREADS):
            return _no("THREAD_RESERVED", "Events of the system's own threads cannot be amended.")
        return found


def _texts(event: Event) -> dict[str, Any]:
    return {name: event.payload[name] for name in TEXTS.get(event.type, ()) if event.payload.get(name) is not None}


def _text_of(event: Event) -> Any:
    return next(iter(_texts(event).values()), None)


def _texts_for(one: Event, event: Event, correction: Correction) -> Mapping[str, str]:
    """The correction in the fields of the event: the twin of a message has its text in a field of another name."""
    if one is event:
        return correction.values
    (text,) = (correction.values[name] for name in TEXTS[event.type])
    return {TEXTS[one.type][0]: text}


def _values(event: Event, texts: Mapping[str, str]) -> Values | Rejected:
    """The amended fields as they will be shown; `event` has its large values in place."""
    known = _texts(event)
    values: Values = {}
    for name, text in texts.items():
        if name not in known:
            names = ", ".join(known) or "none"
            message = f"{event.type} has no text {name!r} to amend; the texts of this event are: {names}."
            return _no("EVENT_NOT_AMENDABLE", message)
        value = _with_text(known[name], text)
        if value is None:
            return _no("EVENT_NOT_AMENDABLE", f"{name!r} of this event is a value, not a text.")
        values[name] = value
    if "output" in values and isinstance(parts := event.payload.get("parts"), list):
        values["parts"] = _with_text(parts, texts["output"])
    return values


def _with_text(value: Any, text: str) -> Any:
    """A text, or message parts with another text; None for anything else."""
    if isinstance(value, str):
        return text
    if not isinstance(value, list) or not all(isinstance(part, dict) and "type" in part for part in value):
        return None
    others = [part for part in value if part["type"] != "text"]
    before = next((at for at, part in enumerate(value) if part["type"] == "text"), 0)
    return [*others[:before], {"type": "text", "text": text}, *others[before:]]


def _entry_key(event: Event) -> str | None:
    key_of = ENTRY_KEYS.get(event.type)
    return None if key_of is None else key_of(event)


def _entry_of(event: Event, values: Values, reason: str, in_transcript: bool) -> PayloadEntry:
    payload = EventAmended(
        amends_seq=event.seq,
        amends_id=event.id,
        reason=reason,
        correction=values,
        amends_type=event.type,
        run_id=event.run_id,
        message_id=event.payload.get("messageId") or _entry_key(event),
        in_transcript=in_transcript,
    )
    large = [name for name, value in values.items() if len(json.canonical(value)) > _APART_BYTES]
    return PayloadEntry(payload, apart=tuple(f"correction.{name}" for name in large))


def _no(code: str, message: str) -> Rejected:
    return Rejected(Failure(code, message))


_CHANGED: Final = _no("ENTRY_CHANGED", "The transcript's entry was changed at the same time; try again.")

"""The one write door: stamp, redact, validate, hand over to the log.

A caller works on with what the recorder returns, so that a resumed run sees what an uninterrupted one saw.
Leaves to others: order, hash and durability (the store's log) and who may write what (the runtime).
"""

import contextlib
from collections.abc import Awaitable, Sequence
from hashlib import sha256
from typing import Any, Final, Protocol, final

from app.core import json
from app.core.clock import Clock
from app.core.errors import Failure
from app.core.schemas import Issue, SchemaRegistry, Validator
from app.core.value import value
from app.events.catalog import EVENTS, Payload, adapter, log, policy, request, schema_id
from app.events.catalog.values import IssueValue
from app.events.ports import Answer, BlobDraft, Command, Condition, Draft, EventLog, Fence, Refused


class Redactor(Protocol):
    """Replaces secrets; never refuses. `suspects` looks at the encoded payload so that clean ones cost one scan."""

    def suspects(self, encoded: bytes) -> bool: ...

    def clean(self, value: dict[str, Any]) -> dict[str, Any]: ...


class Narrator(Protocol):
    """Says in a sentence what an event means; the sentence is recorded right after the event."""

    @property
    def provider(self) -> str: ...

    @property
    def style(self) -> str: ...

    def narrate(self, event_type: str, payload: dict[str, Any]) -> str | None: ...


UNSTORABLE: Final = frozenset({"JSON_UNENCODABLE", "PAYLOAD_INVALID", "PAYLOAD_TOO_LARGE", "UNKNOWN_EVENT_TYPE"})
"""Codes of refusals that are about what was to be recorded: trying again would end the same way."""

MAX_INLINE_BYTES: Final = 16 * 1024
"""A value over this leaves the payload and becomes a `$blob` reference."""

MAX_PAYLOAD_BYTES: Final = 1024 * 1024
"""A payload over this after its large values left is a mistake, not data."""

_TRAITS: Final[dict[type[Payload], tuple[str, bool, bool, bool]]] = {}
"""What is the same for all payloads of a class, looked up once for each: asking a model takes several times as long."""


@value(frozen=True, slots=True)
class Scope:
    """Where events go and who says so."""

    tenant: str
    thread_id: str
    run_id: str | None = None
    actor: str = "system"
    fence: Fence | None = None


@final
@value(frozen=True, slots=True)
class PayloadEntry:
    """A payload with what differs from its scope."""

    payload: Payload
    run_id: str | None = None
    actor: str | None = None
    parent_id: str | None = None
    blobs: tuple[BlobDraft, ...] = ()
    """Content that the payload refers to by hash; stored in the same commit."""
    apart: tuple[str, ...] = ()
    """Fields that go into a blob, however small they are: whoever follows the log gets a reference to them. A field
    within a field is named by both, as in `arguments.output`."""


class Recorder:
    def __init__(self, log: EventLog, clock: Clock, schemas: SchemaRegistry, redactor: Redactor) -> None:
        self._log = log
        self._clock = clock
        self._redactor = redactor
        self._schemas = schemas
        self._validators: dict[str, Validator] = {}
        self.narrator: Narrator | None = None
        """Set if the workspace asks for narration."""

    def record(
        self, scope: Scope, *entries: Payload | PayloadEntry | Draft, conditions: Sequence[Condition] = ()
    ) -> Awaitable[Answer]:
        """Append catalog payloads together, or events given by type and payload, as a backend or an import has them.
        They have their place in the log when this returns; the answer comes after they are durable and published."""
        if len(entries) == 1:  # nearly every command of a run: it goes without the lists that several need
            draft = _draft(scope, entries[0])
            drafts = [draft]
            refused = None if draft.checked else self._check_one(scope, draft)
        else:
            drafts, raw = [], []
            for entry in entries:
                draft = _draft(scope, entry)
                drafts.append(draft)
                if not draft.checked:
                    raw.append(draft)
            refused = self._check_all(scope, raw) if raw else None
        if refused is not None:
            return refused
        if self.narrator is not None:
            drafts = self._with_narration(drafts, self.narrator)
        return self._log.append(Command(scope.tenant, scope.thread_id, drafts, conditions, scope.fence))

    def _check_one(self, scope: Scope, draft: Draft) -> Awaitable[Answer] | None:
        """Stamp, redact and validate an event; what comes back is its refusal."""
        draft.at = self._clock.now_ms()
        try:
            draft.encoded = encoded = json.canonical(draft.payload)
        except json.JsonError as error:
            return self._refuse(scope, draft, error.failure, [])
        suspected = not draft.screened and self._redactor.suspects(encoded)
        if draft.prevalidated and not suspected and len(encoded) <= MAX_INLINE_BYTES:
            draft.checked = True
            return None
        failure, issues = self._prepare(draft, suspected)
        return None if failure is None else self._refuse(scope, draft, failure, issues)

    def _check_all(self, scope: Scope, drafts: Sequence[Draft]) -> Awaitable[Answer] | None:
        """As `_check_one` for the events of one command; those that were prepared before are not among them."""
        if len(drafts) == 1:
            return self._check_one(scope, drafts[0])
        now = self._clock.now_ms()
        for draft in drafts:
            draft.at = now
            try:
                draft.encoded = json.canonical(draft.payload)
            except json.JsonError as error:
                return self._refuse(scope, draft, error.failure, [])
        # All of them in one look: nearly always there is nothing to find.
        suspected = self._redactor.suspects(b"\n".join([draft.encoded for draft in drafts]))
        for draft in drafts:
            if draft.prevalidated and not suspected and len(draft.encoded) <= MAX_INLINE_BYTES:
                draft.checked = True
                continue
            failure, issues = self._prepare(draft, suspected)
            if failure is not None:
                return self._refuse(scope, draft, failure, issues)
        return None

    def prepared(self, scope: Scope, *payloads: Payload | PayloadEntry) -> list[Draft] | None:
        """The events as they will be stored, to be recorded with the next ones; None if they have to be recorded by
        themselves, because one cannot be stored or because a narration follows it."""
        now, narrator = self._clock.now_ms(), self.narrator
        drafts: list[Draft] = []
        encoded: list[bytes] = []
        for payload in payloads:
            draft = _draft(scope, payload)
            draft.at = now
            try:
                draft.encoded = json.canonical(draft.payload)
            except json.JsonError:
                return None
            drafts.append(draft)
            if not draft.screened:
                encoded.append(draft.encoded)
        suspected = bool(encoded) and self._redactor.suspects(b"\n".join(encoded))
        for draft in drafts:
            if draft.prevalidated and not suspected and len(draft.encoded) <= MAX_INLINE_BYTES:
                draft.checked = True
            elif self._prepare(draft, suspected)[0] is not None:
                return None
            if narrator is not None and _sentence(draft, narrator) is not None:
                return None
        return drafts

    def as_stored(self, payload: Payload, apart: tuple[str, ...] = (), *, whole: bool = False) -> dict[str, Any]:
        """The payload as it would be stored, for a comparison; `whole` leaves large values in it."""
        document = payload.to_json()
        encoded = json.canonical(document)
        if self._redactor.suspects(encoded):
            document = self._redactor.clean(document)
            encoded = json.canonical(document)
        if apart and not whole:
            document = _move_apart(document, apart)[0]
            encoded = json.canonical(document)
        return document if whole or len(encoded) <= MAX_INLINE_BYTES else _move_large_values_out(document)[0]

    def record_delta(self, scope: Scope, phase: str, message_id: str, part: int, text: str) -> Awaitable[Answer]:
        """The hot path of a streaming backend: one delta, written with whatever else is waiting."""
        signal = {
            "adapter": scope.actor.removeprefix("backend:"),
            "phase": phase,
            "messageId": message_id,
            "part": part,
            "text": text,
        }
        draft = Draft(adapter.AdapterEvent.type, {"event": signal}, scope.run_id, scope.actor)
        return self.record(scope, draft)

    def _prepare(self, draft: Draft, suspected: bool) -> tuple[Failure | None, list[Issue]]:
        """Redact and validate what is encoded; what cannot be stored comes back as a failure."""
        validator = self._validators.get(draft.type)
        if validator is None:
            if draft.type not in EVENTS:
                return Failure("UNKNOWN_EVENT_TYPE", f"There is no event type {draft.type[:100]!r}."), []
            validator = self._schemas.validator(schema_id(draft.type))
            self._validators[draft.type] = validator
        encoded = draft.encoded
        if suspected:
            draft.payload = self._redactor.clean(draft.payload)
            encoded = json.canonical(draft.payload)
        # What was redacted is no longer what was built.
        if (suspected or not draft.prevalidated) and not validator.accepts(draft.payload):
            issues = validator.issues(draft.payload)
            where = ", ".join(sorted({issue.path or "/" for issue in issues}))
            return Failure("PAYLOAD_INVALID", f"A {draft.type} payload is wrong at {where}"), issues
        if draft.apart:
            draft.payload, moved = _move_apart(draft.payload, draft.apart)
            draft.blobs = (*draft.blobs, *moved)
            encoded = json.canonical(draft.payload)
        if len(encoded) > MAX_INLINE_BYTES and not _is_delta(draft):
            draft.payload, moved = _move_large_values_out(draft.payload)
            draft.blobs = (*draft.blobs, *moved)
            encoded = json.canonical(draft.payload)
        if len(encoded) > MAX_PAYLOAD_BYTES:
            return Failure("PAYLOAD_TOO_LARGE", f"A {draft.type} payload is over {MAX_PAYLOAD_BYTES} bytes."), []
        draft.encoded, draft.checked = encoded, True
        return None, []

    def _with_narration(self, drafts: list[Draft], narrator: Narrator) -> list[Draft]:
        """Each sentence follows the event it is about and names it; a run's end has none."""
        narrated: list[Draft] = []
        for draft in drafts:
            narrated.append(draft)
            sentence = _sentence(draft, narrator)
            if sentence is not None:
                narration = log.ProgressNarration(
                    message=sentence,
                    provider=narrator.provider,
                    style=narrator.style,
                    source_event_types=[draft.type],
                    source_event_ids=[draft.id],
                )
                words = Draft(narration.type, narration.to_json(), draft.run_id, parent_id=draft.id, at=draft.at)
                if _encode(words) and self._prepare(words, self._redactor.suspects(words.encoded))[0] is None:
                    narrated.append(words)
        return narrated

    async def _refuse(self, scope: Scope, draft: Draft, failure: Failure, issues: list[Issue]) -> Answer:
        """A refusal is a fact of the run it happened in; without a run there is nowhere to record it."""
        run_id = draft.run_id
        if run_id is None:
            return Refused(failure)
        payload = policy.SchemaViolated(
            schema_name=schema_id(draft.type)[:200],
            boundary="event",
            code=failure.code,
            issues=[IssueValue(path=issue.path, message=issue.message) for issue in issues],
        )
        notice = Draft(payload.type, payload.to_json(), run_id=run_id, at=draft.at)
        notice.encoded = json.canonical(notice.payload)
        await self._log.append(Command(scope.tenant, scope.thread_id, [notice], (), scope.fence))
        return Refused(failure)


def _draft(scope: Scope, entry: Payload | PayloadEntry | Draft) -> Draft:
    # By its class: `isinstance` costs several times as much where the answer is no, as it nearly always is here.
    if type(entry) is Draft:
        return entry
    if type(entry) is PayloadEntry:
        return _draft_of_entry(scope, entry)
    traits = _TRAITS.get(type(entry))
    if traits is None:
        traits = _TRAITS[type(entry)] = entry.type, entry.of_thread, entry.screened, entry.prevalidated
    name, of_thread, screened, prevalidated = traits
    document = entry.to_json()
    return Draft(name, document, None if of_thread else scope.run_id, scope.actor, None, screened, prevalidated)


def _draft_of_entry(scope: Scope, entry: PayloadEntry) -> Draft:
    payload = entry.payload
    return Draft(
        payload.type,
        payload.to_json(),
        None if payload.of_thread else entry.run_id or scope.run_id,
        entry.actor or scope.actor,
        entry.parent_id,
        blobs=entry.blobs,
        apart=entry.apart,
        # What goes apart goes through the preparation that others may skip.
        prevalidated=payload.prevalidated and not entry.apart,
    )


def _sentence(draft: Draft, narrator: Narrator) -> str | None:
    if draft.run_id is None or draft.type in request.TERMINAL:
        return None
    with contextlib.suppress(Exception):  # whatever a narrator does, the run goes on without its words
        return narrator.narrate(draft.type, draft.payload)
    return None


def _encode(draft: Draft) -> bool:
    """Whether it can be."""
    try:
        draft.encoded = json.canonical(draft.payload)
    except json.JsonError:
        return False
    return True


def _is_delta(draft: Draft) -> bool:
    return draft.type == adapter.AdapterEvent.type and draft.payload["event"]["phase"] in adapter.DELTAS


def _move_large_values_out(payload: dict[str, Any]) -> tuple[dict[str, Any], tuple[BlobDraft, ...]]:
    blobs: list[BlobDraft] = []
    slim = {key: _slim(value, blobs) for key, value in payload.items()}
    return slim, tuple(blobs)


def _move_apart(payload: dict[str, Any], names: Sequence[str]) -> tuple[dict[str, Any], tuple[BlobDraft, ...]]:
    blobs: list[BlobDraft] = []
    slim = dict(payload)
    for path in names:
        *outer, name = path.split(".")
        holder = slim
        for step in outer:
            holder[step] = holder = dict(holder[step])
        value = holder.get(name)
        if isinstance(value, str) and value:
            holder[name] = _refer(value.encode(), "text/plain; charset=utf-8", blobs)
        elif value and not isinstance(value, str):
            holder[name] = _refer(json.canonical(value), "application/json", blobs)
    return slim, tuple(blobs)


def _slim(value: Any, blobs: list[BlobDraft]) -> Any:
    """Leaves first, so that a small record around a large text stays readable in the log."""
    if isinstance(value, str):
        data = value.encode()
        return value if len(data) <= MAX_INLINE_BYTES else _refer(data, "text/plain; charset=utf-8", blobs)
    if isinstance(value, dict) and "$blob" not in value:
        value = {key: _slim(item, blobs) for key, item in value.items()}
    elif isinstance(value, list):
        value = [_slim(item, blobs) for item in value]
    else:
        return value
    data = json.canonical(value)
    return value if len(data) <= MAX_INLINE_BYTES else _refer(data, "application/json", blobs)


def _refer(data: bytes, mime: str, blobs: list[BlobDraft]) -> dict[str, Any]:
    digest = sha256(data).hexdigest()
    blobs.append(BlobDraft(digest, data, mime))
    return {"$blob": {"sha256": digest, "size": len(data), "mime": mime}}

"""The life of threads: create, change, fork, delete, and rows that clients add to a transcript.

Each is one command to the log, so that concurrent callers never lose each other's work. Leaves to others: runs (the
service), reading (the store's reader), status codes and other spellings (the protocols).
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final

from app.core import json
from app.core.errors import Failure
from app.core.ids import new_id
from app.core.principal import Principal
from app.core.value import value
from app.events import ports
from app.events.blobs import references, restored
from app.events.catalog import Payload, execution, request
from app.events.catalog import thread as facts
from app.events.catalog.interrupt import InterruptExpired
from app.events.envelope import Event
from app.events.ports import Appended, Condition, Refused
from app.events.recorder import MAX_INLINE_BYTES, PayloadEntry, Recorder, Scope
from app.runtime.intake.rejection import SYSTEM_THREADS, Rejected
from app.runtime.job_events import job_ended
from app.runtime.run.inlined import inline, stored_blobs
from app.runtime.scheduler import Scheduler
from app.views.amendments import AMENDED
from app.views.controls import PROJECT
from app.views.forked import states, taken_over
from app.views.history import history
from app.views.ports import Reader, Tombstone
from app.views.run import ACTIVE, Run
from app.views.thread import Thread
from app.views.transcript import Entry

MAX_ACTIVE_RUNS: Final = 1000
"""How many active runs a deletion ends; more than a thread's queue holds together with their children."""
_TRIES: Final = 20
"""Deletions that meet a run which just ended or began look again; each time somebody else got something done."""
_UPSERTS: Final = 64
"""Rows are upserted one after the other by their hash; this many of them at once."""
_PAGE: Final = 1000


@value(frozen=True, slots=True)
class NewThread:
    id: str | None = None
    """None makes one up."""
    title: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)


@value(frozen=True, slots=True)
class ThreadChange:
    """Only what is given changes. Keys of `metadata` and `labels` are merged; a null removes its key."""

    title: str | None = None
    metadata: Mapping[str, Any] | None = None
    labels: Mapping[str, str | None] | None = None
    archived: bool | None = None


class Threads:
    def __init__(self, recorder: Recorder, reader: Reader, scheduler: Scheduler) -> None:
        self._recorder, self._reader, self._scheduler = recorder, reader, scheduler
        self._upserting = [asyncio.Lock() for _ in range(_UPSERTS)]

    async def create(self, who: Principal, new: NewThread) -> Thread | Rejected:
        if new.id is not None and new.id.startswith(SYSTEM_THREADS):
            return _reserved()
        thread_id = new.id or new_id("thread")
        created = facts.ThreadCreated(title=new.title, metadata=dict(new.metadata), labels=dict(new.labels))
        return await self._append(who, thread_id, created, conditions=[ports.ThreadIsNew()])

    async def update(self, who: Principal, thread_id: str, change: ThreadChange) -> Thread | Rejected:
        if thread_id.startswith(SYSTEM_THREADS):
            return _reserved()
        payload = facts.ThreadUpdated(
            title=change.title,
            metadata=None if change.metadata is None else dict(change.metadata),
            labels=None if change.labels is None else dict(change.labels),
            archived=change.archived,
        )
        found = await self._existing(who.tenant, thread_id)
        if isinstance(found, Rejected) or not payload.to_json():
            return found
        if is_too_large(found.metadata | (payload.metadata or {})):
            return _too_large()
        return await self._append(who, thread_id, payload)

    async def close(self, who: Principal, thread_id: str, reason: str | None = None) -> Thread | Rejected:
        """No new runs; those that it has go on. Closing twice is closing once."""
        found = await self._existing(who.tenant, thread_id)
        if isinstance(found, Rejected) or found.closed:
            return found
        if thread_id.startswith(SYSTEM_THREADS):
            return _reserved()
        return await self._append(who, thread_id, facts.ThreadClosed(reason=reason))

    async def delete(self, who: Principal, thread_id: str, reason: str | None = None) -> Thread | Rejected:
        """Its active runs end in the same commit, so nothing is left that works for a thread nobody can see."""
        found = await self._existing(who.tenant, thread_id)
        if isinstance(found, Rejected):
            return found
        if thread_id.startswith(SYSTEM_THREADS):
            return _reserved()
        scope = Scope(who.tenant, thread_id, actor=who.actor)
        for _ in range(_TRIES):
            active = await self._active(who.tenant, thread_id)
            roots = sum(run.parent_run_id is None for run in active)
            ends = [end for run in active for end in _end(run, who.actor)]
            # Together with ends that are refused for runs which have ended, this fixes the very set of active runs.
            only_these: list[Condition] = [ports.ThreadHasRoom(roots + 1)]
            deleted = facts.ThreadDeleted(reason=reason)
            answer = await self._recorder.record(scope, *ends, deleted, conditions=only_these)
            if isinstance(answer, Appended):
                for run in active:
                    self._scheduler.stop(who.tenant, run.id)
                found.deleted_at = answer.events[-1].at
                return found
            refused = Rejected(answer.failure, answer.winner)
            if answer.failure.code not in ("THREAD_BUSY", "QUEUE_FULL", "RUN_TERMINAL"):
                break
        return refused

    async def fork(
        self, who: Principal, thread_id: str, seq: int | None = None, *, title: str | None = None
    ) -> Thread | Rejected:
        """A new thread that knows what was said up to `seq`, with a log of its own."""
        source = await self._existing(who.tenant, thread_id)
        if isinstance(source, Rejected):
            return source
        if thread_id.startswith(SYSTEM_THREADS):
            return _reserved()
        at = source.last_seq if seq is None else seq
        if not 1 <= at <= source.last_seq:
            return Rejected(
                Failure("INVALID_REQUEST", f"The thread has events 1 to {source.last_seq}; there is no seq {at}.")
            )
        events = await self._events(who.tenant, thread_id, at)
        load = stored_blobs(self._reader, who.tenant, thread_id)
        whole = [await inline(event, load) for event in events]
        if source.amended > at:  # what was said before the fork and amended after it
            later = await self._reader.events_of(who.tenant, thread_id, (AMENDED,), at, source.amended, _PAGE)
            whole += [await inline(event, load) for event in later if event.payload["amendsSeq"] <= at]
        turns, transcript = taken_over(thread_id, whole)
        messages = history(whole)
        media = dict.fromkeys(reference["sha256"] for reference in references(messages))
        shared = [ports.BlobShared(digest) for digest in media if await self._has_blob(who.tenant, thread_id, digest)]
        forked = facts.ThreadForked(
            thread_id=thread_id,
            seq=events[-1].seq,  # `at` itself may be a delta that retention dropped
            hash=events[-1].hash,
            history=messages,
            turns=turns or None,
            transcript=transcript or None,
            states=await restored(states(whole), load) or None,
            title=title or source.title,
            # Which project a thread belongs to is stated by an event of its own.
            metadata={key: value for key, value in source.metadata.items() if key != PROJECT},
            labels=source.labels,
        )
        return await self._append(who, new_id("thread"), forked, conditions=[ports.ThreadIsNew(), *shared])

    async def set_state(self, who: Principal, thread: Thread, update: facts.ThreadStateUpdated) -> Event | Rejected:
        """What the next run begins with, as it follows from `thread`: refused if anything has happened there since."""
        if thread.id.startswith(SYSTEM_THREADS):
            return _reserved()
        scope = Scope(who.tenant, thread.id, actor=who.actor)
        unchanged: list[Condition] = [ports.ThreadAccepts(), ports.ThreadIdleSince(thread.updated_at)]
        answer = await self._recorder.record(scope, update, conditions=unchanged)
        return Rejected(answer.failure, answer.winner) if isinstance(answer, Refused) else answer.events[0]

    async def roll_back(self, who: Principal, thread_id: str, turns: int) -> Thread | Rejected:
        """Takes the thread's newest turns out of the conversation; of a fork only its own. None may be active."""
        found = await self._existing(who.tenant, thread_id)
        if isinstance(found, Rejected):
            return found
        if thread_id.startswith(SYSTEM_THREADS):
            return _reserved()
        gone = await self._rolled_back(who.tenant, thread_id, found.last_seq)
        kept = [
            run
            for run in await self._reader.runs(
                who.tenant, thread_id=thread_id, status=None, before=None, limit=MAX_ACTIVE_RUNS
            )
            if run.parent_run_id is None and run.id not in gone
        ]
        newest = sorted(kept, key=lambda run: run.first_seq, reverse=True)[:turns]
        if len(newest) < turns:
            message = f"The conversation has {len(newest)} turns that can be taken out."
            return Rejected(Failure("INVALID_REQUEST", message))
        event = facts.ThreadRolledBack(turns=[run.id for run in newest], seqs=[run.first_seq for run in newest])
        return await self._append(who, thread_id, event, conditions=[ports.ThreadHasRoom(1)])

    async def _rolled_back(self, tenant: str, thread_id: str, up_to: int) -> set[str]:
        types = (facts.ThreadRolledBack.type,)
        events = await self._reader.events_of(tenant, thread_id, types, 0, up_to, _PAGE)
        return {turn for event in events for turn in event.payload["turns"]}

    async def _has_blob(self, tenant: str, thread_id: str, digest: str) -> bool:
        """A client may have sent anything that looks like a reference."""
        return await self._reader.blob_size(tenant, thread_id, digest) is not None

    async def upsert(
        self, who: Principal, thread_id: str, row: facts.TranscriptUpserted, conditions: Sequence[Condition] = ()
    ) -> Entry | Rejected:
        """Adds or changes a row of the transcript; answers the row as it stands then.

        The event has the merged row, so that a subscriber needs nothing else. Folding it again changes nothing.
        """
        async with self._upserting[hash((who.tenant, thread_id, row.message_id)) % len(self._upserting)]:
            known = await self._reader.entry(who.tenant, thread_id, row.message_id)
            merged = row if known is None else _merge(known, row)
            scope = Scope(who.tenant, thread_id, actor=who.actor)
            answer = await self._recorder.record(scope, merged, conditions=conditions)
        if isinstance(answer, Refused):
            return Rejected(answer.failure, answer.winner)
        entry = await self._reader.entry(who.tenant, thread_id, row.message_id)
        return entry or Rejected(Failure("THREAD_DELETED", "The thread was deleted."))

    # -- the log -------------------------------------------------------------------------------------

    async def _append(
        self, who: Principal, thread_id: str, payload: Payload, conditions: Sequence[Condition] = ()
    ) -> Thread | Rejected:
        scope = Scope(who.tenant, thread_id, actor=who.actor)
        if payload.type != facts.ThreadForked.type and is_too_large(payload.to_json()):
            return _too_large()
        answer = await self._recorder.record(scope, payload, conditions=conditions)
        if isinstance(answer, Refused):
            return Rejected(answer.failure, answer.winner)
        return await self._existing(who.tenant, thread_id)

    async def _events(self, tenant: str, thread_id: str, up_to: int) -> list[Event]:
        events: list[Event] = []
        after = 0
        while after < up_to and (page := await self._reader.events(tenant, thread_id, after, _PAGE)):
            events += [event for event in page if event.seq <= up_to]
            after = page[-1].seq
        return events

    async def _existing(self, tenant: str, thread_id: str) -> Thread | Rejected:
        found = await self._reader.thread(tenant, thread_id)
        if found is None:
            return Rejected(Failure("THREAD_NOT_FOUND", "There is no such thread."))
        if isinstance(found, Tombstone) or found.deleted_at is not None:
            return Rejected(Failure("THREAD_DELETED", "The thread was deleted."))
        return found

    async def _active(self, tenant: str, thread_id: str) -> list[Run]:
        found: list[Run] = []
        for status in sorted(ACTIVE):
            found += await self._reader.runs(
                tenant, thread_id=thread_id, status=status, before=None, limit=MAX_ACTIVE_RUNS
            )
        # Children before their parents: the last word of a run is its own.
        return sorted(found, key=lambda run: run.first_seq, reverse=True)


def _end(run: Run, by: str) -> list[PayloadEntry]:
    """What ends a run that nobody will see any more, and the questions that it left open."""
    ends: list[Payload] = []
    if run.cancel_requested_at is None:
        ends.append(execution.CommandInjected(command="cancel", command_id=new_id("step")))
    ends += [InterruptExpired(interrupt_id=asked) for asked in run.waiting_on]
    ended = request.RequestCancelled(reason="the thread was deleted", by=by)
    ends += [*job_ended(run, ended), ended]
    return [PayloadEntry(end, run_id=run.id) for end in ends]


def _merge(known: Entry, row: facts.TranscriptUpserted) -> facts.TranscriptUpserted:
    """The row as the fold will have it, for the event itself."""
    merged = replace(known)
    event = Event("", "", "", None, known.position + 1, None, row.type, "", 0, b"", None, "", "", row.to_json())
    merged.apply(event)
    content = merged.content if isinstance(merged.content, str) else row.content
    return row.model_copy(
        update={
            "content": content,
            "status": merged.status,
            "details": merged.details,
            "started_at": merged.started_at,
            "completed_at": merged.completed_at,
        }
    )


def is_too_large(facts_of_a_thread: Mapping[str, Any]) -> bool:
    """They are read with every list of threads; large values belong into messages and files."""
    return len(json.dumps(facts_of_a_thread)) > MAX_INLINE_BYTES


def _too_large() -> Rejected:
    return Rejected(Failure("INVALID_REQUEST", f"Title, metadata and labels exceed {MAX_INLINE_BYTES} bytes."))


def _reserved() -> Rejected:
    return Rejected(
        Failure("THREAD_RESERVED", f"Thread ids that begin with {SYSTEM_THREADS} are reserved for the system.")
    )

"""Candidates become records, or do not: every change of the memory is decided and recorded here, in one commit.

A record's id follows from what proposed it, so that an interrupted run that learns again stores nothing twice. Leaves
to `decisions`: what the policy says; to `forgetting`: removing.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from hashlib import sha256
from typing import Any, Final

from app.core import json
from app.core.clock import Clock, iso
from app.core.errors import Failure, HoldfastError
from app.core.ids import new_id
from app.core.value import mutable
from app.events import ports
from app.events.catalog import Payload
from app.events.catalog.interrupt import InterruptRaised
from app.events.catalog.memory import (
    MemoryRecordChanged,
    MemoryRecordDecided,
    MemoryRecordStored,
    MemoryRecordSuperseded,
    MemoryRecordUsed,
)
from app.events.ports import Condition, Refused
from app.events.recorder import PayloadEntry
from app.events.salted import salted, unsalted
from app.memory.contract import MemoryCandidate, Outcome, RecordTable, RunIdentity, Standing, Submitted
from app.memory.decisions import MAX_RECORD, judged
from app.memory.index_entries import index_entry, slot_key
from app.memory.ranking import USED_EVERY_MS
from app.memory.record_log import RecordLog
from app.memory.terms import fingerprint, has_terms
from app.views.memory_record import MemoryRecord
from app.workspace.compiled import CompiledMemory
from app.workspace.namespaces import filled, has_variable

PERSON_MS: Final = 30 * 86_400_000
"""How long a person has to decide about a candidate; then it is dropped."""
_DAY_MS: Final = 86_400_000
_MAX_SOURCES: Final = 20
_TRIES: Final = 3
_WAITING: Final = 100
"""How many of the newest candidates of a namespace that wait for a person are compared with a new one."""

Clean = Callable[[str], tuple[str, bool]]
"""The text without secrets, and whether it had one."""
Check = Callable[[str], Awaitable[str | None]]
"""What guardrails leave of a text; None if they refuse it."""


@mutable(slots=True)
class _Batch:
    """What one submission will append."""

    standing: Standing = field(default_factory=Standing)
    """What is there already."""
    waiting: Mapping[str, MemoryRecord] = field(default_factory=dict)
    """Candidates about which a person is asked, by fingerprint."""
    entries: list[Payload | PayloadEntry] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=list)
    stored: list[tuple[str, str]] = field(default_factory=list)
    """Record id and text of what was accepted, for kinds that index after the commit."""
    by_fingerprint: dict[str, str] = field(default_factory=dict)
    superseded: set[str] = field(default_factory=set)


class Governance:
    def __init__(self, records: RecordLog, table: RecordTable, clock: Clock, clean: Clean) -> None:
        self._log, self._table, self._clock, self._clean = records, table, clock, clean

    # -- candidates ----------------------------------------------------------------------------------

    async def submit(
        self,
        identity: RunIdentity,
        memory: CompiledMemory,
        candidates: Sequence[MemoryCandidate],
        key: str,
        *,
        check: Check | None = None,
        used: Sequence[str] = (),
        namespace: str | None = None,
        supersedes: MemoryRecord | None = None,
        before: Callable[[], None] | None = None,
    ) -> list[Submitted]:
        """What became of each. `key` stands for the whole submission: given again, nothing is stored again.

        `used` are records that the run recalled. `namespace` is the memory's own unless a caller names another.
        `supersedes` is a record whose text is replaced. `before` is called right before anything is appended: what it
        appends itself is stored in the same commit.
        """
        if not candidates and not used:
            return []
        spec = memory.spec
        place = namespace or filled(spec.namespace, spec.type, identity.values(memory.name))
        checked = [await self._checked(one, check) for one in candidates]
        ids = [_record_id(identity.tenant, memory.name, key, number) for number in range(len(checked))]
        entries = [
            None if refused is not None else index_entry(record_id, candidate.text, candidate.slot)
            for record_id, (candidate, refused) in zip(ids, checked, strict=True)
        ]
        wanted = [(entry.fingerprint, entry.slot) for entry in entries if entry is not None]
        for _ in range(_TRIES):
            submitted: list[Submitted] = []
            batch = _Batch(await self._table.standing(identity.tenant, place, [*ids, *used], wanted))
            asks = (judged(one, memory, place).ruling == "ask" for one, refused in checked if refused is None)
            batch.waiting = await self._waiting(identity.tenant, place) if any(asks) else {}
            for entry, (candidate, refused) in zip(entries, checked, strict=True):
                if entry is None:
                    submitted.append(Submitted(memory.name, place, candidate, "rejected", refused or ""))
                else:
                    submitted.append(self._place(batch, identity, memory, place, candidate, entry))
            if supersedes is not None and submitted[0].record_id is not None:
                self._supersede(batch, [supersedes], submitted[0].record_id)
            self._note_used(batch, used)
            if not batch.entries:
                return submitted
            if before is not None:
                before()
            answer = await self._log.append(identity.tenant, batch.entries, batch.conditions, actor=identity.actor)
            if not isinstance(answer, Refused):
                return submitted
            if answer.failure.code != "MEMORY_RECORD_CHANGED":
                raise HoldfastError(answer.failure.code, answer.failure.message)
            # A record changed between reading and writing, or another attempt was quicker: look again.
        raise HoldfastError("MEMORY_RECORD_CHANGED", "The memory record keeps changing.")

    async def _waiting(self, tenant: str, namespace: str) -> dict[str, MemoryRecord]:
        """Looked at only where another question would be asked; their fingerprints are stored nowhere."""
        proposed = await self._table.newest(tenant, namespace, _WAITING, status="proposed")
        stored = await self._table.contents(tenant, [one.digest for one in proposed if one.digest is not None])
        texts = {one.digest: one for one in proposed if one.digest in stored}
        return {fingerprint(unsalted(stored[digest])["text"]): one for digest, one in texts.items() if digest}

    async def _checked(self, candidate: MemoryCandidate, check: Check | None) -> tuple[MemoryCandidate, str | None]:
        text, secret = self._clean(candidate.text.strip()[:MAX_RECORD])
        if secret:
            return candidate, "it contains a secret"
        if not has_terms(text):
            return candidate, "it has no words"
        if candidate.attributes:
            kept, secret = self._clean(json.dumps(dict(candidate.attributes)).decode())
            if secret or len(kept) > candidate.room:
                return candidate, "its attributes contain a secret" if secret else "its attributes are too long"
            candidate = replace(candidate, attributes=json.loads(kept.encode()))
        if check is not None:
            passed = await check(text)
            if passed is None:
                return candidate, "a guardrail refused it"
            text = passed
        return replace(candidate, text=text), None

    def _place(
        self,
        batch: _Batch,
        identity: RunIdentity,
        memory: CompiledMemory,
        namespace: str,
        candidate: MemoryCandidate,
        entry: ports.MemoryIndexed,
    ) -> Submitted:
        record_id = entry.record_id

        def outcome(what: Outcome, why: str, record: str | None = None, interrupt: str | None = None) -> Submitted:
            return Submitted(memory.name, namespace, candidate, what, why, record, interrupt)

        known = batch.standing.known.get(record_id)
        if known is not None:
            stage: Outcome = "asked" if known.interrupt_id is not None else "accepted"
            return outcome(stage, "stored before", record_id, known.interrupt_id)
        judgement = judged(candidate, memory, namespace)
        if judgement.ruling == "reject":
            return outcome("rejected", judgement.reason)
        earlier = batch.by_fingerprint.get(entry.fingerprint)
        if earlier is not None:
            return outcome("merged", "the run said the same twice", earlier)
        same, of_slot = batch.standing.similar(entry.fingerprint, entry.slot)
        if same and memory.spec.type != "working":
            self._merge(batch, same[0], candidate)
            return outcome("merged", "a record says the same", same[0].id)
        waiting = batch.waiting.get(entry.fingerprint) if judgement.ruling == "ask" else None
        if waiting is not None:
            return outcome("merged", "a person is asked about the same already", waiting.id)
        batch.by_fingerprint[entry.fingerprint] = record_id
        interrupt_id = new_id("interrupt") if judgement.ruling == "ask" else None
        reference, blob = salted({"text": candidate.text, "attributes": _attributes(candidate)}, records=(record_id,))
        stored = self._stored(identity, memory, namespace, candidate, record_id, reference, interrupt_id, entry)
        batch.entries.append(PayloadEntry(stored, blobs=(blob,)))
        batch.conditions.append(ports.MemoryIs(record_id))
        if interrupt_id is not None:
            batch.entries.append(self._question(identity, stored, reference, interrupt_id))
            return outcome("asked", judgement.reason, record_id, interrupt_id)
        batch.conditions.append(entry)
        batch.stored.append((record_id, candidate.text))
        self._supersede(batch, of_slot, record_id)
        return outcome("accepted", judgement.reason, record_id)

    def _stored(
        self,
        identity: RunIdentity,
        memory: CompiledMemory,
        namespace: str,
        candidate: MemoryCandidate,
        record_id: str,
        reference: dict[str, Any],
        interrupt_id: str | None,
        entry: ports.MemoryIndexed,
    ) -> MemoryRecordStored:
        spec, days = memory.spec, memory.spec.retention_days
        return MemoryRecordStored.model_validate(
            {
                "record_id": record_id,
                "memory_id": memory.name,
                "namespace": namespace,
                "kind": candidate.kind,
                "status": "accepted" if interrupt_id is None else "proposed",
                "source": candidate.source,
                "content": reference,
                "length": sum(entry.terms.values()),
                "confidence": candidate.confidence,
                "sources": list(candidate.sources[:_MAX_SOURCES]),
                "user": identity.user if has_variable(spec.namespace, spec.type, "user") else None,
                "created_by": identity.actor,
                "run_id": identity.run_id,
                "expires_at": None if days is None else iso(self._clock.now_ms() + days * _DAY_MS),
                "interrupt_id": interrupt_id,
            }
        )

    def _question(
        self, identity: RunIdentity, stored: MemoryRecordStored, reference: dict[str, Any], interrupt_id: str
    ) -> InterruptRaised:
        arguments = {
            "recordId": stored.record_id,
            "memory": stored.memory_id,
            "namespace": stored.namespace,
            "kind": stored.kind,
            "source": stored.source,
            "confidence": stored.confidence,
            "content": reference,
            "runId": identity.run_id,
            "threadId": identity.thread_id,
        }
        return InterruptRaised(
            interrupt_id=interrupt_id,
            kind="approval",
            title=f"May {identity.agent or 'the agent'} remember this?",
            expires_at=iso(self._clock.now_ms() + PERSON_MS),
            arguments=arguments,
            submitted_by=identity.actor,
        )

    def _merge(self, batch: _Batch, into: MemoryRecord, candidate: MemoryCandidate) -> None:
        sources = [*into.sources, *(one for one in candidate.sources if one not in into.sources)][-_MAX_SOURCES:]
        confidence = max(into.confidence, candidate.confidence)
        if sources != into.sources or confidence != into.confidence:
            changed = MemoryRecordChanged(record_id=into.id, sources=sources, confidence=confidence)
            batch.entries.append(changed)
            batch.conditions.append(ports.MemoryIs(into.id, frozenset({"accepted"})))

    def _supersede(self, batch: _Batch, older: Sequence[MemoryRecord], by: str) -> None:
        for record in older:
            if record.id != by and record.id not in batch.superseded:
                batch.superseded.add(record.id)
                batch.entries.append(MemoryRecordSuperseded(record_id=record.id, by=by))
                batch.conditions += [
                    ports.MemoryIs(record.id, frozenset({"accepted"})),
                    ports.MemoryUnindexed((record.id,)),
                ]

    def _note_used(self, batch: _Batch, used: Sequence[str]) -> None:
        due = self._clock.now_ms() - USED_EVERY_MS
        for record_id in used:
            record = batch.standing.known.get(record_id)
            in_force = record is not None and record.status == "accepted" and record.id not in batch.superseded
            if record is not None and in_force and record.touched_at < due:
                batch.entries.append(MemoryRecordUsed(record_id=record_id))

    # -- decisions of people ---------------------------------------------------------------------------

    async def decided(
        self, tenant: str, record_id: str, *, accept: bool, by: str, reason: str | None = None
    ) -> tuple[list[Payload], list[Condition]] | Failure:
        """What is to be recorded, in one commit with the answer to the question."""
        record = await self._table.record(tenant, record_id)
        if record is None or record.digest is None:
            return Failure("MEMORY_NOT_FOUND", "There is no such memory record.")
        proposed: Condition = ports.MemoryIs(record_id, frozenset({"proposed"}))
        if not accept:
            denied = MemoryRecordDecided(record_id=record_id, status="rejected", decided_by=by, reason=reason)
            return [denied], [proposed, ports.MemoryUnindexed((record_id,), erase=True)]
        stored = await self._table.contents(tenant, [record.digest])
        if record.digest not in stored:
            return Failure("MEMORY_NOT_FOUND", "The text of this memory record was forgotten.")
        content: Mapping[str, Any] = unsalted(stored[record.digest])
        entry = index_entry(record_id, content["text"], content["attributes"].get("about"))
        standing = await self._table.standing(tenant, record.namespace, (), [(entry.fingerprint, entry.slot)])
        _, of_slot = standing.similar(entry.fingerprint, entry.slot)
        batch = _Batch()
        batch.entries.append(MemoryRecordDecided(record_id=record_id, status="accepted", decided_by=by, reason=reason))
        batch.conditions += [proposed, entry]
        self._supersede(batch, of_slot, record_id)
        return [one for one in batch.entries if isinstance(one, Payload)], batch.conditions

    async def change(
        self, tenant: str, record: MemoryRecord, *, confidence: float | None, expires_at: str | None, by: str
    ) -> Failure | None:
        changed = MemoryRecordChanged(record_id=record.id, confidence=confidence, expires_at=expires_at, changed_by=by)
        allowed = frozenset({"accepted", "proposed"})
        answer = await self._log.append(tenant, [changed], [ports.MemoryIs(record.id, allowed)], actor=by)
        return answer.failure if isinstance(answer, Refused) else None


def _attributes(candidate: MemoryCandidate) -> dict[str, Any]:
    about = slot_key(candidate.slot)
    return {**candidate.attributes, **({"about": about} if about is not None else {})}


def _record_id(tenant: str, memory: str, key: str, number: int) -> str:
    whole = "\x00".join((tenant, memory, key, str(number)))
    return f"mem_{sha256(whole.encode()).hexdigest()[:32]}"

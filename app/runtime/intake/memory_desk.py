"""What clients ask of memory: search, list, put, change, decide, forget, export.

Every call is by a principal and stays within its tenant. Leaves to the memory room: every rule about records; to
`interrupts`: the answer to the question about a candidate.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from app.core.errors import Failure
from app.core.ids import new_id
from app.core.principal import Principal
from app.core.value import value
from app.events.salted import FORGOTTEN
from app.memory.contract import MemoryCandidate, RecordFilter, RunIdentity
from app.memory.maintenance import Maintenance
from app.memory.service import MemoryService
from app.memory.terms import terms
from app.runtime.intake.interrupts import InterruptAnswers, NotAnswered
from app.runtime.intake.memory_items import MemoryItems
from app.runtime.workspaces import CurrentWorkspace
from app.views.memory_record import MemoryRecord, memory_record_json
from app.workspace.compiled import CompiledMemory
from app.workspace.namespaces import filled, has_variable, segment

_FOUND_AT_ONCE: Final = 100
_ROUNDS: Final = 100
"""Of searching and forgetting what was found, until nothing is left."""


@value(frozen=True, slots=True)
class MemoryPlace:
    """Which namespace: by its name, or by what its template needs."""

    memory: str
    namespace: str | None = None
    agent: str | None = None
    user: str | None = None
    thread_id: str | None = None


@value(frozen=True, slots=True)
class NewRecord:
    text: str
    about: str | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    confidence: float = 1.0


@value(frozen=True, slots=True)
class ForgetRequest:
    """One of them; `query` with a place."""

    records: Sequence[str] = ()
    user: str | None = None
    namespace: str | None = None
    place: MemoryPlace | None = None
    query: str | None = None


class MemoryDesk:
    def __init__(
        self,
        memory: MemoryService,
        maintenance: Maintenance,
        workspace: CurrentWorkspace,
        interrupts: InterruptAnswers,
    ) -> None:
        self._memory, self._maintenance = memory, maintenance
        self._workspace, self._interrupts = workspace, interrupts
        self.items = MemoryItems(memory, workspace)

    def declared(self) -> list[CompiledMemory]:
        return sorted(self._workspace.current.memories.values(), key=lambda memory: memory.name)

    async def namespaces(self, who: Principal) -> dict[str, int]:
        return await self._memory.table.counts(who.tenant)

    async def record(self, who: Principal, record_id: str) -> dict[str, Any] | Failure:
        record = await self._memory.table.record(who.tenant, record_id)
        if record is None:
            return _no_record()
        return (await self._shown(who.tenant, [record]))[0]

    async def records(
        self, who: Principal, filter_: RecordFilter, after: int, limit: int
    ) -> tuple[list[dict[str, Any]], int | None]:
        found = await self._memory.table.records(who.tenant, filter_, after, limit)
        return await self._shown(who.tenant, found), found[-1].seq if len(found) == limit else None

    async def search(
        self, who: Principal, place: MemoryPlace, query: str, limit: int
    ) -> list[dict[str, Any]] | Failure:
        located = self._located(who, place)
        if isinstance(located, Failure):
            return located
        memory, namespace, _ = located
        ranked = await self._memory.recollection.search(who.tenant, memory, namespace, query, limit)
        shown = await self._shown(who.tenant, [one.record for one in ranked])
        return [{**one, "score": round(found.score, 6)} for one, found in zip(shown, ranked, strict=True)]

    async def put(self, who: Principal, place: MemoryPlace, new: NewRecord) -> dict[str, Any] | Failure:
        located = self._located(who, place)
        if isinstance(located, Failure):
            return located
        memory, namespace, identity = located
        candidate = MemoryCandidate(
            new.text, memory.spec.type, "operator", new.confidence, new.attributes, slot=new.about
        )
        learned = await self._memory.submit(identity, memory, [candidate], new_id("memory"), namespace=namespace)
        (submitted,) = learned.submitted
        if submitted.record_id is None:
            return Failure("MEMORY_REJECTED", f"The memory did not accept the text: {submitted.reason}.")
        shown = await self.record(who, submitted.record_id)
        if isinstance(shown, Failure):
            return shown
        return {"outcome": submitted.outcome, "reason": submitted.reason, "record": shown}

    async def change(
        self,
        who: Principal,
        record_id: str,
        *,
        text: str | None,
        confidence: float | None,
        expires_at: str | None,
    ) -> dict[str, Any] | Failure:
        """A new text becomes a new record that supersedes this one; the rest changes in place."""
        record = await self._memory.table.record(who.tenant, record_id)
        if record is None or record.status == "forgotten":
            return _no_record()
        changed = record_id
        if text is not None:
            memory = self._workspace.current.memories.get(record.memory)
            if memory is None:
                return _not_declared(record.memory)
            if record.status not in ("accepted", "proposed"):
                message = f"The memory record is {record.status}; change the one that is in force."
                return Failure("MEMORY_RECORD_CHANGED", message)
            replaced = await self._memory.replace(who.tenant, record, memory, text, by=who.actor)
            if isinstance(replaced, Failure):
                return replaced
            changed = replaced
        if confidence is not None or expires_at is not None:
            current = await self._memory.table.record(who.tenant, changed)
            assert current is not None
            failure = await self._memory.governance.change(
                who.tenant, current, confidence=confidence, expires_at=expires_at, by=who.actor
            )
            if failure is not None:
                return failure
        return await self.record(who, changed)

    async def decide(
        self, who: Principal, record_id: str, *, accept: bool, reason: str | None
    ) -> dict[str, Any] | Failure:
        """The answer to the question about a candidate, whoever gives it first."""
        record = await self._memory.table.record(who.tenant, record_id)
        if record is None:
            return _no_record()
        if record.interrupt_id is None or record.status != "proposed":
            return Failure("MEMORY_RECORD_CHANGED", f"The memory record is {record.status}; nobody asks about it.")
        answer: dict[str, Any] = {"decision": "approve" if accept else "deny"}
        if reason is not None:
            answer["reason"] = reason
        answered = await self._interrupts.answer(who, record.interrupt_id, answer)
        return answered.failure if isinstance(answered, NotAnswered) else await self.record(who, record_id)

    async def forget(self, who: Principal, request: ForgetRequest) -> list[str] | Failure:
        forgetting, reason = self._memory.forgetting, "a caller asked for it"
        found: list[MemoryRecord] = []
        if request.user is not None:
            found = await forgetting.forget_all(
                who.tenant, RecordFilter(user=request.user), reason=reason, by=who.actor
            )
        elif request.namespace is not None:
            filter_ = RecordFilter(namespace=request.namespace)
            found = await forgetting.forget_all(who.tenant, filter_, reason=reason, by=who.actor)
        elif request.place is not None and request.query is not None:
            located = self._located(who, request.place)
            if isinstance(located, Failure):
                return located
            memory, namespace, _ = located
            for _ in range(_ROUNDS):
                hits = await self._saying(who.tenant, memory, namespace, request.query)
                gone = await forgetting.forget(who.tenant, hits, reason=reason, by=who.actor)
                found += gone
                if not gone:
                    break
        else:
            known = [await self._memory.table.record(who.tenant, record_id) for record_id in request.records]
            if None in known:
                return _no_record()
            some = [record for record in known if record is not None]
            found = await forgetting.forget(who.tenant, some, reason=reason, by=who.actor)
        await self._memory.trim_indexes(who.tenant, self._workspace.current.memories, found)
        return [record.id for record in found]

    async def _saying(self, tenant: str, memory: CompiledMemory, namespace: str, query: str) -> list[MemoryRecord]:
        """The records that have every word of the query, with what they superseded. A search also finds what has only
        some of them, or is merely near: too little to forget it."""
        recollection, wanted = self._memory.recollection, terms(query).keys()
        ranked = await recollection.search(tenant, memory, namespace, query, _FOUND_AT_ONCE)
        contents = await recollection.contents(tenant, [one.record for one in ranked])
        hits = [one.record for one in ranked if one.record.id in contents]
        hits = [record for record in hits if wanted and wanted <= terms(contents[record.id]["text"]).keys()]
        return await self._memory.forgetting.with_history(tenant, hits) if hits else []

    async def reindex(self, who: Principal) -> dict[str, int]:
        return await self._maintenance.reindex(who.tenant, self._workspace.current.memories)

    async def _shown(self, tenant: str, records: Sequence[MemoryRecord]) -> list[dict[str, Any]]:
        contents = await self._memory.recollection.contents(tenant, records)
        return [memory_record_json(record, contents.get(record.id, FORGOTTEN)) for record in records]

    def _located(self, who: Principal, place: MemoryPlace) -> tuple[CompiledMemory, str, RunIdentity] | Failure:
        memory = self._workspace.current.memories.get(place.memory)
        if memory is None:
            return _not_declared(place.memory)
        user, agent = place.user or who.id, place.agent or self._only_agent(memory.name)
        identity = RunIdentity(who.tenant, agent or "-", user, place.thread_id or "-", None, who.actor)
        if place.namespace is None:
            # A namespace without them would be one that no run reads.
            for name, field_, value in (("agent", "agent", agent), ("thread", "threadId", place.thread_id)):
                if value is None and has_variable(memory.spec.namespace, memory.spec.type, name):
                    message = (
                        f"The namespace of the Memory {memory.name!r} has {{{name}}}: give `{field_}` or `namespace`."
                    )
                    return Failure("INVALID_REQUEST", message)
            return memory, filled(memory.spec.namespace, memory.spec.type, identity.values(memory.name)), identity
        if not place.namespace.startswith(f"{segment(who.tenant)}/"):
            return Failure("INVALID_REQUEST", "A namespace begins with the tenant of the caller.")
        return memory, place.namespace, identity

    def _only_agent(self, memory: str) -> str | None:
        """The agent that has this memory, if no other one has it."""
        having = [agent.name for agent in self._workspace.current.agents.values() if memory in agent.spec.memory]
        return having[0] if len(having) == 1 else None


def _no_record() -> Failure:
    return Failure("MEMORY_NOT_FOUND", "There is no such memory record.")


def _not_declared(name: str) -> Failure:
    return Failure("MEMORY_NOT_DECLARED", f"The workspace has no Memory named {name[:100]!r}.")

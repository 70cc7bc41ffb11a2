"""Memory as runs use it: recall before they plan and finish, learning before they end.

Leaves to others: the parts it is made of (`recollection`, `governance`, `forgetting`) and recording in the run's own
thread (the run's steps).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Final

import structlog

from app.core.clock import Clock
from app.core.errors import Failure, HoldfastError
from app.core.value import value
from app.events.recorder import Recorder
from app.memory.candidates import offered
from app.memory.contract import (
    Embeddings,
    EmbeddingsOf,
    IndexEntry,
    MemoryCandidate,
    MemoryDeps,
    MemoryKind,
    Recalled,
    RecordIndex,
    RecordTable,
    RunIdentity,
    Said,
    Submitted,
    VectorTable,
)
from app.memory.forgetting import Forgetting
from app.memory.governance import Check, Clean, Governance
from app.memory.recollection import Recollection
from app.memory.record_log import RecordLog
from app.views.memory_record import MemoryRecord
from app.views.ports import Reader
from app.workspace.catalog import Kinds
from app.workspace.compiled import CompiledMemory
from app.workspace.namespaces import filled

WORKING_RECORDS: Final = 20
"""Of working memory in one namespace, unless its `config` says otherwise."""
_MAX_RECORDS: Final = "maxRecords"
_TRIMMED_AT_ONCE: Final = 200
_MISSING_AT_ONCE: Final = 2_000
_PUT_AT_ONCE: Final = 100

log = structlog.get_logger("holdfast.memory")


@value(frozen=True, slots=True)
class Learned:
    """What a run offered to one memory."""

    memory: CompiledMemory
    namespace: str
    submitted: Sequence[Submitted]
    indexed_by: str | None = None
    """The kind that was to index it after the commit, if it is one that does."""
    failure: Failure | None = None
    """Why that kind could not. The records are stored; maintenance indexes them later."""


class MemoryService:
    def __init__(
        self,
        recorder: Recorder,
        reader: Reader,
        table: RecordTable,
        clock: Clock,
        clean: Clean,
        kinds: Kinds[MemoryKind],
        deps: MemoryDeps,
        tenant_embeddings: EmbeddingsOf | None = None,
    ) -> None:
        self.table, self._clock, self._kinds, self._deps = table, clock, kinds, deps
        self._tenant_embeddings = tenant_embeddings
        self.log = RecordLog(recorder)
        self.recollection = Recollection(table, clock, self.index_of)
        self.governance = Governance(self.log, table, clock, clean)
        self.forgetting = Forgetting(self.log, table, reader)

    @property
    def vectors(self) -> VectorTable | None:
        return self._deps.vectors

    def index_of(self, memory: CompiledMemory, tenant: str, embeddings: Embeddings | None = None) -> RecordIndex:
        """The tenant pays for embeddings unless a run brings its own."""
        kind = self._kinds.usable(memory.spec.kind)
        if kind is None:
            raise HoldfastError("MEMORY_KIND_GONE", f"The kind of memory {memory.spec.kind!r} is not installed.")
        if embeddings is None and self._tenant_embeddings is not None and memory.spec.embedding is not None:
            embeddings = self._tenant_embeddings(tenant)
        return kind.make(memory, replace(self._deps, embeddings=embeddings))

    def is_transactional(self, memory: CompiledMemory) -> bool:
        kind = self._kinds.usable(memory.spec.kind)
        return kind is not None and kind.transactional

    # -- what runs ask ---------------------------------------------------------------------------------

    async def recall(
        self,
        identity: RunIdentity,
        memories: Sequence[CompiledMemory],
        query: str,
        seen: frozenset[str],
        embeddings: Embeddings | None = None,
    ) -> list[Recalled]:
        return [await self.recollection.recall(identity, memory, query, seen, embeddings) for memory in memories]

    async def learn(
        self,
        identity: RunIdentity,
        memories: Sequence[CompiledMemory],
        said: Said,
        key: str,
        check: Check | None,
        used: Sequence[str],
        embeddings: Embeddings | None = None,
        before: Callable[[], None] | None = None,
    ) -> list[Learned]:
        """Offers what the run said to each memory. Given the same key again, nothing is stored again. `before` is
        called before anything is appended."""
        learned: list[Learned] = []
        for number, memory in enumerate(memories):
            candidates = offered(memory.spec.type, said)
            first_used = used if number == 0 else ()
            learned.append(
                await self.submit(
                    identity,
                    memory,
                    candidates,
                    key,
                    check=check,
                    used=first_used,
                    embeddings=embeddings,
                    before=before,
                )
            )
        return learned

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
        embeddings: Embeddings | None = None,
        before: Callable[[], None] | None = None,
    ) -> Learned:
        place = namespace or filled(memory.spec.namespace, memory.spec.type, identity.values(memory.name))
        submitted = await self.governance.submit(
            identity, memory, candidates, key, check=check, used=used, namespace=place, before=before
        )
        failure = await self.index_later(identity.tenant, memory, submitted, embeddings)
        await self.trim(identity.tenant, memory, place)
        later = None if self.is_transactional(memory) else memory.spec.kind
        return Learned(memory, place, submitted, later, failure)

    async def index_later(
        self,
        tenant: str,
        memory: CompiledMemory,
        submitted: Sequence[Submitted],
        embeddings: Embeddings | None = None,
    ) -> Failure | None:
        """For kinds whose index is not written with the events. What fails is done by maintenance."""
        accepted = {one.record_id for one in submitted if one.outcome == "accepted" and one.record_id is not None}
        if self.is_transactional(memory) or not accepted:
            return None
        found = await self.table.by_id(tenant, sorted(accepted))
        return await self.put(tenant, memory, list(found.values()), embeddings)

    async def put(
        self,
        tenant: str,
        memory: CompiledMemory,
        records: Sequence[MemoryRecord],
        embeddings: Embeddings | None = None,
    ) -> Failure | None:
        contents = await self.recollection.contents(tenant, records)
        entries = [IndexEntry(record, contents[record.id]["text"]) for record in records if record.id in contents]
        try:
            await self.index_of(memory, tenant, embeddings).put(tenant, entries)
        except HoldfastError as error:
            return error.failure
        except Exception as error:  # a kind may come from another package
            log.exception("memory.put_failed", memory=memory.name, kind=memory.spec.kind)
            return Failure("MEMORY_PUT_FAILED", f"The kind {memory.spec.kind} raised {type(error).__name__}.")
        return None

    async def trim(self, tenant: str, memory: CompiledMemory, namespace: str) -> int:
        """The oldest records over the limit are forgotten; how many."""
        limit = memory.spec.config.get(_MAX_RECORDS)
        if limit is None and memory.spec.type == "working":
            limit = WORKING_RECORDS
        if limit is None:
            return 0
        kept = await self.table.newest(tenant, namespace, int(limit) + _TRIMMED_AT_ONCE)
        over = kept[int(limit) :]
        if over:
            gone = await self.forget(tenant, over, reason="over the limit of the memory", by="system")
            await self.trim_indexes(tenant, {memory.name: memory}, gone)
        return len(over)

    async def forget(self, tenant: str, records: Sequence[MemoryRecord], *, reason: str, by: str) -> list[MemoryRecord]:
        return await self.forgetting.forget(tenant, records, reason=reason, by=by)

    async def trim_indexes(
        self, tenant: str, memories: Mapping[str, CompiledMemory], records: Sequence[MemoryRecord]
    ) -> None:
        """Forgets forgotten records also in kinds that have an index of their own."""
        for memory in memories.values():
            own = [record for record in records if record.memory == memory.name]
            if own and not self.is_transactional(memory):
                await self.index_of(memory, tenant).trim(tenant, own)

    def embeddings_in_use(self, tenant: str, memories: Mapping[str, CompiledMemory]) -> list[str]:
        """The identities of the Models by which the memories make vectors now."""
        named = {memory.spec.embedding for memory in memories.values() if memory.spec.embedding is not None}
        if not named or self._tenant_embeddings is None:
            return []
        made = self._tenant_embeddings(tenant)
        return sorted({identity for model in named if (identity := made.identity(model)) is not None})

    async def lacking(self, tenant: str, memory: CompiledMemory) -> list[Sequence[MemoryRecord]]:
        """Pages of records that the memory's own index does not have yet; of a bounded number."""
        index = self.index_of(memory, tenant)
        missing = getattr(index, "missing", None)
        if missing is None:
            return []
        found: list[MemoryRecord] = [
            record for record in await missing(tenant, _MISSING_AT_ONCE) if record.memory == memory.name
        ]
        return [found[start : start + _PUT_AT_ONCE] for start in range(0, len(found), _PUT_AT_ONCE)]

    async def replace(
        self, tenant: str, record: MemoryRecord, memory: CompiledMemory, text: str, *, by: str
    ) -> str | Failure:
        """Another text for a record: a new one, which supersedes it. Its id."""
        key, actor = f"{record.id}:{sha256(text.encode()).hexdigest()}", by
        identity = RunIdentity(tenant, "-", record.user or "-", "-", None, actor)
        content = (await self.recollection.contents(tenant, [record])).get(record.id, {})
        attributes = dict(content.get("attributes", {}))
        slot = attributes.pop("about", None)
        candidate = MemoryCandidate(
            text, record.kind, "operator", record.confidence, attributes, tuple(record.sources), slot
        )
        submitted = await self.governance.submit(
            identity, memory, [candidate], key, namespace=record.namespace, supersedes=record
        )
        if submitted[0].record_id is None:
            return Failure("MEMORY_REJECTED", f"The memory did not accept the text: {submitted[0].reason}.")
        await self.index_later(tenant, memory, submitted)
        return submitted[0].record_id

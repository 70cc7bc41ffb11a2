"""Maintenance of memory: what has expired goes, duplicates become one, indexes are rebuilt.

Each round is recorded on the tenant's memory thread, with counts. It can be interrupted at any point: what is done
stays done, and the next round goes on. Leaves to others: when it runs (wiring's timer).
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import Final

import structlog

from app.core.clock import Clock, iso
from app.core.errors import Failure, HoldfastError
from app.core.value import mutable
from app.events.catalog import Payload
from app.events.catalog.memory import (
    MemoryMaintenanceCompleted,
    MemoryMaintenanceFailed,
    MemoryMaintenanceStarted,
)
from app.events.catalog.values import ErrorValue
from app.events.ports import StoreError
from app.memory.contract import RecordFilter, RecordTable, VectorTable
from app.memory.governance import PERSON_MS
from app.memory.index_entries import index_entry
from app.memory.service import MemoryService
from app.views.memory_record import MemoryRecord
from app.workspace.compiled import CompiledMemory

Work = Callable[[], Awaitable[Counter[str]]]
Lacking = list[tuple[CompiledMemory, Sequence[MemoryRecord]]]

PAGE: Final = 200
_UNCERTAIN: Final = 0.2
"""A record below this confidence that nobody used for so long is forgotten."""
_UNUSED_MS: Final = 180 * 86_400_000
_TRIM_AGAIN_MS: Final = 2 * 86_400_000
"""For so long kinds with an index of their own are reminded of a forgotten record."""

log = structlog.get_logger("holdfast.memory")


@mutable(slots=True)
class _Findings:
    """What a look at all records found."""

    expired: list[MemoryRecord] = field(default_factory=list)
    doubled: list[MemoryRecord] = field(default_factory=list)
    """Those that repeat another in force."""
    forgotten: list[MemoryRecord] = field(default_factory=list)
    """Lately."""


class Maintenance:
    def __init__(
        self, memory: MemoryService, table: RecordTable, clock: Clock, vectors: VectorTable | None = None
    ) -> None:
        self._memory, self._table, self._clock, self._vectors = memory, table, clock, vectors

    async def run(
        self, memories: Mapping[str, CompiledMemory], stop: Callable[[], bool] = lambda: False
    ) -> dict[str, dict[str, int]]:
        """One round for every tenant that has records; what was done, by tenant."""
        done: dict[str, dict[str, int]] = {}
        for tenant in await self._table.tenants():
            if stop():
                break
            counts = await self._due(tenant, memories, stop)
            if counts:
                done[tenant] = counts
        if self._vectors is not None and not stop() and any(one.spec.embedding for one in memories.values()):
            await self._tend_vectors(stop)
        return done

    async def _tend_vectors(self, stop: Callable[[], bool]) -> None:
        """Indexes of vectors are the whole server's, so it is not recorded for a tenant. A failure costs only speed."""
        assert self._vectors is not None
        try:
            made = await self._vectors.tend_vectors(stop)
        except HoldfastError as error:
            log.warning("memory.vector_index_failed", reason=error.failure.message)
        else:
            if made:
                log.info("memory.vectors_indexed", indexes=made)

    async def tenants(self) -> list[str]:
        return await self._table.tenants()

    async def _due(
        self, tenant: str, memories: Mapping[str, CompiledMemory], stop: Callable[[], bool]
    ) -> dict[str, int]:
        """A round that has nothing to do leaves no trace: most have not."""
        found = await self._look(tenant, stop)
        # A server that died between forgetting a record and telling a kind with an index of its own.
        await self._memory.trim_indexes(tenant, memories, found.forgotten)
        unindexed = await self._unindexed(tenant, memories)
        if self._vectors is not None and not unindexed:
            # After a change of the model the old vectors go once the new ones are complete.
            await self._vectors.drop_other_vectors(tenant, self._memory.embeddings_in_use(tenant, memories))
        if not found.expired and not found.doubled and not unindexed:
            return {}

        async def work() -> Counter[str]:
            counts: Counter[str] = Counter()
            for reason, records in (("expired", found.expired), ("duplicate", found.doubled)):
                gone = await self._memory.forget(tenant, records, reason=reason, by="system") if records else []
                await self._memory.trim_indexes(tenant, memories, gone)
                counts[reason] += len(gone)
            counts["indexed"] += await self._index(tenant, memories, unindexed, stop)
            return counts

        return await self._recorded(tenant, "records", work)

    async def _index(
        self, tenant: str, memories: Mapping[str, CompiledMemory], lacking: Lacking, stop: Callable[[], bool]
    ) -> int:
        """Until nothing is lacking: after a change of the model that may be many pages. How many were indexed."""
        done: set[str] = set()
        while lacking:
            for memory, page in lacking:
                if stop():
                    return len(done)  # the next round goes on with what is left
                failure = await self._memory.put(tenant, memory, page)
                if failure is not None:
                    raise HoldfastError(failure.code, failure.message)
                done |= {record.id for record in page}
            left = await self._unindexed(tenant, memories)
            # What an index does not take is tried once a round.
            lacking = [] if all(record.id in done for _, page in left for record in page) else left
        return len(done)

    async def _look(self, tenant: str, stop: Callable[[], bool]) -> _Findings:
        now, found = self._clock.now_ms(), _Findings()
        after = 0
        while not stop() and (page := await self._table.records(tenant, RecordFilter(), after, PAGE)):
            after = page[-1].seq
            left = [record for record in page if record.status != "forgotten"]
            over = {record.id for record in left if self._is_over(record, now)}
            facts = [one for one in left if one.status == "accepted" and one.kind != "working" and one.id not in over]
            repeated = await self._table.repeated(tenant, [record.seq for record in facts]) if facts else set()
            found.expired += [record for record in left if record.id in over]
            found.doubled += [record for record in facts if record.seq in repeated]
            found.forgotten += [
                record for record in page if record.status == "forgotten" and record.updated_at > now - _TRIM_AGAIN_MS
            ]
        return found

    def _is_over(self, record: MemoryRecord, now: int) -> bool:
        if record.expires_at is not None and record.expires_at <= iso(now):
            return True
        if record.status == "proposed":
            # The question about it expired without an answer.
            return record.created_at + PERSON_MS < now
        unused = now - max(record.created_at, record.used_at)
        return record.confidence < _UNCERTAIN and unused > _UNUSED_MS

    async def _unindexed(self, tenant: str, memories: Mapping[str, CompiledMemory]) -> Lacking:
        """For kinds that index after the commit: what they lack."""
        lacking: Lacking = []
        for memory in memories.values():
            if not self._memory.is_transactional(memory):
                lacking += [(memory, page) for page in await self._memory.lacking(tenant, memory)]
        return lacking

    async def reindex(
        self, tenant: str, memories: Mapping[str, CompiledMemory], stop: Callable[[], bool] = lambda: False
    ) -> dict[str, int]:
        """Rebuilds the search index of every record in force, and that of each kind."""

        async def work() -> Counter[str]:
            counts: Counter[str] = Counter()
            after = 0
            while not stop() and (
                page := await self._table.records(tenant, RecordFilter(status="accepted"), after, PAGE)
            ):
                after = page[-1].seq
                contents = await self._memory.recollection.contents(tenant, page)
                for record in page:
                    content = contents.get(record.id)
                    if content is not None:
                        about = content["attributes"].get("about")
                        await self._table.index(tenant, record, index_entry(record.id, content["text"], about))
                        counts["indexed"] += 1
                await self._put_elsewhere(tenant, memories, page)
            return counts

        return await self._recorded(tenant, "index", work)

    async def _put_elsewhere(
        self, tenant: str, memories: Mapping[str, CompiledMemory], page: Sequence[MemoryRecord]
    ) -> None:
        for memory in memories.values():
            own = [record for record in page if record.memory == memory.name]
            if own and not self._memory.is_transactional(memory):
                failure = await self._memory.put(tenant, memory, own)
                if failure is not None:
                    raise HoldfastError(failure.code, failure.message)

    async def _recorded(self, tenant: str, target: str, work: Work) -> dict[str, int]:
        await self._record(tenant, MemoryMaintenanceStarted(target=target))
        try:
            counts = await work()
        except StoreError:
            raise
        except HoldfastError as error:
            await self._record(tenant, MemoryMaintenanceFailed(target=target, error=_error(error.failure)))
            return {}
        except Exception as error:  # a kind may come from another package
            log.exception("memory.maintenance_failed", tenant=tenant)
            failure = Failure("MEMORY_PUT_FAILED", f"Maintenance raised {type(error).__name__}.")
            await self._record(tenant, MemoryMaintenanceFailed(target=target, error=_error(failure)))
            return {}
        made = {name: count for name, count in counts.items() if count}
        completed = MemoryMaintenanceCompleted(target=target, operation_count=sum(made.values()), counts=made)
        await self._record(tenant, completed)
        return made

    async def _record(self, tenant: str, payload: Payload) -> None:
        await self._memory.log.append(tenant, [payload])


def _error(failure: Failure) -> ErrorValue:
    return ErrorValue(code=failure.code, message=failure.message, retryable=failure.retryable)

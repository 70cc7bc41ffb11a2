"""Memory over an open store: the service that runs and clients use."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any, Final

from app.core.clock import Clock
from app.core.errors import Failure
from app.core.principal import Principal
from app.events.catalog.memory import MEMORY_THREAD, MemoryEmbeddingCompleted
from app.events.ports import StoreError
from app.memory.contract import EmbeddingsOf, MemoryDeps
from app.memory.maintenance import Maintenance
from app.memory.record_log import RecordLog
from app.memory.service import MemoryService
from app.models.embeddings import Embedder
from app.policy.guardrails.secret_patterns import SECRETS
from app.policy.redaction import CurrentRedaction
from app.runtime.intake.interrupts import Follows
from app.runtime.intake.skill_desk import SkillDesk
from app.runtime.run.budgets import BudgetAccounts, Spent, Used
from app.runtime.run.embedding_calls import EmbeddingCalls
from app.runtime.workspaces import CurrentWorkspace
from app.store.memory import MemoryTable
from app.store.memory_pgvector import PgVector
from app.store.reader import StoreReader
from app.views.interrupt import Interrupt
from app.wiring.kinds import memories
from app.wiring.store import Store
from app.workspace.specs.base import Limits

MAINTENANCE_SECONDS: Final = 3600.0
_FIRST_SECONDS: Final = 60.0
"""After the start, when the server has other things to do."""

_LATEST: Final = 2**62
_PAGE: Final = 1_000

_MARKS: Final = tuple(f"[REDACTED:{kind}]" for kind in (*SECRETS, "secret"))


def open_memory(
    store: Store, clock: Clock, redaction: CurrentRedaction, tenant_embeddings: EmbeddingsOf | None = None
) -> MemoryService:
    def clean(text: str) -> tuple[str, bool]:
        cleaned = redaction.text(text)
        # Also where it was redacted on the way here: what is left of such a text is worth nothing.
        return cleaned, any(mark in cleaned for mark in _MARKS)

    url = store.settings.database_url
    table = MemoryTable(store.database, PgVector(url) if url is not None else None)
    deps = MemoryDeps(table, clock, vectors=table)
    return MemoryService(store.recorder, store.reader, table, clock, clean, memories(), deps, tenant_embeddings)


def make_maintenance(memory: MemoryService, clock: Clock) -> Maintenance:
    return Maintenance(memory, memory.table, clock, memory.vectors)


class TenantEmbeddings:
    """Embeddings that no run asked for: searches of clients, and maintenance. Paid from the tenant's day, by the Models
    of the workspace as it is now, and recorded on the tenant's memory thread."""

    def __init__(
        self, embedder: Embedder, workspace: CurrentWorkspace, budgets: BudgetAccounts, records: RecordLog, tenant: str
    ) -> None:
        self._embedder, self._workspace, self._budgets = embedder, workspace, budgets
        self._records, self._tenant = records, tenant

    def identity(self, model: str) -> str | None:
        return EmbeddingCalls(self._embedder, self._workspace.current.models, None, self._tenant).identity(model)

    async def embed(self, model: str, texts: Sequence[str]) -> list[bytes] | Failure:
        workspace = self._workspace.current
        daily = workspace.runtime.budgets.tenant
        budget = await self._budgets.of(self._tenant, Limits(), None, Used(), daily)
        calls = EmbeddingCalls(self._embedder, workspace.models, budget, self._tenant)
        made = await calls.embed(model, texts)
        if calls.spent:
            with contextlib.suppress(StoreError):  # it counts all the same, and a search needs no room on the disk
                await self._records.append(self._tenant, calls.taken())
        return made


def spent_since(reader: StoreReader) -> Spent:
    """What a tenant's runs have used, and what its memory used outside of them."""

    async def spent(tenant: str, since: int) -> tuple[int, float]:
        tokens, cost = await reader.spent_since(tenant, since)
        after, types = 0, [MemoryEmbeddingCompleted.type]
        while page := await reader.events_of(tenant, MEMORY_THREAD, types, after, _LATEST, _PAGE):
            after = page[-1].seq
            for event in page:
                if event.at >= since:
                    tokens += event.payload["usage"].get("inputTokens", 0)
                    cost += event.payload["usage"].get("costUsd", 0.0)
        return tokens, cost

    return spent


async def candidate_decision(
    memory: MemoryService, who: Principal, asked: Interrupt, answer: dict[str, Any]
) -> Follows | Failure:
    """What an answer to the question about a candidate makes of it, recorded in one commit with the answer."""
    if asked.thread_id != MEMORY_THREAD or not isinstance(asked.arguments, dict):
        return (), ()
    return await memory.governance.decided(
        who.tenant,
        str(asked.arguments["recordId"]),
        accept=answer["decision"] == "approve",
        by=who.actor,
        reason=answer.get("reason"),
    )


async def maintain_hourly(
    maintenance: Maintenance, skills: SkillDesk, workspace: CurrentWorkspace, stopping: asyncio.Event
) -> None:
    """Trims, merges and indexes what is due, and looks for skills that runs suggest: a minute after the start and every
    hour, for workspaces with a memory."""
    pause = _FIRST_SECONDS
    while not stopping.is_set():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await stopping.wait()
        pause = MAINTENANCE_SECONDS
        memories = workspace.current.memories
        if memories and not stopping.is_set():
            with contextlib.suppress(StoreError):
                await maintenance.run(memories, stopping.is_set)
                for tenant in await maintenance.tenants():
                    await skills.record_new(tenant, stopping.is_set)

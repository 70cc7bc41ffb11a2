"""What runs work with: tools, models, memory, budgets, and the services that bundle them."""

import contextlib
from collections.abc import AsyncIterator
from functools import partial

from app.core.clock import Clock
from app.core.value import value
from app.evals.declared import Gates
from app.memory.record_log import RecordLog
from app.memory.service import MemoryService
from app.models.call_places import CallPlaces
from app.models.embeddings import Embedder
from app.models.router import ModelRouter
from app.models.shared_limits import SharedLimits
from app.runtime.intake.mcp_logins import McpLogins
from app.runtime.run.budgets import BudgetAccounts
from app.runtime.run.memory_tools import RunMemoryTools
from app.runtime.run.run_memory import RunMemories
from app.runtime.run.steps import RunServices
from app.runtime.run.toolsets import Toolsets
from app.store.blobs import Blobs
from app.store.mcp_grants import McpGrantTable
from app.store.shared_limits import ModelLimitRecords, TenantDays
from app.tools.grants import GrantVault
from app.wiring.foundation import Foundation, closing
from app.wiring.kinds import (
    ToolMakers,
    embedder,
    make_gates,
    make_guardrails,
    make_hooks,
    mcp_login,
    model_router,
)
from app.wiring.memory import (
    TenantEmbeddings,
    open_memory,
    spent_since,
)
from app.wiring.store import Store


@value(frozen=True, slots=True)
class RunParts:
    toolsets: Toolsets
    router: ModelRouter
    budgets: BudgetAccounts
    gates: Gates
    embedder: Embedder
    memory: MemoryService
    mcp_logins: McpLogins
    services: RunServices


@contextlib.asynccontextmanager
async def open_run_parts(base: Foundation) -> AsyncIterator[RunParts]:
    settings, store, clock, client = base.settings, base.store, base.clock, base.client
    workspace, redaction = base.workspace, base.redaction
    async with contextlib.AsyncExitStack() as parts:
        tools = await parts.enter_async_context(closing(ToolMakers(settings, clock, client)))
        tools.grants = vault = GrantVault(McpGrantTable(store.database), base.signer)
        login = partial(mcp_login, client, clock)
        logins = McpLogins(base.ledger, vault, base.signer, clock, lambda: workspace.current, login)
        toolsets = await parts.enter_async_context(
            closing(Toolsets(tools.build, partial(make_hooks, settings, clock), make_guardrails))
        )
        shared = await parts.enter_async_context(_shared_limits(store, clock))
        router = model_router(settings, clock, client, shared)
        days = TenantDays(store.database) if settings.is_postgres else None
        gates, budgets = make_gates(), BudgetAccounts(clock, spent_since(store.reader), days)
        embeds = embedder(clock, client, CallPlaces(router.limiter, shared))
        memory_runs = RunMemories()
        pays = partial(TenantEmbeddings, embeds, workspace, budgets, RecordLog(store.recorder))
        memory = open_memory(store, clock, redaction, pays)
        tools.memory = RunMemoryTools(memory, store.recorder, store.reader, base.history, memory_runs)
        services = RunServices(
            store.recorder,
            store.reader,
            clock,
            router,
            Blobs(store.database),
            budgets,
            redaction,
            settings.data_dir / "files",
            gates=gates,
            memory=memory,
            embedder=embeds,
            memory_runs=memory_runs,
        )
        yield RunParts(toolsets, router, budgets, gates, embeds, memory, logins, services)


@contextlib.asynccontextmanager
async def _shared_limits(store: Store, clock: Clock) -> AsyncIterator[SharedLimits | None]:
    """The limits of models over all servers; a process with a database of its own needs none."""
    if not store.settings.is_postgres:
        yield None
        return
    async with closing(SharedLimits(ModelLimitRecords(store.database), clock)) as shared:
        yield shared

"""What a server does by itself as long as it runs: the executor, purges, maintenance of memories."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from app.core.clock import Clock
from app.events.ports import StoreError
from app.memory.maintenance import Maintenance
from app.outside.sandbox_report import SandboxReport
from app.runtime.intake.skill_desk import SkillDesk
from app.runtime.schedule.delta_expiry import DeltaExpiry
from app.runtime.schedule.effective_settings import EffectiveSettings
from app.runtime.schedule.executor import Executor
from app.runtime.schedule.thread_expiry import ThreadExpiry
from app.runtime.workspaces import CurrentWorkspace
from app.store.compaction import SweepTable
from app.store.idle_threads import IdleThreadReader
from app.store.shared_limits import purge_old_counts
from app.store.vacuum import shrink
from app.wiring.memory import (
    maintain_hourly,
)
from app.wiring.store import Store

PURGE_SECONDS: Final = 3600.0


@contextlib.asynccontextmanager
async def working(
    executor: Executor,
    effective: EffectiveSettings,
    workspace: CurrentWorkspace,
    store: Store,
    clock: Clock,
    sandbox: SandboxReport,
    maintenance: Maintenance,
    skills: SkillDesk,
) -> AsyncIterator[None]:
    """The executor and what goes on next to it; at the end runs are drained."""
    stopping = asyncio.Event()
    executor.start()
    looking = asyncio.create_task(sandbox.look())
    tasks = [
        asyncio.create_task(workspace.watch(stopping)),
        asyncio.create_task(_purge_hourly(store, effective, clock, stopping)),
        asyncio.create_task(maintain_hourly(maintenance, skills, workspace, stopping)),
    ]
    try:
        yield
    finally:
        stopping.set()
        looking.cancel()
        await executor.drain(effective.drain_seconds)
        await asyncio.gather(*tasks, asyncio.wait({looking}))


async def _purge_hourly(store: Store, effective: EffectiveSettings, clock: Clock, stopping: asyncio.Event) -> None:
    """Deletes threads that were not used for long, drops old deltas, and purges what was deleted long enough ago: when
    the server starts, and every hour."""
    expiry = ThreadExpiry(store.recorder, IdleThreadReader(store.database), clock, lambda: effective.threads_days)
    swept = SweepTable(store.database)
    deltas = DeltaExpiry(store.recorder, store.reader, swept, clock, lambda: effective.delta_days)
    while not stopping.is_set():
        with contextlib.suppress(StoreError):
            await expiry.expire(stopping.is_set)
            await deltas.expire(stopping.is_set)
            await store.retention.purge(stopping, effective.deleted_days)
            if store.settings.is_postgres:
                await purge_old_counts(store.database)
            if store.settings.sqlite_vacuum == "incremental" and not store.settings.is_postgres:
                await shrink(store.database, stopping)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PURGE_SECONDS):
                await stopping.wait()

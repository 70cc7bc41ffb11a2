"""Memory over an open store: the service that runs and clients use."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any, Final

from app.core.clock import Clock
from app.core.errors import Failure
from app.core.principal import Principal
from app.events.catalog.memory import MEMORY_THREAD
from app.events.ports import StoreError
from app.memory.contract import Embed, MemoryDeps
from app.memory.maintenance import Maintenance
from app.memory.service import MemoryService
from app.models.config import model_config
from app.models.embeddings import Embedder
from app.policy.guardrails.secret_patterns import SECRETS
from app.policy.redaction import CurrentRedaction
from app.runtime.intake.interrupts import Follows
from app.runtime.intake.skill_desk import SkillDesk
from app.runtime.workspaces import CurrentWorkspace
from app.store.memory import MemoryTable
from app.views.interrupt import Interrupt
from app.wiring.kinds import memories
from app.wiring.store import Store

MAINTENANCE_SECONDS: Final = 3600.0
_FIRST_SECONDS: Final = 60.0
"""After the start, when the server has other things to do."""

_MARKS: Final = tuple(f"[REDACTED:{kind}]" for kind in (*SECRETS, "secret"))


def open_memory(store: Store, clock: Clock, redaction: CurrentRedaction, embed: Embed | None = None) -> MemoryService:
    def clean(text: str) -> tuple[str, bool]:
        cleaned = redaction.text(text)
        return cleaned, cleaned != text and any(mark in cleaned for mark in _MARKS)

    table = MemoryTable(store.database)
    deps = MemoryDeps(table, clock, embed, table)
    return MemoryService(store.recorder, store.reader, table, clock, clean, memories(), deps)


def make_maintenance(memory: MemoryService, store: Store, clock: Clock) -> Maintenance:
    return Maintenance(memory, memory.table, clock, MemoryTable(store.database))


def embed_with(embedder: Embedder, workspace: CurrentWorkspace) -> Embed:
    """Makes embeddings with the models of the workspace as it is now."""

    async def embed(model: str, texts: Sequence[str]) -> list[bytes] | Failure:
        named = workspace.current.models.get(model)
        if named is None:
            return Failure("MODEL_NOT_FOUND", f"The workspace has no Model named {model!r}.")
        return await embedder.embed(model_config(model, named.spec), texts)

    return embed


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

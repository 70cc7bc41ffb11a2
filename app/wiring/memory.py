"""Memory over an open store: the service that runs and clients use."""

from typing import Any

from app.core.clock import Clock
from app.core.errors import Failure
from app.core.principal import Principal
from app.events.catalog.memory import MEMORY_THREAD
from app.memory.contract import MemoryDeps
from app.memory.service import MemoryService
from app.policy.redaction import SECRETS, CurrentRedaction
from app.runtime.intake.interrupts import Follows
from app.store.memory import MemoryTable
from app.views.interrupt import Interrupt
from app.wiring.kinds import memories
from app.wiring.store import Store

_MARKS = tuple(f"[REDACTED:{kind}]" for kind in (*SECRETS, "secret"))


def open_memory(store: Store, clock: Clock, redaction: CurrentRedaction) -> MemoryService:
    def clean(text: str) -> tuple[str, bool]:
        cleaned = redaction.text(text)
        return cleaned, cleaned != text and any(mark in cleaned for mark in _MARKS)

    table = MemoryTable(store.database)
    deps = MemoryDeps(table, clock)
    return MemoryService(store.recorder, store.reader, table, clock, clean, memories(), deps)


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

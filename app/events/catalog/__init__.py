"""Every event type as a frozen model, one module per family; importing this package registers them all."""

from app.events.catalog import (
    adapter,
    artifact,
    execution,
    interrupt,
    job,
    ledger,
    log,
    memory,
    model,
    policy,
    request,
    skill,
    thread,
    tool,
    workflow,
)
from app.events.catalog.base import EVENTS, EventModel, Payload, schema_id, schema_of

__all__ = [
    "EVENTS",
    "EventModel",
    "Payload",
    "adapter",
    "artifact",
    "execution",
    "interrupt",
    "job",
    "ledger",
    "log",
    "memory",
    "model",
    "policy",
    "request",
    "schema_id",
    "schema_of",
    "skill",
    "thread",
    "tool",
    "workflow",
]

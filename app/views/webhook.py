"""A webhook and its deliveries as they are stored and shown. Leaves to `automation`: sending."""

from collections.abc import Sequence
from dataclasses import field
from fnmatch import fnmatchcase
from typing import Any, Final, Protocol

from app.core.clock import iso
from app.core.value import mutable, value
from app.events.catalog import request
from app.events.envelope import Event
from app.views.run import Run

OF_RUNS: Final = "_runs"
"""The id that stands for all URLs that runs of a tenant name. No document can have this name."""


def is_address(named: str) -> bool:
    """Whether a run's `webhook` is a URL; ids and names contain no slash."""
    return "://" in named


@mutable(slots=True)
class Webhook:
    tenant: str
    id: str
    url: str
    events: list[str] = field(default_factory=list)
    """Types, or patterns such as `runtime.job.*`; with none it only gets the runs that name it."""
    description: str | None = None
    agents: list[str] = field(default_factory=list)
    """Only of runs of these agents; with none, of every run."""
    labels: dict[str, str] = field(default_factory=dict)
    """Only of runs that have all of these labels."""
    enabled: bool = True
    disabled_reason: str | None = None
    created_at: int = 0
    updated_at: int = 0
    declared: bool = False
    """By a document of the workspace: it is changed there."""

    def wants(self, event: Event, run: Run | None) -> bool:
        if not self.enabled:
            return False
        if run is not None and run.webhook == self.id and event.type in request.TERMINAL:
            return True
        if not any(fnmatchcase(event.type, pattern) for pattern in self.events):
            return False
        if not self.agents and not self.labels:
            return True
        if run is None or (self.agents and run.agent not in self.agents):
            return False
        return self.labels.items() <= run.labels.items()

    def to_state(self) -> dict[str, Any]:
        return {
            "url": self.url,
            "events": self.events,
            "description": self.description,
            "agents": self.agents,
            "labels": self.labels,
            "enabled": self.enabled,
            "disabled_reason": self.disabled_reason,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
        }


@value(frozen=True, slots=True)
class Delivery:
    """One event for one webhook."""

    id: int
    tenant: str
    webhook_id: str
    event_id: str
    type: str
    body: bytes
    status: str
    attempts: int
    created_at: int
    next_at: int
    failing_since: int | None
    ended_at: int | None
    answer: str | None


class Webhooks(Protocol):
    """The stored webhooks and what is to be sent to them."""

    async def all(self) -> list[tuple[Webhook, bytes]]:
        """Of every tenant, with their sealed secrets."""
        ...

    async def of_tenant(self, tenant: str) -> list[Webhook]: ...

    async def find(self, tenant: str, webhook_id: str) -> tuple[Webhook, bytes] | None: ...

    async def put(self, rows: Sequence[tuple[str, str, str, str, bytes]], now: int) -> None:
        """(tenant, webhook, event id, type, body); one that is there is left as it is."""
        ...

    async def due(self, now: int, unblocked_before: int, limit: int) -> list[Delivery]:
        """The first of each webhook, and those that have failed since before that time, whose time has come."""
        ...

    async def settle(self, delivery: Delivery, status: str, now: int, next_at: int, answer: str) -> None:
        """What became of an attempt."""
        ...

    async def give_up(self, tenant: str, webhook_id: str, now: int, answer: str) -> None:
        """All that is pending for the webhook is dead."""
        ...

    async def purge(self, ended_before: int) -> int:
        """Drop what was delivered or given up before that time; answers how many."""
        ...

    async def deliveries(
        self, tenant: str, webhook_id: str, status: str | None, before: int, limit: int
    ) -> list[Delivery]:
        """Newest first; `_runs` stands for every URL that runs named."""
        ...

    async def again(self, tenant: str, webhook_id: str, delivery_id: int | None, now: int) -> int:
        """Make one delivery pending again, or every dead one; answers how many. `_runs` as in `deliveries`."""
        ...


def webhook_json(it: Webhook) -> dict[str, Any]:
    return {
        "id": it.id,
        "url": it.url,
        "events": it.events,
        "agents": it.agents,
        "labels": it.labels,
        "description": it.description,
        "enabled": it.enabled,
        "disabledReason": it.disabled_reason,
        "declared": it.declared,
        "createdAt": iso(it.created_at),
        "updatedAt": iso(it.updated_at),
    }


def delivery_json(it: Delivery) -> dict[str, Any]:
    return {
        "id": str(it.id),
        "webhookId": it.webhook_id,
        "eventId": it.event_id,
        "type": it.type,
        "status": it.status,
        "attempts": it.attempts,
        "answer": it.answer,
        "createdAt": iso(it.created_at),
        "nextAttemptAt": iso(it.next_at) if it.status == "pending" else None,
        "endedAt": None if it.ended_at is None else iso(it.ended_at),
    }

"""What extensions did with an event, and which of them are loaded."""

from typing import Any, Literal

from app.events.catalog.base import EventModel, Value, event


class ExtensionOutcome(Value):
    """One handler's result in its normal form."""

    kind: Literal["enqueue_result", "action_result", "handler_result", "handler_error"]
    module_name: str
    status: str | None = None
    action_type: str | None = None
    request_id: str | None = None
    idempotency_key: str | None = None
    job: dict[str, Any] | None = None
    details: dict[str, Any] | None = None
    event_type: str | None = None
    error: str | None = None


@event("runtime.extension.handled", of_thread=True)
class ExtensionHandled(EventModel):
    """One pass of an event through all handlers, in their order. An event passes once."""

    event_id: str
    event_type: str
    snapshot_version: int
    results: list[ExtensionOutcome]


@event("runtime.extension.reloaded", of_thread=True)
class ExtensionsReloaded(EventModel):
    """In the ledger: who loaded the extensions again, and how it went. A failed one changed nothing."""

    reload_id: str
    result: Literal["success", "failed"]
    snapshot_before: int
    snapshot_after: int | None = None
    trust_mode: str
    errors: list[dict[str, str]] | None = None
    extensions: list[str]
    origin: dict[str, str] | None = None

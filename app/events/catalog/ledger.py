"""What belongs to no conversation: the workspace, keys and access. Kept in the tenant's ledger thread."""

from typing import Any

from app.events.catalog.base import EventModel, event


@event("runtime.workspace.loaded", of_thread=True, everywhere=True)
class WorkspaceLoaded(EventModel):
    digest: str
    agents: int
    previous_digest: str | None = None
    warnings: list[dict[str, Any]] | None = None


@event("runtime.workspace.rejected", of_thread=True, everywhere=True)
class WorkspaceRejected(EventModel):
    diagnostics: list[dict[str, Any]]
    kept_digest: str | None = None


@event("runtime.workspace.reload.requested", of_thread=True)
class WorkspaceReloadRequested(EventModel):
    """Somebody asked for it; who is the event's actor. The outcome is a loaded or a rejected event."""

    digest: str | None = None
    accepted: bool


@event("runtime.key.created", of_thread=True)
class KeyCreated(EventModel):
    key_id: str
    name: str
    roles: list[str]
    scopes: list[str]
    expires_at: str | None = None


@event("runtime.key.revoked", of_thread=True)
class KeyRevoked(EventModel):
    key_id: str
    reason: str | None = None


@event("runtime.access.denied", of_thread=True)
class AccessDenied(EventModel):
    """Counted per principal and minute, so that nobody can fill the log."""

    principal: str
    code: str
    count: int
    minute: str

"""What belongs to no conversation: the workspace, keys and access. Kept in the tenant's ledger thread."""

from typing import Any, Literal

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


@event("runtime.webhook.changed", of_thread=True, draft=True)
class WebhookChanged(EventModel):
    """A webhook was created, changed, deleted, given a new secret, or disabled because its receiver is gone."""

    webhook_id: str
    change: Literal["created", "updated", "deleted", "rotated", "disabled"]
    host: str | None = None
    reason: str | None = None


@event("runtime.mcp.oauth.completed", of_thread=True, everywhere=True, draft=True)
class McpOAuthCompleted(EventModel):
    """Somebody logged the tenant in to a remote MCP server, or tried to."""

    server: str
    success: bool
    issuer: str | None = None
    scope: str | None = None
    error: str | None = None


@event("runtime.mcp.oauth.ended", of_thread=True, draft=True)
class McpOAuthEnded(EventModel):
    """Somebody logged the tenant out of a remote MCP server."""

    server: str


@event("runtime.schedule.changed", of_thread=True, draft=True)
class ScheduleChanged(EventModel):
    """Somebody created, changed, deleted, paused or resumed a schedule, or asked for a run of it."""

    schedule: str
    change: Literal["created", "changed", "deleted", "paused", "resumed", "run"]


@event("runtime.tenant.entered", of_thread=True)
class TenantEntered(EventModel):
    """Whoever may manage all tenants opened a browser session in this one."""

    principal: str
    from_tenant: str


@event("runtime.access.denied", of_thread=True)
class AccessDenied(EventModel):
    """Counted per principal and minute, so that nobody can fill the log."""

    principal: str
    code: str
    count: int
    minute: str

"""Jobs, schedules, webhooks and their deliveries, and logins to MCP servers."""

from typing import Any, Literal

from app.protocols.http.parameters import RunStatus
from app.protocols.http.shapes.base import Page, Shape
from app.protocols.http.shapes.runs import RunError


class JobAttempt(Shape):
    attempt: int
    started_at: str
    ended_at: str | None
    error: RunError | None


class JobShape(Shape):
    id: str
    """Also the id of its run."""
    type: str
    priority: Literal["interactive", "background"]
    status: RunStatus
    project_id: str | None
    source_session_id: str | None
    serial: bool
    thread_id: str
    agent: str | None
    tool: str | None
    workflow: str | None
    input: Any
    result: Any
    error: RunError | None
    progress: dict[str, Any] | None
    dedupe_key: str | None
    attempt: int
    max_attempts: int
    backoff_seconds: float
    timeout_seconds: float | None
    history: list[JobAttempt]
    not_before: str | None
    next_attempt_at: str | None
    cancel_requested_at: str | None
    metadata: dict[str, Any]
    labels: dict[str, str]
    created_at: str
    started_at: str | None
    finished_at: str | None


class ScheduleShape(Shape):
    name: str
    cron: str | None
    every_seconds: float | None
    at: str | None
    timezone: str
    missed: Literal["skip", "once", "all"]
    overlap: Literal["skip", "queue", "cancel"]
    run: dict[str, Any]
    enabled: bool
    paused: bool
    declared: bool
    last_due_at: str | None
    last_run_id: str | None
    next: list[str]


class SchedulePage(Page[ScheduleShape]):
    pass


class WebhookShape(Shape):
    id: str
    url: str
    events: list[str]
    agents: list[str]
    labels: dict[str, str]
    description: str | None
    enabled: bool
    disabled_reason: str | None
    declared: bool
    """By a document of the workspace, where it is changed."""
    created_at: str
    updated_at: str


class NewWebhookShape(WebhookShape):
    secret: str
    """Shown once."""


class WebhookPage(Page[WebhookShape]):
    pass


class DeliveryShape(Shape):
    id: str
    webhook_id: str
    event_id: str
    type: str
    status: Literal["pending", "delivered", "dead"]
    attempts: int
    answer: str | None
    created_at: str
    next_attempt_at: str | None
    ended_at: str | None


class DeliveryPage(Page[DeliveryShape]):
    pass


class Redelivered(Shape):
    count: int


class JobPage(Page[JobShape]):
    pass


class McpLoginBegun(Shape):
    authorization_url: str
    """Where a person logs in."""
    ticket: str
    """For the second step; it can be read by the server only."""
    expires_at: str


class McpLoginShape(Shape):
    server: str
    issuer: str
    scope: str | None
    expires_at: str | None
    """Of the first token."""
    renewable: bool

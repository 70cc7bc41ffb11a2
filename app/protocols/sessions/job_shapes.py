"""What the routes about jobs and suggested requests answer, as the OpenAPI document shows it."""

from typing import Any, Literal

from app.protocols.http.shapes import Shape


class RunningContext(Shape):
    thread_id: str
    turn_id: str


class SessionJob(Shape):
    id: str
    type: str
    version: int
    project_id: str
    source_session_id: str | None
    priority: Literal["interactive", "background"]
    state: Literal["queued", "running", "completed", "failed", "canceled"]
    dedupe_key: str | None
    payload: dict[str, Any]
    result: Any
    error: str | None
    attempts: int
    max_attempts: int
    created_at: str
    started_at: str | None
    completed_at: str | None
    cancel_requested_at: str | None
    next_attempt_at: str | None
    last_attempt_at: str | None
    running_context: RunningContext


class SessionJobShown(Shape):
    status: Literal["ok"]
    job: SessionJob


class SessionJobList(Shape):
    data: list[SessionJob]


class SessionJobEnded(Shape):
    status: Literal["already_terminal"]
    code: Literal["already_terminal"]
    job_id: str


class SuggestionQueued(Shape):
    status: Literal["queued"]
    job_id: str
    request_key: str | None
    session_id: str
    project_id: str
    dedupe: Literal["enqueued", "already_queued"]


class SuggestionMade(Shape):
    status: Literal["ok", "fallback"]
    session_id: str
    request_key: str | None
    suggestion: str


class SuggestionRefused(Shape):
    status: Literal["no_context"]
    session_id: str
    request_key: str
    message: str


class SuggestionEntry(Shape):
    status: Literal["streaming", "complete", "canceled", "error"]
    suggestion: str | None = None
    error: str | None = None
    updated_at: str


class SuggestionUpserted(Shape):
    status: Literal["ok"]
    session_id: str
    request_key: str
    entry: SuggestionEntry

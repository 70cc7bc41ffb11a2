"""What the routes about the server and about projects answer, as the OpenAPI document shows it.

Like `shapes`, these models make nothing: the tests hold every answer against them.
"""

from typing import Any, Literal

from app.protocols.http.shapes import Shape

# -- the server, and what it has ----------------------------------------------------------------------


class ApiEntry(Shape):
    name: str
    version: str


class ApiHealth(Shape):
    status: Literal["ok"]
    service: str
    codex: dict[str, Any]
    orchestrator_queue: dict[str, Any]
    auth: dict[str, bool]
    timestamp: str


class DiscoveryPage(Shape):
    data: list[dict[str, Any]]
    next_cursor: str | None


class ConfigShown(Shape):
    config: dict[str, Any]
    origins: dict[str, Any]
    layers: list[Any] | None


class ConfigRequirements(Shape):
    requirements: dict[str, list[str]]


class CompactionStarted(Shape):
    status: Literal["ok"]
    session_id: str
    job_id: str


class ReloadDone(Shape):
    status: Literal["ok"]


class NotSupported(Shape):
    status: Literal["error"]
    code: Literal["method_not_supported"]
    message: str
    details: dict[str, Any]


# -- projects -----------------------------------------------------------------------------------------


class ProjectShape(Shape):
    project_id: str
    name: str
    working_directory: str
    created_at: str
    updated_at: str


class ProjectList(Shape):
    data: list[ProjectShape]


class ProjectRenamed(Shape):
    status: Literal["ok"]
    project: ProjectShape


class ProjectCreated(ProjectRenamed):
    orchestration_session: None


class ProjectErased(Shape):
    status: Literal["ok"]
    project_id: str
    unassigned_session_count: int


class ProjectTaken(Shape):
    status: Literal["duplicate_name"]
    project_id: str | None


class ProjectNotEmpty(Shape):
    status: Literal["project_not_empty"]
    project_id: str
    session_count: int


class ProjectSessionState(Shape):
    status: Literal["not_materialized"]
    project_id: str
    session_id: str


class ProjectAgentSession(Shape):
    agent: str | None
    session_id: str
    system_owned: bool


class ProjectAgentSessions(Shape):
    status: Literal["ok"]
    project_id: str
    data: list[ProjectAgentSession]


class ChatsMoved(Shape):
    status: Literal["ok"]
    project_id: str
    destination: Literal["unassigned", "archive"]
    moved_session_count: int
    archived_session_count: int
    already_archived_session_count: int


class ChatsDeleted(Shape):
    status: Literal["ok"]
    project_id: str
    deleted_session_count: int
    skipped_session_count: int


class ProjectAssigned(Shape):
    status: Literal["ok"]
    session_id: str
    project_id: str | None
    previous_project_id: str | None

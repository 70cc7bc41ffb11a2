"""The workspace in force: agents, tools, workflows; and stored files."""

from typing import Any, Literal

from pydantic import Field

from app.protocols.http.shapes.base import Page, Shape


class File(Shape):
    id: str
    name: str
    mime: str
    size: int
    sha256: str
    created_by: str
    created_at: str


class FilePage(Page[File]):
    pass


class ToolShape(Shape):
    name: str
    description: str
    kind: str
    effect: str
    labels: dict[str, str]
    input: dict[str, Any] | None = Field(description="JSON Schema of the arguments; null: its server describes it")
    output: dict[str, Any] | None


class ToolPage(Page[ToolShape]):
    pass


class Agent(Shape):
    name: str
    description: str
    labels: dict[str, str]
    backend: str
    available: bool
    tools: list[str]
    skills: list[str]
    subagents: list[str]


class AgentPage(Page[Agent]):
    pass


class WorkflowShape(Shape):
    name: str
    description: str
    labels: dict[str, str]
    adapter: str
    available: bool
    nodes: int
    input: dict[str, Any] | None
    output: dict[str, Any] | None
    max_visits: int


class WorkflowPage(Page[WorkflowShape]):
    pass


class WorkflowGraph(Shape):
    workflow: str
    adapter: str
    nodes: list[dict[str, Any]]
    edges: list[dict[str, Any]]
    run_id: str | None = None
    status: str | None = None
    order: list[str] | None = None
    """Of a run: the visits that have ended, such as `plan.1`, in order."""


class WorkflowPlan(Shape):
    workflow: str
    adapter: str
    available: bool
    input: dict[str, Any]
    begins: list[str]
    steps: list[dict[str, Any]]
    max_visits: int
    limits: dict[str, Any]
    asks_people: list[str]
    unsafe: list[str]


class Workspace(Shape):
    digest: str | None
    profile: str | None
    loaded_at: str | None
    default_agent: str | None
    agents: list[str]
    models: list[str]
    tools: list[str]
    skills: list[str]
    cli: dict[str, Any]
    diagnostics: list[dict[str, Any]]
    rejected: list[dict[str, Any]] | None
    rejected_at: str | None


class ChangedDocument(Shape):
    kind: str = Field(description="such as `agents` or `tools`")
    name: str
    change: Literal["added", "removed", "changed"]


class ChangedFile(Shape):
    path: str
    change: Literal["added", "removed", "changed"]
    diff: str | None = Field(description="unified; null for a file that is not text, or too long to compare")


class WorkspaceComparison(Shape):
    base: str = Field(description="digest of the older one")
    head: str = Field(description="digest of the newer one")
    documents: list[ChangedDocument] | None = Field(description="null if one of them no longer compiles")
    files: list[ChangedFile]
    truncated: bool = Field(description="whether there is more that changed, or a file without a diff")

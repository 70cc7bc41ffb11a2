"""Events for user interfaces, and what checks of them found."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from app.protocols.http.shapes.base import Page, Shape
from app.protocols.http.shapes.server import BusShape


class UiEventShape(BaseModel):
    """An event of the Lime standard; ids of its scope and references are present where they are known."""

    model_config = ConfigDict(alias_generator=to_camel, extra="allow", defer_build=True)

    id: str
    schema_version: str
    runtime_id: str
    sequence: int = Field(description="the thread's `seq`, or of a run its `runSeq`")
    event_class: str
    kind: str
    status: str
    title: str
    created_at: str
    payload: dict[str, Any] | None = None


class UiEventPage(Page[UiEventShape]):
    pass


class UiState(BaseModel):
    """The projection of UI events; each member is a part that can be read alone."""

    model_config = ConfigDict(alias_generator=to_camel, extra="allow", defer_build=True)

    runtime: dict[str, Any]
    messages: list[dict[str, Any]]
    timeline: list[dict[str, Any]]
    graph: list[dict[str, Any]]
    actions: list[dict[str, Any]]
    hydration: dict[str, Any]


class UiLane(Shape):
    lane: str
    value: Any
    latest_sequence: int | None = None


class UiIssueShape(Shape):
    code: Literal["schema_mismatch", "missing_scope_id", "sequence_gap", "secret_leak_risk", "large_payload_inline"]
    path: str
    message: str


class UiViolationShape(Shape):
    code: str
    event_id: str
    message: str
    scope_id: str | None = None
    turn_id: str | None = None


class UiValidation(Shape):
    valid: bool
    issues: list[UiIssueShape]
    violations: list[UiViolationShape] = Field(description="starts and ends that do not fit together")


class UiCapability(Shape):
    id: str
    status: str
    scope: str
    title: str


class UiCapabilities(Shape):
    schema_version: str
    runtime_id: str
    generated_at: str
    capabilities: list[UiCapability]

    bus: BusShape | None = Field(None, description="between servers on the same Postgres")

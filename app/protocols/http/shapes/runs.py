"""Runs, their usage and what can be undone of them."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from app.events.catalog.request import Mode
from app.protocols.http.parameters import RunStatus
from app.protocols.http.shapes.base import Page, Shape


class RunError(Shape):
    code: str
    message: str
    retryable: bool
    causes: list["RunError"] | None = None


class RunUsage(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, defer_build=True)

    input_tokens: int
    output_tokens: int
    cost_usd: float


class RunShape(Shape):
    id: str
    thread_id: str
    agent: str | None
    tool: str | None
    workflow: str | None
    mode: Mode | None
    status: RunStatus
    input: Any
    output: Any
    output_parts: list[dict[str, Any]] | None
    error: RunError | None
    parent_run_id: str | None
    rerun_of: str | None
    undo_of: str | None
    priority: Literal["interactive", "background"] | None
    metadata: dict[str, Any]
    labels: dict[str, str]
    usage: RunUsage
    waiting_on: list[str]
    cancel_requested_at: str | None
    last_seq: int
    workspace_digest: str | None
    created_at: str
    started_at: str | None
    finished_at: str | None


class RunPage(Page[RunShape]):
    pass


class TodoShape(Shape):
    id: str
    title: str
    status: Literal["pending", "in_progress", "blocked", "done"]
    owner: str


class TodoPage(Page[TodoShape]):
    pass


class UndoCheckpoint(Shape):
    label: str
    seq: int


class UndoCompensation(Shape):
    tool: str
    arguments: dict[str, Any]


class UndoReason(Shape):
    code: str
    message: str


class UndoActionShape(Shape):
    call_id: str
    run_id: str
    tool: str
    seq: int
    status: Literal["planned", "impossible", "undone"]
    compensation: UndoCompensation | None
    reason: UndoReason | None


class UndoPlanShape(Shape):
    run_id: str
    from_checkpoint: UndoCheckpoint | None
    plan_hash: str
    actions: list[UndoActionShape]

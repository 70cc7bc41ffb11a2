"""Threads: their events, messages, questions to people, and the chain."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.protocols.http.shapes.base import Page, Shape


class ChainBreak(Shape):
    seq: int = Field(description="the first event that does not fit")
    reason: str


class ChainVerification(Shape):
    thread_id: str
    intact: bool
    events: int = Field(description="how many were checked")
    dropped: int = Field(description="deltas of completed messages that retention dropped, which the chain explains")
    last_seq: int
    head_hash: str | None = Field(description="of the last event; null when the chain is broken")
    broken: ChainBreak | None


class EventShape(Shape):
    id: str
    thread_id: str
    run_id: str | None
    seq: int
    run_seq: int | None
    type: str
    actor: str
    at: str
    payload: dict[str, Any]
    parent_id: str | None
    prev_hash: str
    hash: str


class StreamEnd(Shape):
    """The data of `event: end`: nothing follows."""

    seq: int
    type: str | None = None
    run_id: str | None = None
    thread_id: str | None = None


class StreamProblem(Shape):
    """The data of `event: problem`: the stream stops here; connect again with the last `seq`."""

    code: str
    message: str
    remedy: str
    last_seq: int | None = None


class EventPage(Page[EventShape]):
    pass


class ForkedFrom(Shape):
    thread_id: str
    seq: int
    hash: str


class ThreadShape(Shape):
    id: str
    title: str | None
    status: Literal["idle", "busy", "waiting", "closed"]
    archived: bool
    metadata: dict[str, Any]
    labels: dict[str, str]
    forked_from: ForkedFrom | None
    last_seq: int
    created_at: str
    updated_at: str


class ThreadPage(Page[ThreadShape]):
    pass


class InterruptShape(Shape):
    id: str
    thread_id: str
    run_id: str | None
    kind: Literal["approval", "question", "external", "recovery", "paused", "timer"]
    status: Literal["open", "resolved", "expired"]
    title: str
    tool: str | None
    call_id: str | None
    arguments: Any
    argument_hash: str | None
    approver: str | None
    questions: list[dict[str, Any]] | None
    expires_at: str
    answer: dict[str, Any] | None
    answered_by: str | None
    created_at: str


class InterruptPage(Page[InterruptShape]):
    pass


class SimilarInterrupt(Shape):
    interrupt: InterruptShape | None = Field(description="null: this is the first one for its tool")


class EntryShape(Shape):
    message_id: str
    turn_id: str
    role: Literal["user", "assistant", "system"]
    type: str
    content: Any
    status: Literal["streaming", "complete", "canceled", "error"]
    details: str | None
    started_at: int | None
    completed_at: int | None


class EntryPage(Page[EntryShape]):
    pass


class MessageShape(BaseModel):
    """As a model gets it: `completion_request_v1`."""

    model_config = ConfigDict(extra="allow", defer_build=True)

    role: Literal["system", "user", "assistant", "tool"]


class MessagePage(Page[MessageShape]):
    pass

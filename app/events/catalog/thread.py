"""The life of a thread, and entries that clients add to its transcript."""

from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from app.events.catalog.base import EventModel, Value, event

_Label = Annotated[str | None, WithJsonSchema({"type": ["string", "null"]})]
"""Elsewhere a null means absent and is no value; here it is one."""


@event("runtime.thread.created", of_thread=True)
class ThreadCreated(EventModel):
    title: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    labels: dict[str, str] = Field(default_factory=dict)
    owner: Literal["user", "system"] = "user"
    history: list[dict[str, Any]] | None = None


@event("runtime.thread.updated", of_thread=True)
class ThreadUpdated(EventModel):
    """Only the fields that are present change. Metadata and labels are merged; a null takes its key out."""

    title: str | None = None
    metadata: dict[str, Any] | None = None
    labels: dict[str, _Label] | None = None
    archived: bool | None = None


@event("runtime.thread.forked", of_thread=True)
class ThreadForked(EventModel):
    """The first event of a new, self-contained chain that took over another thread's history."""

    thread_id: str
    seq: int
    hash: str
    history: list[dict[str, Any]]
    turns: list[dict[str, Any]] | None = None
    """The source's runs up to the fork: `{id, status, error}` each."""
    transcript: list[dict[str, Any]] | None = None
    """The source's transcript as it stood at the fork."""
    states: dict[str, Any] | None = None
    """What the source's runs had left for later ones, by agent."""
    title: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    labels: dict[str, str] = Field(default_factory=dict)


@event("runtime.thread.state.saved")
class ThreadStateSaved(EventModel):
    """What a completed run leaves for the thread's next run of the agent. The newest counts."""

    agent: str
    state: Any


@event("runtime.thread.closed", of_thread=True)
class ThreadClosed(EventModel):
    reason: str | None = None


@event("runtime.thread.deleted", of_thread=True, announced=True)
class ThreadDeleted(EventModel):
    """Reads answer 410 from here on; the events are purged when retention says so."""

    reason: str | None = None


@event("runtime.transcript.upserted", of_thread=True)
class TranscriptUpserted(EventModel):
    message_id: str = Field(min_length=1)
    turn_id: str
    role: Literal["user", "assistant", "system"]
    entry_type: str = Field(alias="type")
    content: str
    status: Literal["streaming", "complete", "canceled", "error"]
    details: str | None = None
    started_at: int | None = Field(None, ge=0)
    completed_at: int | None = Field(None, ge=0)


class TodoValue(Value):
    id: str
    title: str
    status: Literal["pending", "in_progress", "blocked", "done"]
    owner: str
    """Who is to do it."""


@event("runtime.todos.updated", of_thread=True)
class TodosUpdated(EventModel):
    """A client changed the thread's list of things to do; what the tool `todos` changes is in its calls."""

    mode: Literal["update", "replace"]
    items: list[TodoValue]

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


@event("runtime.thread.rolledBack", of_thread=True)
class ThreadRolledBack(EventModel):
    """Turns that have ended are taken out of the conversation: later runs are not sent them. Nothing is deleted."""

    turns: list[str]
    seqs: list[int]
    """The first `seq` of each of them."""


@event("runtime.thread.compacted", of_thread=True)
class ThreadCompacted(EventModel):
    """A summary takes the place of what was said: later runs of every agent are sent it instead. Nothing is deleted."""

    summary: str
    through_seq: int
    """The turns whose first event has at most this `seq` are summed up."""
    job_id: str


@event("runtime.thread.state.saved")
class ThreadStateSaved(EventModel):
    """What a completed run leaves for the thread's next run of the agent. The newest counts."""

    agent: str
    state: Any


@event("runtime.thread.state.updated", of_thread=True)
class ThreadStateUpdated(EventModel):
    """A client changed what the thread's next run begins with. Nothing is deleted."""

    messages: list[dict[str, Any]] = Field(default_factory=list)
    """In the shape of a history, each with its `id`: what joins the conversation, or all of it."""
    replaces: bool = False
    """Whether the messages are the whole conversation from here on."""
    values: dict[str, Any] | None = None
    """What a graph of its own is given for its channels, as the client sent it."""
    agent: str | None = None
    """The agent whose graph that is; null where no graph takes values."""
    as_node: str | None = None
    restores: int | None = None
    """The `seq` at which the thread stood as it stands now again."""
    state: Any = None
    """What the agent's last run before that had left for the next one."""


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

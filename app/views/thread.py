"""The thread, folded from its events: what it is called, whether it is busy, how far it has come."""

from collections.abc import Callable
from dataclasses import field
from typing import Any, Final

from app.core.clock import iso
from app.core.value import mutable
from app.events.catalog import thread as facts
from app.events.catalog.log import EventAmended, LogCompacted
from app.events.envelope import GENESIS, Event
from app.views.job_changes import due_at, is_delayed
from app.views.run import Run

BLOCKED: Final = "blocked"


@mutable(slots=True)
class Thread:
    id: str
    title: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    owner: str = "user"
    forked_from: dict[str, Any] | None = None
    active: dict[str, str] = field(default_factory=dict)
    """Root runs that have not ended, by id, in order of submission, with their status: `blocked` if they wait for what
    another run may deliver."""
    used: bool = False
    """Something was asked here, or where it was forked from."""
    closed: bool = False
    archived: bool = False
    """Put away by a person: left out of lists unless asked for; nothing else changes."""
    deleted_at: int | None = None
    created_at: int = 0
    compacted: int = 0
    """The `seq` of the newest event that says which deltas were dropped."""
    amended: int = 0
    """The `seq` of the newest amendment of one of its events."""
    delayed: dict[str, int] = field(default_factory=dict)
    """Root runs whose time has not come (`notBefore`), with it. They hold nobody up and stand in no line."""
    # Counters, kept in columns of their own.
    updated_at: int = 0
    last_seq: int = 0
    head_hash: str = GENESIS

    @property
    def status(self) -> str:
        if self.closed or self.deleted_at is not None:
            return "closed"
        if not self.active:
            return "idle"
        return "waiting" if all(status in (BLOCKED, "waiting") for status in self.active.values()) else "busy"

    def note(self, run: Run) -> None:
        """A root run changed: the thread's own status follows in the same fold."""
        if run.parent_run_id is not None:
            return
        self.used = True
        if run.job is not None:
            if is_delayed(run):
                self.active.pop(run.id, None)
                self.delayed[run.id] = due_at(run) or 0
                return
            self.delayed.pop(run.id, None)
        if run.terminal:
            self.active.pop(run.id, None)
        else:
            self.active[run.id] = BLOCKED if run.gives_way else run.status


def _created(thread: Thread, event: Event) -> None:
    payload = event.payload
    thread.title, thread.metadata, thread.labels = payload.get("title"), payload["metadata"], payload["labels"]
    thread.owner = payload.get("owner", "user")


def _forked(thread: Thread, event: Event) -> None:
    _created(thread, event)
    payload = event.payload
    thread.used = bool(payload["history"])
    thread.forked_from = {key: payload[key] for key in ("threadId", "seq", "hash")}


def _stated(thread: Thread, event: Event) -> None:
    thread.used = thread.used or bool(event.payload["messages"])


def _updated(thread: Thread, event: Event) -> None:
    payload = event.payload
    thread.title, thread.archived = payload.get("title", thread.title), payload.get("archived", thread.archived)
    thread.metadata = _merged(thread.metadata, payload.get("metadata"))
    thread.labels = _merged(thread.labels, payload.get("labels"))


def _closed(thread: Thread, event: Event) -> None:
    thread.closed = True


def _deleted(thread: Thread, event: Event) -> None:
    thread.deleted_at = event.at


def _compacted(thread: Thread, event: Event) -> None:
    thread.compacted = event.seq


def _amended(thread: Thread, event: Event) -> None:
    thread.amended = event.seq


THREAD_CHANGES: Final[dict[str, Callable[[Thread, Event], None]]] = {
    facts.ThreadCreated.type: _created,
    facts.ThreadForked.type: _forked,
    facts.ThreadUpdated.type: _updated,
    facts.ThreadStateUpdated.type: _stated,
    facts.ThreadClosed.type: _closed,
    facts.ThreadDeleted.type: _deleted,
    LogCompacted.type: _compacted,
    EventAmended.type: _amended,
}
"""By type, what an event changes of its thread beyond the counters and the runs."""


def _merged(kept: dict[str, Any], changed: dict[str, Any] | None) -> dict[str, Any]:
    return {key: value for key, value in (kept | (changed or {})).items() if value is not None}


def thread_json(thread: Thread) -> dict[str, Any]:
    return {
        "id": thread.id,
        "title": thread.title,
        "status": thread.status,
        "metadata": thread.metadata,
        "labels": thread.labels,
        "archived": thread.archived,
        "forkedFrom": thread.forked_from,
        "lastSeq": thread.last_seq,
        "createdAt": iso(thread.created_at),
        "updatedAt": iso(thread.updated_at),
    }

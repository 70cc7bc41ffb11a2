"""Records to bytes and back, for the `state` columns. Counters stay out: they have columns of their own."""

from collections.abc import Callable
from dataclasses import fields
from operator import attrgetter
from typing import Any, Final, TypeVar

from app.core import json
from app.views.artifact import Artifact
from app.views.interrupt import Interrupt
from app.views.judgement import RunJudgement
from app.views.memory_record import MemoryRecord
from app.views.run import Run
from app.views.thread import Thread
from app.views.transcript import Entry

R = TypeVar("R", Run, Thread, Interrupt, Entry, Artifact, MemoryRecord, RunJudgement)

_COLUMNS: Final[dict[type, frozenset[str]]] = {
    Run: frozenset({"id", "thread_id", "first_seq", "last_seq", "run_seq"}),
    Thread: frozenset({"id", "updated_at", "last_seq", "head_hash"}),
    Interrupt: frozenset(),
    Entry: frozenset(),
    Artifact: frozenset(),
    RunJudgement: frozenset(),
    MemoryRecord: frozenset(),
}
_FIELDS: Final = {
    cls: tuple(field.name for field in fields(cls) if field.name not in out) for cls, out in _COLUMNS.items()
}
_VALUES: Final = {cls: attrgetter(*names) for cls, names in _FIELDS.items()}


def _run(run: Run) -> dict[str, Any]:
    """Without what is unset, which reads back as it was: it would be half of a row that each batch of events writes."""
    made = {
        "agent": run.agent,
        "tool": run.tool,
        "workflow": run.workflow,
        "status": run.status,
        "input": run.input,
        "output": run.output,
        "error": run.error,
        "parent_run_id": run.parent_run_id,
        "rerun_of": run.rerun_of,
        "metadata": run.metadata or None,
        "labels": run.labels or None,
        "usage": run.usage,
        "waiting_on": run.waiting_on or None,
        "cancel_requested_at": run.cancel_requested_at,
        "workspace_digest": run.workspace_digest,
        "created_at": run.created_at,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "epoch": run.epoch or None,
        "commanded": run.commanded or None,
        # Servers of the preceding version cannot read these, and in a rolling upgrade read the runs without them.
        "output_parts": run.output_parts,
        "undo_of": run.undo_of,
        "mode": run.mode,
        "job": run.job,
        "webhook": run.webhook,
    }
    return json.present(made)


def _thread(thread: Thread) -> dict[str, Any]:
    made = {
        "title": thread.title,
        "metadata": thread.metadata or None,
        "labels": thread.labels or None,
        "owner": thread.owner,
        "forked_from": thread.forked_from,
        "active": thread.active or None,
        "used": thread.used or None,
        "closed": thread.closed or None,
        "archived": thread.archived or None,
        "deleted_at": thread.deleted_at,
        "created_at": thread.created_at,
        "compacted": thread.compacted or None,
        "amended": thread.amended or None,
        "delayed": thread.delayed or None,
    }
    return json.present(made)


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        "message_id": entry.message_id,
        "position": entry.position,
        "turn_id": entry.turn_id,
        "role": entry.role,
        "kind": entry.kind,
        "content": entry.content,
        "status": entry.status,
        "details": entry.details,
        "started_at": entry.started_at,
        "completed_at": entry.completed_at,
        "supplemental": entry.supplemental,
    }


_SPELLED: Final[dict[type, Callable[[Any], dict[str, Any]]]] = {Run: _run, Thread: _thread, Entry: _entry}
"""Every run comes by these several times, so they are written out; a test holds them to the records' fields."""


def encode(record: Run | Thread | Interrupt | Entry | Artifact | MemoryRecord | RunJudgement) -> bytes:
    cls = type(record)
    spelled = _SPELLED.get(cls)
    if spelled is not None:
        return json.dumps(spelled(record))
    return json.dumps(dict(zip(_FIELDS[cls], _VALUES[cls](record), strict=True)))


def decode(cls: type[R], state: bytes, **columns: Any) -> R:
    values = json.loads(state)
    try:
        made: R = cls(**values, **columns)
    except TypeError:  # a newer server wrote fields that this version does not have
        known = set(_FIELDS[cls])
        made = cls(**{name: value for name, value in values.items() if name in known}, **columns)
    return made

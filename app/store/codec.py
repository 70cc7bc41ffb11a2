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
        "metadata": run.metadata,
        "labels": run.labels,
        "usage": run.usage,
        "waiting_on": run.waiting_on,
        "cancel_requested_at": run.cancel_requested_at,
        "workspace_digest": run.workspace_digest,
        "created_at": run.created_at,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "epoch": run.epoch,
        "commanded": run.commanded,
    }
    # Few runs have these. Servers of the preceding version cannot read them, and in a rolling upgrade read the others.
    if run.output_parts is not None:
        made["output_parts"] = run.output_parts
    if run.undo_of is not None:
        made["undo_of"] = run.undo_of
    if run.mode is not None:
        made["mode"] = run.mode
    if run.job is not None:
        made["job"] = run.job
    if run.webhook is not None:
        made["webhook"] = run.webhook
    return made


def _thread(thread: Thread) -> dict[str, Any]:
    made = {
        "title": thread.title,
        "metadata": thread.metadata,
        "labels": thread.labels,
        "owner": thread.owner,
        "forked_from": thread.forked_from,
        "active": thread.active,
        "used": thread.used,
        "closed": thread.closed,
        "archived": thread.archived,
        "deleted_at": thread.deleted_at,
        "created_at": thread.created_at,
        "compacted": thread.compacted,
    }
    if thread.amended:
        made["amended"] = thread.amended
    if thread.delayed:
        made["delayed"] = thread.delayed
    return made


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

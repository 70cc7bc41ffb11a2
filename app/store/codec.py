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
    """Without what is unset, which reads back as it was: it would be half of a row that each batch of events writes.

    Field by field: one display of all of them, of which the unset ones are taken out again, costs three times as much.
    """
    made: dict[str, Any] = {}
    if run.agent is not None:
        made["agent"] = run.agent
    if run.tool is not None:
        made["tool"] = run.tool
    if run.workflow is not None:
        made["workflow"] = run.workflow
    made["status"] = run.status
    if run.input is not None:
        made["input"] = run.input
    if run.output is not None:
        made["output"] = run.output
    if run.error is not None:
        made["error"] = run.error
    if run.parent_run_id is not None:
        made["parent_run_id"] = run.parent_run_id
    if run.rerun_of is not None:
        made["rerun_of"] = run.rerun_of
    if run.metadata:
        made["metadata"] = run.metadata
    if run.labels:
        made["labels"] = run.labels
    made["usage"] = run.usage
    if run.waiting_on:
        made["waiting_on"] = run.waiting_on
    if run.cancel_requested_at is not None:
        made["cancel_requested_at"] = run.cancel_requested_at
    if run.workspace_digest is not None:
        made["workspace_digest"] = run.workspace_digest
    made["created_at"] = run.created_at
    if run.started_at is not None:
        made["started_at"] = run.started_at
    if run.finished_at is not None:
        made["finished_at"] = run.finished_at
    if run.epoch:
        made["epoch"] = run.epoch
    if run.commanded:
        made["commanded"] = run.commanded
    # Servers of the preceding version cannot read these, and in a rolling upgrade read the runs without them.
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
    """Without what is unset, as a run."""
    made: dict[str, Any] = {}
    if thread.title is not None:
        made["title"] = thread.title
    if thread.metadata:
        made["metadata"] = thread.metadata
    if thread.labels:
        made["labels"] = thread.labels
    made["owner"] = thread.owner
    if thread.forked_from is not None:
        made["forked_from"] = thread.forked_from
    if thread.active:
        made["active"] = thread.active
    if thread.used:
        made["used"] = thread.used
    if thread.closed:
        made["closed"] = thread.closed
    if thread.archived:
        made["archived"] = thread.archived
    if thread.deleted_at is not None:
        made["deleted_at"] = thread.deleted_at
    made["created_at"] = thread.created_at
    if thread.compacted:
        made["compacted"] = thread.compacted
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

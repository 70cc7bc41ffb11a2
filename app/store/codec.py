"""Records to bytes and back, for the `state` columns. Counters stay out: they have columns of their own."""

from dataclasses import fields
from operator import attrgetter
from typing import Any, Final, TypeVar

from app.core import json
from app.views.artifact import Artifact
from app.views.interrupt import Interrupt
from app.views.run import Run
from app.views.thread import Thread
from app.views.transcript import Entry

R = TypeVar("R", Run, Thread, Interrupt, Entry, Artifact)

_COLUMNS: Final[dict[type, frozenset[str]]] = {
    Run: frozenset({"id", "thread_id", "first_seq", "last_seq", "run_seq"}),
    Thread: frozenset({"id", "updated_at", "last_seq", "head_hash"}),
    Interrupt: frozenset(),
    Entry: frozenset(),
    Artifact: frozenset(),
}
_FIELDS: Final = {
    cls: tuple(field.name for field in fields(cls) if field.name not in out) for cls, out in _COLUMNS.items()
}
_VALUES: Final = {cls: attrgetter(*names) for cls, names in _FIELDS.items()}
"""All at once: every commit encodes a thread and its runs."""


def encode(record: Run | Thread | Interrupt | Entry | Artifact) -> bytes:
    cls = type(record)
    return json.dumps(dict(zip(_FIELDS[cls], _VALUES[cls](record), strict=True)))


def decode(cls: type[R], state: bytes, **columns: Any) -> R:
    made: R = cls(**json.loads(state), **columns)
    return made

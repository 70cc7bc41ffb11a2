"""Records to bytes and back: nothing is lost, nothing that has a column of its own is written twice."""

from dataclasses import MISSING, fields
from typing import Any

import pytest

from app.core import json
from app.store import codec
from app.views.artifact import Artifact
from app.views.interrupt import Interrupt
from app.views.memory_record import MemoryRecord
from app.views.run import Run
from app.views.thread import Thread
from app.views.transcript import Entry

RECORDS: list[tuple[type[Any], set[str]]] = [
    (Run, {"id", "thread_id", "first_seq", "last_seq", "run_seq"}),
    (Thread, {"id", "updated_at", "last_seq", "head_hash"}),
    (Interrupt, set()),
    (Entry, set()),
    (Artifact, set()),
    (MemoryRecord, set()),
]


@pytest.mark.parametrize(("cls", "columns"), RECORDS)
def test_a_record_reads_back_as_it_was_whatever_its_fields_hold(cls: type[Any], columns: set[str]) -> None:
    # A value of its own for each field: one that is left out or mixed up with another cannot come back right.
    record = cls(**{field.name: f"value of {field.name}" for field in fields(cls)})
    state = codec.encode(record)
    assert list(json.loads(state)) == [field.name for field in fields(cls) if field.name not in columns]
    assert codec.decode(cls, state, **{name: getattr(record, name) for name in columns}) == record


@pytest.mark.parametrize(("cls", "columns"), RECORDS)
def test_a_field_that_is_not_written_reads_back_as_it_was(cls: type[Any], columns: set[str]) -> None:
    needed = {field.name: "x" for field in fields(cls) if field.default is MISSING and field.default_factory is MISSING}
    plain = cls(**needed)
    for field in fields(cls):
        for unset in (None, getattr(plain, field.name)):
            if unset is None and field.type is not Any and "None" not in str(field.type):
                continue
            record = cls(**needed | {field.name: unset})
            read = codec.decode(cls, codec.encode(record), **{name: getattr(record, name) for name in columns})
            assert read == record, field.name


@pytest.mark.requirement("G20")
def test_a_field_that_only_a_newer_version_knows_is_left_alone() -> None:
    state = json.dumps(json.loads(codec.encode(Run("run_1", "thr_1", output="done"))) | {"of_a_later_version": 1})
    assert codec.decode(Run, state, id="run_1", thread_id="thr_1") == Run("run_1", "thr_1", output="done")


@pytest.mark.requirement("G20")
def test_new_fields_are_not_written_where_they_are_unset() -> None:
    written = json.loads(codec.encode(Run("run_1", "thr_1")))
    assert not written.keys() & {"output_parts", "undo_of", "mode", "job"}
    assert not json.loads(codec.encode(Thread("thr_1"))).keys() & {"amended", "delayed"}

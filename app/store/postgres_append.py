"""The statements that append a batch on Postgres, and how its rows become their parameters.

Leaves to `postgres`: connections, transactions and what errors mean.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final, TypeAlias

from app.core import json
from app.store.engine import BEFORE_MOVE, DELTA_COLUMNS, EVENT_COLUMNS, MOVED_RUN, MOVED_THREAD, Row

Columns: TypeAlias = Sequence[str]

_TYPES: Final = {
    "thread_key": "bigint",
    "seq": "bigint",
    "run_seq": "bigint",
    "at": "bigint",
    "payload": "bytea",
    "prev_hash": "bytea",
    "hash": "bytea",
    "key": "bigint",
    "first_seq": "bigint",
    "last_seq": "bigint",
    "head_hash": "bytea",
    "updated_at": "bigint",
    "hash_before": "bytea",
    "back": "integer",
    "uuid": "bytea",
    "run_shift": "bigint",
    "at_shift": "bigint",
    "text": "bytea",
}
_SIZES: Final = {"prev_hash": 32, "hash": 32, "head_hash": 32, "hash_before": 32, "uuid": 16}
"""Bytes of the columns whose values all have the same size."""
_GUARDED: Final = (*MOVED_THREAD, *BEFORE_MOVE)
_BETWEEN: Final = "\x1f"
_NULL: Final = "\x1e"
"""Of a packed column of texts; neither is part of any id, type or name that this server makes."""

_INSERT_EVENTS: Final = f"INSERT INTO events ({', '.join(EVENT_COLUMNS)}) SELECT * FROM {{rows}}"
_INSERT_DELTAS: Final = f"INSERT INTO deltas ({', '.join(DELTA_COLUMNS)}) SELECT * FROM {{rows}}"
_MOVE_THREADS: Final = (
    "UPDATE threads t SET last_seq = v.last_seq, head_hash = v.head_hash, updated_at = v.updated_at FROM {rows} "
    "WHERE t.key = v.key"
)
_MOVE_RUNS: Final = (
    "UPDATE runs r SET last_seq = v.last_seq, run_seq = v.run_seq FROM {rows} "
    "WHERE r.thread_key = v.thread_key AND r.first_seq = v.first_seq"
)
_MOVE_UNCHANGED_THREADS: Final = (
    # A row that another server has locked is skipped: whoever waits for nobody is part of no deadlock. A row that
    # another server changed has another hash. Either is one thread less than were to be moved.
    "UPDATE threads t SET last_seq = f.last_seq, head_hash = f.head_hash, updated_at = f.updated_at FROM "
    "(SELECT o.ctid AS place, v.last_seq, v.head_hash, v.updated_at FROM threads o JOIN {rows} "
    "ON o.key = v.key AND o.head_hash = v.hash_before "
    "FOR NO KEY UPDATE OF o SKIP LOCKED) AS f WHERE t.ctid = f.place RETURNING 1"
)
CHANGED: Final = "holdfast: another server has written to a thread of this batch"
"""The error that ends it, as Postgres logs it and answers."""
_APPENDED: Final = (
    (EVENT_COLUMNS, _INSERT_EVENTS),
    (DELTA_COLUMNS, _INSERT_DELTAS),
    (MOVED_THREAD, _MOVE_THREADS),
    (MOVED_RUN, _MOVE_RUNS),
)


@lru_cache
def append(present: tuple[bool, ...]) -> str:
    """One round trip instead of up to four: a batch pays for each of them with the rows of its threads locked."""
    statements: list[str] = []
    first = 1
    for there, (columns, statement) in zip(present, _APPENDED, strict=True):
        if there:
            statements.append(statement.format(rows=_unnest(columns, first)))
            first += len(columns)
    *parts, last = statements
    named = ", ".join(f"part{n} AS ({part})" for n, part in enumerate(parts))
    return f"WITH {named} {last}" if parts else last


def _unnest(columns: Columns, first: int) -> str:
    """A table of parameters, one array per column: a whole batch in one statement."""
    arrays = ", ".join(f"${n}::{_TYPES.get(name, 'text')}[]" for n, name in enumerate(columns, first))
    return f"unnest({arrays}) AS v({', '.join(columns)})"


def arrays(rows: Sequence[Row]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


# -- of threads that were not locked before --------------------------------------------------------------


@lru_cache
def append_if_unchanged(events: bool, deltas: bool) -> str:
    """Ends with an error, `CHANGED`, if it did not move all of the threads and runs: then nothing of it is committed,
    even where it is a transaction by itself.

    Its parameters are packed, see `packed`: the threads with what they were before, the runs, the events, the deltas.
    """
    threads, first = _unpacked(_GUARDED, 1)
    first_of_runs = first
    runs, first = _unpacked(MOVED_RUN, first)
    named = [
        f"moved_threads AS ({_MOVE_UNCHANGED_THREADS.format(rows=threads)})",
        f"moved_runs AS ({_MOVE_RUNS.format(rows=runs)} RETURNING 1)",
    ]
    all_threads = "(SELECT count(*) FROM moved_threads) = cardinality($1::text::bigint[])"
    for there, (columns, statement) in zip((events, deltas), _APPENDED, strict=False):
        if there:
            rows, after = _unpacked(columns, first)
            # An event of a thread that was not moved would wait for the thread's row, or miss it.
            named.append(f"part{first} AS ({statement.format(rows=rows)} WHERE {all_threads})")
            first = after
    all_runs = f"(SELECT count(*) FROM moved_runs) = cardinality(${first_of_runs}::text::bigint[])"
    # A text that is no number, where a number is wanted: SQL has no other way to refuse in the middle of a statement.
    checked = f"CASE WHEN {all_threads} AND {all_runs} THEN '1' ELSE '{CHANGED}' END"
    return f"WITH {', '.join(named)} SELECT CAST({checked} AS integer)"


def _unpacked(columns: Columns, first: int) -> tuple[str, int]:
    """The table of packed parameters from number `first` on, and the number after them."""
    lists: list[str] = []
    names: list[str] = []
    shown: list[str] = []
    for name in columns:
        type_ = _TYPES.get(name, "text")
        if type_ == "text":
            lists.append(f"string_to_array(${first}::text, '{_BETWEEN}', '{_NULL}')")
            names.append(name)
            shown.append(f"u.{name}")
        elif type_ != "bytea":
            lists.append(f"${first}::text::{type_}[]")
            names.append(name)
            shown.append(f"u.{name}")
        elif (size := _SIZES.get(name)) is not None:
            shown.append(f"substr(${first}::bytea, CAST(u.n - 1 AS integer) * {size} + 1, {size}) AS {name}")
        else:
            lists.append(f"${first + 1}::text::integer[], ${first + 2}::text::integer[]")
            names += [f"{name}_begin", f"{name}_size"]
            shown.append(f"substr(${first}::bytea, u.{name}_begin, u.{name}_size) AS {name}")
            first += 2
        first += 1
    table = f"unnest({', '.join(lists)}) WITH ORDINALITY AS u({', '.join(names)}, n)"
    return f"(SELECT {', '.join(shown)} FROM {table}) AS v", first


def packed(
    threads: Sequence[Row], before: Sequence[Row], runs: Sequence[Row], events: Sequence[Row], deltas: Sequence[Row]
) -> list[Any] | None:
    """One value for each column instead of an array, for which the driver looks at every element several times; None
    for the rare rows that cannot be packed."""
    guarded = [(*thread, *was) for thread, was in zip(threads, before, strict=True)]
    tables = ((_GUARDED, guarded), (MOVED_RUN, runs), (EVENT_COLUMNS, events), (DELTA_COLUMNS, deltas))
    params: list[Any] = []
    for columns, rows in tables:
        if not rows:
            continue
        for name, values in zip(columns, zip(*rows, strict=True), strict=True):
            type_ = _TYPES.get(name, "text")
            if type_ == "text":
                text = _joined(values)
                if text is None:
                    return None
                params.append(text)
            elif type_ != "bytea":
                params.append(_numbers(values))
            else:
                data = b"".join(values)
                params.append(data)
                sizes = list(map(len, values))
                if (size := _SIZES.get(name)) is None:
                    params += [_numbers([*accumulate(sizes[:-1], initial=1)]), _numbers(sizes)]
                elif sizes.count(size) != len(sizes):
                    return None
    return params


def _numbers(values: Sequence[int | None]) -> str:
    """As JSON, which is written faster than one number after the other, and in the other brackets is what Postgres
    takes for an array."""
    return f"{{{json.dumps(values)[1:-1].decode()}}}"


def _joined(values: Sequence[str | None]) -> str | None:
    """None if a value contains what is between them, or would be taken for no value."""
    missing = 0
    try:
        text = _BETWEEN.join(values)  # type: ignore[arg-type]  # where one is missing, this is how it is found
    except TypeError:
        missing = values.count(None)
        text = _BETWEEN.join([_NULL if value is None else value for value in values])
    if not text or text.count(_BETWEEN) != len(values) - 1 or text.count(_NULL) != missing:
        return None
    return text

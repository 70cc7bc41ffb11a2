"""What the store asks of a database: a write transaction, a read, and SQL that both dialects understand.

Work is given as an `async` function of a `Tx`. On Postgres it runs on the event loop; on SQLite it runs to its
end on the writer's thread without ever suspending, one hop per transaction. So the log is written once.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

from app.core.value import value
from app.events.ports import StorageDown

T = TypeVar("T")
Row = Sequence[Any]


LARGE_BYTES: Final = 1024 * 1024
"""A larger value goes into SQLite and comes out of it without a second copy in memory."""


@value(frozen=True, slots=True)
class LargeColumn:
    """A column of values that may be large: SQLite copies a value that it binds, and one that it gathers."""

    table: str
    column: str
    index: int
    """Among the statement's parameters, or among the columns that it selects."""


class Sql:
    """A statement with `$n` parameters and a few words that the dialects spell differently.

    `{in:$2}` tests membership in a list parameter, `{pairs:$1,$2}` is the table `v` of a list of numbers and a list of
    texts side by side (`first`, `second`), `{lock}` holds rows until the end of the transaction, `{lock_free}`
    only those that nobody else holds, `{try_lock:$1}` whether nobody else holds the name, which is then held until the
    end of the transaction, `{now}` is the database's own clock in milliseconds. `{arm}` and `{end}` enclose each part
    of a UNION ALL that is ordered by its first column: Postgres merges such parts only if each of them has the order,
    which SQLite knows and does not allow.
    `{active:r}` and `{resting:r}` test the status of the run `r` in the words of the indexes `runs_active` and
    `runs_by_status`: else SQLite would not see that they serve, and Postgres knows better what a list will find.
    `{content:b}` is the data of the blob `b`, in the end of what is selected; see `LargeColumn`.
    """

    __slots__ = ("content", "postgres", "postgres_bulk", "sqlite", "sqlite_bulk", "sqlite_lists", "sqlite_row")

    _IN: Final = re.compile(r"\{in:\$(\d+)\}")
    _PAIRS: Final = re.compile(r"\{pairs:\$(\d+),\$(\d+)\}")
    _ACTIVE: Final = re.compile(r"\{active:(\w+)\}")
    _RESTING: Final = re.compile(r"\{resting:(\w+)\}")
    _TRY_LOCK: Final = re.compile(r"\{try_lock:(\$\d+)\}")
    _PARAMETER: Final = re.compile(r"\$\d+")
    _INSERT: Final = re.compile(r"INSERT (INTO .+ VALUES )(\(.+?\))( ON CONFLICT .+| RETURNING .+|)")

    def __init__(
        self, text: str, *, bulk: str | None = None, sqlite_bulk: str | None = None, content: LargeColumn | None = None
    ) -> None:
        """`bulk` is the statement for many rows at once on Postgres, its parameters one array per column.

        `sqlite_bulk` is the one of SQLite: `{rows}` stands for the rows of its VALUES. An INSERT has a VALUES already
        and needs none. `content` is the column of large values that it writes, or reads by SQLite.
        """
        self.content = content
        self.postgres_bulk = bulk
        shared = self._TRY_LOCK.sub(r"pg_try_advisory_xact_lock(hashtextextended(\1, 0))", text)
        shared = self._ACTIVE.sub(r"\1.status IN ('queued', 'running', 'waiting')", shared)
        shared = self._RESTING.sub(r"\1.status IN ('waiting', 'completed', 'failed', 'cancelled')", shared)
        # As a table of its own, made anew for every row that is looked at, SQLite takes any longer list.
        text = self._ACTIVE.sub(r"(\1.status IN ('queued', 'running') OR \1.status = 'waiting')", text)
        text = self._RESTING.sub(
            r"(\1.status IN ('waiting', 'completed') OR \1.status IN ('failed', 'cancelled'))", text
        )
        # Nobody else writes to a database of SQLite.
        text = self._TRY_LOCK.sub(r"(\1 IS NOT NULL)", text)
        self.postgres = self._PAIRS.sub(
            r"unnest($\1::bigint[], $\2::text[]) AS v(first, second)",
            self._IN.sub(r"= ANY($\1)", shared)
            .replace("{lock}", "FOR UPDATE")
            .replace("{lock_free}", "FOR UPDATE SKIP LOCKED")
            .replace("{arm}", "(")
            .replace("{end}", " ORDER BY 1)")
            .replace("{content:b}", "b.data")
            .replace("{now}", "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)"),
        )
        self.sqlite = _of_sqlite(
            self._PAIRS.sub(
                r"(SELECT value AS first, json_extract($\2, '{dollar}[' || key || ']') AS second "
                r"FROM json_each($\1)) AS v",
                self._IN.sub(r"IN (SELECT value FROM json_each($\1))", text),
            )
        )
        lists = [*self._IN.findall(text), *(number for pair in self._PAIRS.findall(text) for number in pair)]
        self.sqlite_lists = tuple(int(number) - 1 for number in lists)
        self.sqlite_bulk, self.sqlite_row = sqlite_bulk, ""
        insert = self._INSERT.fullmatch(text)
        if insert is not None:
            # A failed statement fails its transaction, so it need not be able to undo its own first rows.
            self.sqlite_bulk = _of_sqlite(f"INSERT OR FAIL {insert[1]}{{rows}}{insert[3]}")
            self.sqlite_row = re.sub(r"\?\d+", "?", _of_sqlite(insert[2]))
        elif sqlite_bulk is not None:
            self.sqlite_row = f"({', '.join('?' * len(set(self._PARAMETER.findall(text))))})"


def _of_sqlite(text: str) -> str:
    return (
        text.replace("{lock}", "")
        .replace("{lock_free}", "")
        .replace("{arm}", "")
        .replace("{end}", "")
        .replace("{content:b}", f"CASE WHEN b.size <= {LARGE_BYTES} THEN b.data END, b.rowid")
        .replace("{now}", "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)")
        .replace("$", "?")
        .replace("{dollar}", "$")
    )


BLOB_DATA: Final = LargeColumn("blobs", "data", 4)
"""Of a statement that inserts a blob."""


class Tx(Protocol):
    @property
    def turn(self) -> int | None:
        """Which of the database's write transactions this is, counted from its opening, where nobody else writes to
        it: two with no number between them saw the same. None where others write too, and for reads."""
        ...

    async def rows(self, sql: Sql, *params: Any) -> list[Row]: ...

    async def many(self, sql: Sql, rows: Sequence[Row]) -> None: ...

    async def returning(self, sql: Sql, rows: Sequence[Row]) -> list[Row]:
        """As `many`, with what the statement gives back for each row, in no certain order."""
        ...

    async def append(
        self,
        events: Sequence[Row],
        deltas: Sequence[Row] = (),
        threads: Sequence[Row] = (),
        runs: Sequence[Row] = (),
        before: Sequence[Row] = (),
        *,
        alone: bool = False,
    ) -> None:
        """The hot statement: events, and the threads and runs of which only the counters moved.

        Each dialect has its fastest way. Rows in the order of `EVENT_COLUMNS`, `DELTA_COLUMNS`, `MOVED_THREAD` and
        `MOVED_RUN`. `before` has a row of `BEFORE_MOVE` for each of the threads: what the writer believes to be stored,
        where it has not locked them. Raises `Conflict` if it is not so; where nobody else writes it always is. `alone`
        says that nothing else is part of the transaction, so that it may be committed by this, and `CommitUnknown`
        raised.
        """
        ...


ANSWER_SECONDS: Final = 1.5
"""How long a read, or the statements or the commit of a write, may take before the database counts as down. With what
else a request needs it is answered within two seconds. Long work is done in portions that take less."""


class Database(Protocol):
    """Errors come as the exceptions of `events.ports`; a commit of unknown outcome as `CommitUnknown`."""

    async def write(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        """One transaction, durable when this returns. One at a time."""
        ...

    async def read(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        """A consistent read, in parallel to the writer."""
        ...

    async def look(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        """As `read`, each statement for itself: cheaper where there is only one, or where they need not agree."""
        ...

    async def act(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        """Statements that each commit by themselves, outside of the writer's turn. After a lost connection nobody knows
        whether the last one was made."""
        ...

    async def settle(self) -> None:
        """After `CommitUnknown`: returns once nothing that was sent before can still be made. What is not stored then
        never will be."""
        ...

    async def ping(self) -> None:
        """Returns if a write could begin now: the database answers and nobody else keeps it locked."""
        ...

    def load(self) -> dict[str, float]:
        """How busy it is, for metrics: a few names of its own choice, with numbers."""
        ...

    async def close(self) -> None: ...


class CommitUnknown(StorageDown):
    """The connection was lost while committing: the transaction may or may not be there.

    The log finds out. Whatever else writes may be done twice, and hears only that the database is down.
    """

    def __init__(self) -> None:
        super().__init__("the connection was lost while committing")


class Conflict(StorageDown):
    """Another replica got there first; the transaction was rolled back and may be tried again."""

    def __init__(self) -> None:
        super().__init__("another replica wrote at the same moment")


class Locked(StorageDown):
    """Another replica has locked a row for longer than it should; the transaction was rolled back."""

    def __init__(self) -> None:
        super().__init__("another server keeps what is to be changed locked")


EVENT_COLUMNS: Final = (
    "thread_key",
    "seq",
    "id",
    "run_id",
    "run_seq",
    "type",
    "actor",
    "at",
    "parent_id",
    "payload",
    "prev_hash",
    "hash",
)
DELTA_COLUMNS: Final = ("thread_key", "seq", "back", "uuid", "run_shift", "at_shift", "text", "hash")
MOVED_THREAD: Final = ("key", "last_seq", "head_hash", "updated_at")
BEFORE_MOVE: Final = ("hash_before",)
"""The hash is over the event's `seq` as well, which need not be compared by itself."""
MOVED_RUN: Final = ("thread_key", "first_seq", "last_seq", "run_seq")
"""A run is named by its thread and its first event, which no other run has: numbers are compared faster than texts."""

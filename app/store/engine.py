"""What the store asks of a database: a write transaction, a read, and SQL that both dialects understand.

Work is given as an `async` function of a `Tx`. On Postgres it runs on the event loop; on SQLite it runs to its
end on the writer's thread without ever suspending, one hop per transaction. So the log is written once.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

from app.events.ports import StorageDown

T = TypeVar("T")
Row = Sequence[Any]


class Sql:
    """A statement with `$n` parameters and three words that the dialects spell differently.

    `{in:$2}` tests membership in a list parameter, `{lock}` holds rows until the end of the transaction, `{now}` is
    the database's own clock in milliseconds.
    """

    __slots__ = ("postgres", "postgres_bulk", "sqlite", "sqlite_lists")

    _IN: Final = re.compile(r"\{in:\$(\d+)\}")

    def __init__(self, text: str, *, bulk: str | None = None) -> None:
        """`bulk` is the statement for many rows at once on Postgres, its parameters one array per column."""
        self.postgres_bulk = bulk
        self.postgres = (
            self._IN.sub(r"= ANY($\1)", text)
            .replace("{lock}", "FOR UPDATE")
            .replace("{now}", "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)")
        )
        self.sqlite = (
            self._IN.sub(r"IN (SELECT value FROM json_each(?\1))", text)
            .replace("{lock}", "")
            .replace("{now}", "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)")
            .replace("$", "?")
        )
        self.sqlite_lists = tuple(int(number) - 1 for number in self._IN.findall(text))


class Tx(Protocol):
    async def rows(self, sql: Sql, *params: Any) -> list[Row]: ...

    async def many(self, sql: Sql, rows: Sequence[Row]) -> None: ...

    async def returning(self, sql: Sql, rows: Sequence[Row]) -> list[Row]:
        """As `many`, with what the statement gives back for each row, in no certain order."""
        ...

    async def append(self, events: Sequence[Row], threads: Sequence[Row] = (), runs: Sequence[Row] = ()) -> None:
        """The hot statement: events, and the threads and runs of which only the counters moved.

        Each dialect has its fastest way. Rows in the order of `EVENT_COLUMNS`, `MOVED_THREAD` and `MOVED_RUN`.
        """
        ...


class Database(Protocol):
    """Errors come as the exceptions of `events.ports`; a commit of unknown outcome as `CommitUnknown`."""

    async def write(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        """One transaction, durable when this returns. One at a time."""
        ...

    async def read(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        """A consistent read beside the writer."""
        ...

    async def look(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        """As `read`, each statement for itself: cheaper where there is only one, or where they need not agree."""
        ...

    async def ping(self) -> None: ...

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


EVENT_COLUMNS: Final = (
    "thread_key", "seq", "id", "run_id", "run_seq", "type", "actor", "at", "parent_id", "payload", "prev_hash", "hash",
)  # fmt: skip
MOVED_THREAD: Final = ("key", "last_seq", "head_hash", "updated_at")
MOVED_RUN: Final = ("tenant", "id", "last_seq", "run_seq")

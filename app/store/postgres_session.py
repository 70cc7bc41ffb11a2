"""How a connection to Postgres is used: one of our own keeps settings and prepared statements, one that a pooler lends
us for each transaction keeps nothing.

Leaves to `postgres`: when transactions begin and end, and what errors mean.
"""

from typing import Any, Final, Protocol

import asyncpg

from app.store.engine import ANSWER_SECONDS

LOCK_SECONDS: Final = 0.4
"""How long a batch waits for a row that another server has locked: longer than any ordinary commit takes, and well
within the time that the callers of the batch are willing to wait. Then what is locked waits apart (`parked`)."""

_READER: Final = {
    # Every read follows one index in its order and stops at its limit (tests/store/test_plans.py). Without statistics,
    # and a new database has none for a minute, Postgres expects few rows, collects them all and sorts them. What has to
    # be sorted still is: these are preferences.
    "enable_bitmapscan": "off",
    "enable_seqscan": "off",
    "enable_sort": "off",
    "enable_incremental_sort": "off",
}
_WRITER: Final = {
    # A batch finds its rows by their keys. Without statistics Postgres expects a small table and reads all of it for
    # each batch: on a new database an event took twice as long once there were some thousands of threads.
    "enable_seqscan": "off",
    # What has no index is then thought to be so dear that older versions would compile it first.
    "jit": "off",
    # One plan serves every batch. To choose between that and one for this very batch takes as long as the batch.
    "plan_cache_mode": "force_generic_plan",
}


def _limits() -> dict[str, object]:
    """The server's own limits, a little under ours: ours do not reach a statement that waits for a lock there.

    A process that is suspended or cut off inside a transaction keeps its locks for no longer than its own callers would
    have waited; then the server ends the session, and with it the transaction.
    """
    return {
        "synchronous_commit": "on",
        "statement_timeout": round(ANSWER_SECONDS * 900),
        "lock_timeout": round(LOCK_SECONDS * 1000),
        "idle_in_transaction_session_timeout": round(ANSWER_SECONDS * 1000),
    }


def settings_sql(*, reads: bool, local: bool = False) -> str:
    """`local` ones end with their transaction."""
    values = _limits() | (_READER if reads else _WRITER)
    return "; ".join(f"SET {'LOCAL ' if local else ''}{name} = {value}" for name, value in values.items())


READER_SETTINGS: Final = "; ".join(f"SET {name} = {value}" for name, value in _READER.items())
WRITER_SETTINGS: Final = "; ".join(f"SET {name} = {value}" for name, value in _WRITER.items())


class Transaction(Protocol):
    async def start(self) -> None: ...

    async def commit(self) -> None: ...

    async def rollback(self) -> None: ...


class Session(Protocol):
    options: dict[str, Any]
    """Of connecting."""
    each_in_transaction: bool
    """Whether a statement by itself needs a transaction around it."""

    async def prepare(self, connection: "asyncpg.Connection[Any]", *, reads: bool) -> None:
        """A new connection."""
        ...

    def transaction(self, connection: "asyncpg.Connection[Any]", *, reads: bool, snapshot: bool) -> Transaction: ...


class OwnSession:
    """The connection leads to one session of Postgres as long as it lives."""

    options: dict[str, Any] = {}
    each_in_transaction = False

    async def prepare(self, connection: "asyncpg.Connection[Any]", *, reads: bool) -> None:
        await connection.execute(settings_sql(reads=reads))

    def transaction(self, connection: "asyncpg.Connection[Any]", *, reads: bool, snapshot: bool) -> Transaction:
        if snapshot:
            return connection.transaction(isolation="repeatable_read", readonly=True)
        return connection.transaction()


class LentSession:
    """Behind a pooler in transaction mode: another session for each transaction. Whatever was set or prepared would be
    left to somebody else, so settings are part of each transaction, and a statement is prepared without a name."""

    options: dict[str, Any] = {"statement_cache_size": 0}
    each_in_transaction = True

    async def prepare(self, connection: "asyncpg.Connection[Any]", *, reads: bool) -> None:
        return

    def transaction(self, connection: "asyncpg.Connection[Any]", *, reads: bool, snapshot: bool) -> Transaction:
        mode = " ISOLATION LEVEL REPEATABLE READ READ ONLY" if snapshot else ""
        return _LentTransaction(connection, f"BEGIN{mode}; {settings_sql(reads=reads, local=True)}")


class _LentTransaction:
    """Begins with its settings in one round trip."""

    def __init__(self, connection: "asyncpg.Connection[Any]", begin: str) -> None:
        self._connection, self._begin = connection, begin

    async def start(self) -> None:
        await self._connection.execute(self._begin)

    async def commit(self) -> None:
        await self._connection.execute("COMMIT")

    async def rollback(self) -> None:
        await self._connection.execute("ROLLBACK")

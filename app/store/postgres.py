"""Postgres, shared: one writing connection per replica, a small pool for reads, `synchronous_commit=on`.

Leaves to others: what is written (the log) and the schema (migrate).
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

import asyncpg

from app.events.ports import StorageBroken, StorageCorrupt, StorageDown, StorageFailed, StorageFull, StoreError
from app.store.engine import (
    ANSWER_SECONDS,
    CommitUnknown,
    Conflict,
    Locked,
    Row,
    Sql,
    Tx,
)
from app.store.patience import Patience
from app.store.postgres_append import CHANGED, append, append_if_unchanged, arrays, packed
from app.store.postgres_session import LentSession, OwnSession, Session, Transaction

T = TypeVar("T")

READERS: Final = 8
_PING: Final = (
    # What an append locks, for nothing: fails on a table that somebody else holds and on a server that only reads.
    "BEGIN; SET LOCAL lock_timeout = 700; "
    "LOCK TABLE threads, events, deltas, runs, leases, interrupts, transcript_entries, artifacts, idempotency_keys "
    "IN ROW EXCLUSIVE MODE; ROLLBACK"
)
_SESSION: Final = "SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()"
_END_SESSION: Final = Sql(  # waits for so many milliseconds; no row where it has ended already
    "SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity WHERE pid = $1 AND backend_start = $2"
)
_SESSIONS_IN_DOUBT: Final = 16
"""More than are lost before the log asks for the outcome of its own."""

_LOST: Final = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    # What the driver says of a connection that the server closed in the middle of an exchange.
    asyncpg.InternalClientError,
    asyncpg.OperatorInterventionError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    TimeoutError,
)
_RACED: Final = (
    asyncpg.UniqueViolationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
)


def _translated(error: BaseException) -> StoreError:
    if isinstance(error, asyncpg.DiskFullError):
        return StorageFull()
    if isinstance(error, asyncpg.PostgresError) and "could not fsync" in str(error):
        return StorageBroken()
    if isinstance(error, (asyncpg.DataCorruptedError, asyncpg.IndexCorruptedError)):
        return StorageCorrupt(f"the database answered {type(error).__name__}")
    if isinstance(error, asyncpg.PostgresIOError):
        return StorageFailed(f"the database answered {type(error).__name__}")
    return StorageDown(f"the database answered {type(error).__name__}")


class _PostgresTx:
    turn = None

    def __init__(self, connection: "asyncpg.Connection[Any]") -> None:
        self._connection = connection

    async def _prepare(self, *, alone: bool = False) -> None:
        """Before each statement."""

    async def rows(self, sql: Sql, *params: Any) -> list[Row]:
        await self._prepare()
        found: list[Row] = await self._connection.fetch(sql.postgres, *params)
        return found

    async def many(self, sql: Sql, rows: Sequence[Row]) -> None:
        await self._prepare()
        if len(rows) == 1:
            # A single row needs no implicit transaction around it, which executemany would add.
            await self._connection.execute(sql.postgres, *rows[0])
        elif sql.postgres_bulk is not None:
            await self._connection.execute(sql.postgres_bulk, *arrays(rows))
        else:
            await self._connection.executemany(sql.postgres, rows)

    async def returning(self, sql: Sql, rows: Sequence[Row]) -> list[Row]:
        if len(rows) == 1:
            return await self.rows(sql, *rows[0])
        await self._prepare()
        assert sql.postgres_bulk is not None
        found: list[Row] = await self._connection.fetch(sql.postgres_bulk, *arrays(rows))
        return found

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
        if before:
            params = packed(threads, before, runs, events, deltas)
            if params is None:
                raise Conflict  # then it is written with its threads locked
            await self._prepare(alone=alone)
            try:
                await self._connection.execute(append_if_unchanged(bool(events), bool(deltas)), *params)
            except asyncpg.InvalidTextRepresentationError as error:
                if CHANGED in str(error):
                    raise Conflict from error
                raise
            return
        parts = (events, deltas, threads, runs)
        columns = [column for rows in parts if rows for column in arrays(rows)]
        await self._prepare(alone=alone)
        await self._connection.execute(append((bool(events), bool(deltas), bool(threads), bool(runs))), *columns)


class _WriterTx(_PostgresTx):
    """Begins with its first statement. A batch that is alone is a transaction by itself, in one round trip instead of
    three."""

    def __init__(self, connection: "asyncpg.Connection[Any]", session: Session) -> None:
        super().__init__(connection)
        self._session = session
        self.transaction: Transaction | None = None
        self.commits_by_itself = False
        """What was sent: if anything but an answer comes back, nobody knows whether it did."""

    async def _prepare(self, *, alone: bool = False) -> None:
        assert not self.commits_by_itself, "nothing follows a batch that is alone"
        if alone and self.transaction is None and not self._session.each_in_transaction:
            self.commits_by_itself = True
        elif self.transaction is None:
            self.transaction = self._session.transaction(self._connection, reads=False, snapshot=False)
            await self.transaction.start()


class _StatementTx(_PostgresTx):
    """Each statement in a transaction of its own, for a connection that is lent for one."""

    def __init__(self, connection: "asyncpg.Connection[Any]", session: Session) -> None:
        super().__init__(connection)
        self._session = session

    async def rows(self, sql: Sql, *params: Any) -> list[Row]:
        return await self._alone(lambda: super(_StatementTx, self).rows(sql, *params))

    async def many(self, sql: Sql, rows: Sequence[Row]) -> None:
        await self._alone(lambda: super(_StatementTx, self).many(sql, rows))

    async def returning(self, sql: Sql, rows: Sequence[Row]) -> list[Row]:
        # A single one is asked for by `rows`, which has its transaction.
        ask = super().returning
        return await (ask(sql, rows) if len(rows) == 1 else self._alone(lambda: ask(sql, rows)))

    async def _alone(self, work: Callable[[], Awaitable[T]]) -> T:
        transaction = self._session.transaction(self._connection, reads=True, snapshot=False)
        await transaction.start()
        result = await work()  # if it fails, the connection is dropped, and the transaction with it
        await transaction.commit()
        return result


async def _as_it_is(_connection: Any) -> None:
    """Readers leave nothing behind in their session, so nothing is reset: that would be a round trip for each read."""


class PostgresDatabase:
    def __init__(self, url: str, *, lent: bool = False) -> None:
        """`lent` connections come from a pooler that gives each transaction another session."""
        self._url = url
        self._session: Session = LentSession() if lent else OwnSession()
        self._writer: asyncpg.Connection[Any] | None = None
        self._writers_session: Row | None = None
        """Its process, and when it began."""
        self._in_doubt: deque[Row] = deque(maxlen=_SESSIONS_IN_DOUBT)
        """The sessions of commits of unknown outcome."""
        self._pool: asyncpg.Pool[Any] | None = None
        self._one_write = asyncio.Lock()

    async def write(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        async with self._one_write:
            try:
                connection = await self._writing()
                return await self._transact(connection, work)
            except CommitUnknown:
                if self._writers_session is not None:
                    self._in_doubt.append(self._writers_session)
                await self._drop_writer()
                raise
            except _LOST:
                await self._drop_writer()
                raise

    async def _transact(self, connection: "asyncpg.Connection[Any]", work: Callable[[Tx], Awaitable[T]]) -> T:
        tx = _WriterTx(connection, self._session)
        try:
            with Patience(ANSWER_SECONDS):
                result = await work(tx)
        except _RACED as error:
            await self._roll_back(tx)
            raise Conflict from error
        except asyncpg.LockNotAvailableError as error:
            await self._roll_back(tx)
            raise Locked from error
        except _LOST as error:
            if tx.commits_by_itself:
                raise CommitUnknown from error
            await self._drop_writer()
            raise _translated(error) from error
        except asyncpg.PostgresError as error:  # by itself or not, what ends with an error was not committed
            await self._roll_back(tx)
            raise _translated(error) from error
        except BaseException:
            await self._roll_back(tx)
            raise
        if tx.transaction is None:
            return result
        try:
            with Patience(ANSWER_SECONDS):
                await tx.transaction.commit()
        except _RACED as error:
            raise Conflict from error
        except asyncpg.DiskFullError as error:
            raise StorageFull from error
        except (asyncpg.PostgresError, *_LOST) as error:
            raise CommitUnknown from error
        return result

    async def _roll_back(self, tx: _WriterTx) -> None:
        if tx.transaction is None:
            return
        try:
            with Patience(ANSWER_SECONDS):
                await tx.transaction.rollback()
        except (asyncpg.PostgresError, *_LOST):
            await self._drop_writer()

    async def read(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        async def in_snapshot(connection: Any) -> T:
            transaction = self._session.transaction(connection, reads=True, snapshot=True)
            await transaction.start()
            result = await work(_PostgresTx(connection))
            await transaction.commit()
            return result

        return await self._reading(in_snapshot)

    async def look(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        """One round trip a statement instead of three."""
        return await self._reading(lambda connection: work(self._by_statement(connection)))

    async def act(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        return await self._reading(lambda connection: work(self._by_statement(connection)))

    def _by_statement(self, connection: Any) -> Tx:
        if self._session.each_in_transaction:
            return _StatementTx(connection, self._session)
        return _PostgresTx(connection)

    async def settle(self) -> None:
        """A session goes on when its connection is lost, and commits what it was sent: it is ended."""
        while self._in_doubt:
            session = self._in_doubt[0]
            await self._end(session)
            if self._in_doubt and self._in_doubt[0] is session:
                self._in_doubt.popleft()

    async def _end(self, session: Row) -> None:
        ended = await self.look(lambda tx: tx.rows(_END_SESSION, *session))
        if ended and not ended[0][0]:
            raise StorageDown("the database has not ended a lost session yet")

    async def ping(self) -> None:
        async def ask(connection: Any) -> None:
            await connection.execute(_PING)

        await self._reading(ask)

    async def _reading(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """One limit for all of it: a place in the pool, perhaps a connection, and the answers.

        A connection whose work failed is dropped: a server that does not answer would not answer a rollback either.
        """
        try:
            with Patience(ANSWER_SECONDS):
                pool = await self._readers()
                connection = await pool.acquire()
                try:
                    result = await work(connection)
                except BaseException:
                    connection.terminate()
                    raise
                finally:
                    await pool.release(connection)
                return result
        except (asyncpg.PostgresError, *_LOST) as error:
            raise _translated(error) from error

    async def _prepare_reader(self, connection: "asyncpg.Connection[Any]") -> None:
        """One that cannot be prepared is dropped: the pool would say goodbye to it, and wait for the answer."""
        try:
            await self._session.prepare(connection, reads=True)
        except BaseException:
            connection.terminate()
            raise

    async def _readers(self) -> "asyncpg.Pool[Any]":
        if self._pool is None:
            # Opens no connection by itself, so that nobody waits here for one that another asked for.
            self._pool = asyncpg.create_pool(
                self._url,
                min_size=0,
                max_size=READERS,
                timeout=ANSWER_SECONDS,
                reset=_as_it_is,
                init=self._prepare_reader,
                **self._session.options,
            )
        await self._pool
        return self._pool

    def load(self) -> dict[str, float]:
        size, idle = (0, 0) if self._pool is None else (self._pool.get_size(), self._pool.get_idle_size())
        return {
            "readers": size,
            "readers_busy": size - idle,
            "writer_connected": float(self._writer is not None and not self._writer.is_closed()),
        }

    async def close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            try:
                await writer.close(timeout=ANSWER_SECONDS)
            except (asyncpg.PostgresError, *_LOST):
                writer.terminate()
        if self._pool is not None:
            pool, self._pool = self._pool, None
            try:
                with Patience(ANSWER_SECONDS):
                    await pool.close()
            except _LOST:
                pool.terminate()

    async def _writing(self) -> "asyncpg.Connection[Any]":
        if self._writer is None or self._writer.is_closed():
            try:
                with Patience(ANSWER_SECONDS):
                    writer = await asyncpg.connect(self._url, timeout=ANSWER_SECONDS, **self._session.options)
                    try:
                        await self._session.prepare(writer, reads=False)
                        # Behind a pooler it is somebody else's as well.
                        lent = self._session.each_in_transaction
                        self._writers_session = None if lent else await writer.fetchrow(_SESSION)
                    except BaseException:
                        writer.terminate()
                        raise
                    self._writer = writer
            except (asyncpg.PostgresError, *_LOST) as error:
                raise _translated(error) from error
        return self._writer

    async def _drop_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.terminate()

"""SQLite, embedded: one writer thread that commits with a sync, readers next to it that never write.

Only the writer's connection checkpoints; readers are opened read-only. One process per file, by the data
folder's lock. Leaves to others: what is written (the log) and the schema (migrate).
"""

import asyncio
import os
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import lru_cache
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, TypeVar, cast

import structlog

from app.core import json
from app.events.ports import StorageBroken, StorageDown
from app.store.engine import ANSWER_SECONDS, DELTA_COLUMNS, EVENT_COLUMNS, LARGE_BYTES, LargeColumn, Row, Sql, Tx
from app.store.patience import LATE_SECONDS
from app.store.sqlite_errors import translated
from app.store.sqlite_lone import LoneReader

T = TypeVar("T")

READERS: Final = 3
WAL_BYTES: Final = 4 * 1024 * 1024
"""The size over which what was written ahead is moved into the main file; SQLite's own choice."""

WRITER_CACHE_KIB: Final = 4096
"""Pages that the writer keeps; any load fills them. The ends of the tables and the upper levels of the indexes fit,
other pages come from the system's cache. With twice as much, a run took no less CPU; with half as much, one in a thread
drawn by lot from 300,000 took 2% more."""

WAL_WARNING_BYTES: Final = 64 * 1024 * 1024
"""The size over which it is said that it does not go back: something keeps it from being moved."""

log = structlog.get_logger("holdfast.storage")

# For every bytes and None that is bound, sqlite3 looks for somebody who adapts it, in three places: most of the cost of
# binding it. Here it finds in the first one that they stay as they are.
sqlite3.register_adapter(bytes, bytes)
sqlite3.register_adapter(type(None), {None: None}.get)

SIZES: Final = (64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1)
"""How many rows one statement takes: sizes that stay prepared, and any number of rows is the sum of a few."""


def _insert(table: str, columns: Sequence[str]) -> Sql:
    values = ", ".join(f"${n}" for n, _ in enumerate(columns, 1))
    return Sql(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values})")


_INSERT_EVENTS: Final = _insert("events", EVENT_COLUMNS)
_INSERT_DELTAS: Final = _insert("deltas", DELTA_COLUMNS)
_MOVE_THREADS: Final = Sql(
    "UPDATE threads SET last_seq = $2, head_hash = $3, updated_at = $4 WHERE key = $1",
    sqlite_bulk="UPDATE OR FAIL threads SET last_seq = v.column2, head_hash = v.column3, updated_at = v.column4 "
    "FROM (VALUES {rows}) AS v WHERE key = v.column1",
)
_MOVE_RUNS: Final = Sql(
    "UPDATE runs SET last_seq = $3, run_seq = $4 WHERE thread_key = $1 AND first_seq = $2",
    sqlite_bulk="UPDATE OR FAIL runs SET last_seq = v.column3, run_seq = v.column4 "
    "FROM (VALUES {rows}) AS v WHERE thread_key = v.column1 AND first_seq = v.column2",
)


@lru_cache(maxsize=256)
def sized(sql: Sql, size: int) -> str:
    if size == 1 or sql.sqlite_bulk is None:
        return sql.sqlite
    return sql.sqlite_bulk.replace("{rows}", ", ".join([sql.sqlite_row] * size))


def _pieces(sql: Sql, rows: Sequence[Row]) -> list[tuple[str, Sequence[Any]]]:
    """Statements for all the rows, as few as there are sizes for.

    Python gives its lock away for each step of a statement and may wait long to have it back, so a row of its own step
    costs more than its insertion.
    """
    pieces: list[tuple[str, Sequence[Any]]] = []
    done = 0
    for size in _sizes(len(rows)):
        piece = rows[done]
        if size > 1:
            piece = [*piece]
            for row in rows[done + 1 : done + size]:
                piece += row
        pieces.append((sized(sql, size), piece))
        done += size
    return pieces


@lru_cache(maxsize=256)
def _sizes(count: int) -> tuple[int, ...]:
    """Sizes that add up to the number of rows, as few as there are."""
    sizes: list[int] = []
    for size in SIZES:
        times, count = divmod(count, size)
        sizes += [size] * times
    return tuple(sizes)


class _SqliteTx:
    """Its methods are coroutines that never suspend: the work around them runs on this very thread."""

    def __init__(self, cursor: sqlite3.Cursor, turn: int | None = None) -> None:
        """One cursor for all of its statements: the connection would make one for each."""
        self._cursor = cursor
        self.turn = turn

    async def rows(self, sql: Sql, *params: Any) -> list[Row]:
        if sql.sqlite_lists:
            params = tuple(
                json.dumps(list(value)).decode() if index in sql.sqlite_lists else value
                for index, value in enumerate(params)
            )
        found = self._cursor.execute(sql.sqlite, params).fetchall()
        return found if sql.content is None else [self._with_content(sql.content, row) for row in found]

    async def many(self, sql: Sql, rows: Sequence[Row]) -> None:
        self._many(sql, rows)

    def _with_content(self, content: LargeColumn, row: Row) -> Row:
        """A value that the statement left out because it is large, in its place; the row's last column names it."""
        *values, place = row
        if values[content.index] is None:
            with self._cursor.connection.blobopen(content.table, content.column, place, readonly=True) as stored:
                values[content.index] = stored.read()
        return tuple(values)

    def _insert_large(self, sql: Sql, content: LargeColumn, row: Row) -> None:
        data = row[content.index]
        values = tuple(len(data) if index == content.index else value for index, value in enumerate(row))
        size = f"?{content.index + 1}"
        statement = f"{sql.sqlite.replace(size, f'zeroblob({size})')} RETURNING rowid"
        for (place,) in self._cursor.execute(statement, values).fetchall():  # none where it is stored already
            with self._cursor.connection.blobopen(content.table, content.column, place) as stored:
                stored.write(data)

    def _many(self, sql: Sql, rows: Sequence[Row]) -> None:
        if len(rows) == 1 and sql.content is None:
            self._cursor.execute(sql.sqlite, rows[0])
            return
        if (content := sql.content) is not None:
            for row in rows:
                if len(row[content.index]) > LARGE_BYTES:
                    self._insert_large(sql, content, row)
            rows = [row for row in rows if len(row[content.index]) <= LARGE_BYTES]
        if sql.sqlite_bulk is None:
            self._cursor.executemany(sql.sqlite, rows)
            return
        for statement, params in _pieces(sql, rows):
            self._cursor.execute(statement, params)

    async def returning(self, sql: Sql, rows: Sequence[Row]) -> list[Row]:
        found: list[Row] = []
        for statement, params in _pieces(sql, rows):
            found += self._cursor.execute(statement, params).fetchall()
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
        if events:
            self._many(_INSERT_EVENTS, events)
        if deltas:
            self._many(_INSERT_DELTAS, deltas)
        if threads:
            self._many(_MOVE_THREADS, threads)
        if runs:
            self._many(_MOVE_RUNS, runs)


def _run_to_end(work: Awaitable[T]) -> T:
    try:
        cast(Coroutine[Any, Any, T], work).send(None)
    except StopIteration as done:
        return cast(T, done.value)
    raise AssertionError("store work must not await anything but its transaction")


class _Worker(threading.Thread):
    """Runs jobs of a shared queue on a connection of its own and answers on the event loop."""

    def __init__(
        self,
        name: str,
        folder: Path,
        connect: Callable[[], sqlite3.Connection],
        jobs: "SimpleQueue[Any]",
        run: "Callable[[Callable[[], sqlite3.Connection], Any], Any]",
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._folder, self._connect, self._jobs, self._run_job = folder, connect, jobs, run
        self._connection: sqlite3.Connection | None = None

    def run(self) -> None:
        while (job := self._jobs.get()) is not None:
            work, future, loop = job
            if future.done():
                continue  # whoever asked has gone
            result: Any = None
            failure: BaseException | None = None
            try:
                result = self._run_job(self._connected, work)
            except sqlite3.Error as error:
                failure = translated(error, self._folder)
                failure.__cause__ = error
            except BaseException as error:  # handed to whoever waits
                failure = error
            loop.call_soon_threadsafe(_settle, future, result, failure)
            # Whoever asked frees it: the next job would wait for that here, and until then all of it would be kept.
            del job, work, future, result, failure
        if self._connection is not None:
            self._connection.close()

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = self._connect()
        return self._connection


def _settle(future: "asyncio.Future[Any]", result: Any, failure: BaseException | None) -> None:
    if future.done():
        return
    if failure is not None:
        future.set_exception(failure)
    else:
        future.set_result(result)


def _give_up(future: "asyncio.Future[Any]", loop: asyncio.AbstractEventLoop, due: float) -> None:
    """Time in which the event loop itself stood still says nothing about the database, so it does not count.

    A framework that is imported holds the loop, and the reading threads with it, for seconds; the answer may even be
    there already and wait to be handed over.
    """
    if future.done():
        return
    now = loop.time()
    if now - due > LATE_SECONDS:
        loop.call_later(ANSWER_SECONDS, _give_up, future, loop, now + ANSWER_SECONDS)
    else:
        future.set_exception(StorageDown("the database is busy, or another process has locked it"))


class SqliteDatabase:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._wal = f"{path}-wal"
        self._wal_file: int | None = None
        """To ask for the size of what was written ahead. Not by `stat`: after that, Linux gives the file's next change
        a time of its own, and the sync of every commit would write the file's inode as well. SQLite holds no locks on
        this file that closing it here could release."""
        self._turn = 0
        self._warn_over = WAL_WARNING_BYTES
        self._writes: SimpleQueue[Any] = SimpleQueue()
        self._reads: SimpleQueue[Any] = SimpleQueue()
        self._lone = LoneReader(path)
        folder = path.parent
        self._workers = [_Worker("holdfast-writer", folder, self._open_writer, self._writes, self._write)]
        self._workers += [
            _Worker(f"holdfast-reader-{n}", folder, self._connect_reader, self._reads, self._read)
            for n in range(READERS)
        ]
        for worker in self._workers:
            worker.start()

    async def write(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._writes.put((work, future, loop))
        return await future

    async def read(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._reads.put((work, future, loop))
        patience = loop.call_later(ANSWER_SECONDS, _give_up, future, loop, loop.time() + ANSWER_SECONDS)
        try:
            return await future
        finally:
            patience.cancel()

    async def look(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        return await self.read(work)

    async def act(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        return await self.write(work)

    async def settle(self) -> None:
        return  # a commit that failed here has failed

    async def ping(self) -> None:
        await self.write(_ping)

    def load(self) -> dict[str, float]:
        return {"writes_waiting": self._writes.qsize(), "reads_waiting": self._reads.qsize(), "readers": READERS}

    async def close(self) -> None:
        self._writes.put(None)
        for _ in range(READERS):
            self._reads.put(None)
        for worker in self._workers:
            await asyncio.to_thread(worker.join)
        await asyncio.to_thread(self._lone.close)
        if self._wal_file is not None:
            os.close(self._wal_file)
            self._wal_file = None

    def _open_writer(self) -> sqlite3.Connection:
        return self._lone.open_writer(self._connect_writer)

    def _connect_writer(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None, cached_statements=256, timeout=ANSWER_SECONDS)
        try:
            # Before anything else, because it creates the files that readers share with the writer, or fails.
            connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()
            connection.execute("PRAGMA journal_mode = WAL")
            # FULL syncs the log on every commit: an acknowledged event survives a power cut. Group commit pays for it.
            connection.execute("PRAGMA synchronous = FULL")
            # We checkpoint ourselves: SQLite would hide that a checkpoint's sync failed, and try again.
            connection.execute("PRAGMA wal_autocheckpoint = 0")
            connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
            connection.execute("PRAGMA foreign_keys = OFF")
            connection.execute(f"PRAGMA cache_size = -{WRITER_CACHE_KIB}")
            connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()  # now it is there
            self._wal_file = os.open(self._wal, os.O_RDONLY)
        except sqlite3.Error:
            connection.close()
            raise
        except OSError as error:
            connection.close()
            raise StorageDown(f"the log that SQLite writes ahead cannot be opened: {error.strerror}") from error
        return connection

    def _write(self, connected: Callable[[], sqlite3.Connection], work: Callable[[Tx], Awaitable[T]]) -> T:
        connection = connected()
        if work is _ping:
            # That it could begin is all there is to know.
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
            return cast(T, None)
        self._turn += 1
        result = _transact(connection, work, self._turn)
        # The file keeps the limit's size when it is used from its beginning again: over it means it has filled up.
        assert self._wal_file is not None, "opened with the connection"
        size = os.lseek(self._wal_file, 0, os.SEEK_END)
        if size > WAL_BYTES:
            _checkpoint(connection)
            self._warn_of(size)
        return result

    def _warn_of(self, size: int) -> None:
        """Once for each doubling: somebody reads for very long, and what he might still need cannot be moved."""
        if size <= self._warn_over:
            return
        self._warn_over = 2 * size
        log.warning(
            "storage.wal_large",
            bytes=size,
            file=self._wal,
            remedy="Another process keeps a read transaction open (a backup, sqlite3, a copy tool): find it with "
            "`fuser` or `lsof` on this file and end it. See docs/operations.md.",
        )

    def _connect_reader(self) -> sqlite3.Connection:
        connection = sqlite3.connect(f"{self._path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
        connection.execute(f"PRAGMA busy_timeout = {round(ANSWER_SECONDS * 1000)}")
        return connection

    def _read(self, connected: Callable[[], sqlite3.Connection], work: Callable[[Tx], Awaitable[T]]) -> T:
        if self._lone.active:
            return self._lone.read(lambda connection: _read(connection, work))
        return _read(connected(), work)


def _transact(connection: sqlite3.Connection, work: Callable[[Tx], Awaitable[T]], turn: int) -> T:
    cursor = connection.cursor()
    cursor.execute("BEGIN IMMEDIATE")
    try:
        result = _run_to_end(work(_SqliteTx(cursor, turn)))
        cursor.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            cursor.execute("ROLLBACK")
        raise
    return result


def _checkpoint(connection: sqlite3.Connection) -> None:
    """Waits for nobody: what readers still need stays for the next time, and so does what the disk has no room for."""
    try:
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
    except sqlite3.Error as error:
        if isinstance(translated(error), StorageBroken):
            raise


def _read(connection: sqlite3.Connection, work: Callable[[Tx], Awaitable[T]]) -> T:
    cursor = connection.cursor()
    cursor.execute("BEGIN")
    try:
        return _run_to_end(work(_SqliteTx(cursor)))
    finally:
        if connection.in_transaction:
            cursor.execute("ROLLBACK")


async def _ping(tx: Tx) -> None:
    """Stands for itself among the writer's jobs."""

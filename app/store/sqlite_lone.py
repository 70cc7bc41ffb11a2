"""Reads a SQLite database on a disk that has no room left for anything, not even for SQLite's own small files.

Connections share an index of the log that is written ahead, in a file that has to be created first. A connection
that has the database for itself keeps that index in memory and needs no room. So while there is none, every read goes
through one such connection, one at a time; before a writer tries again, it is closed.
"""

import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from app.events.ports import StorageFull
from app.store.sqlite_errors import translated

T = TypeVar("T")

_TRY_AGAIN_SECONDS: Final = 0.5
"""Between two attempts to open the database as usual: each interrupts the readers."""


class LoneReader:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._tried_at = 0.0
        self.active = False

    def open_writer(self, connect: Callable[[], sqlite3.Connection]) -> sqlite3.Connection:
        """As `connect` does; where the disk has no room for it, reads are served from here until it has."""
        if self.active and time.monotonic() - self._tried_at < _TRY_AGAIN_SECONDS:
            raise StorageFull
        with self._lock:
            self._close()
            self._tried_at = time.monotonic()
            try:
                connection = connect()
            except sqlite3.Error as error:
                if isinstance(translated(error, self._path.parent), StorageFull):
                    self.active = True
                    raise StorageFull from error
                raise
            self.active = False
            return connection

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._lock:
            if self._connection is None:
                connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
                connection.execute("PRAGMA locking_mode = EXCLUSIVE")
                connection.execute("PRAGMA query_only = ON")
                self._connection = connection
            return work(self._connection)

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

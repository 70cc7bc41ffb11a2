"""What an error of SQLite means for us. Leaves to others: what to do about it.

SQLite reports "no space" only where it writes to the database or its log; where it fails otherwise it names the
call that failed and not why. Then the disk itself is asked, by a small file next to the database.
"""

import contextlib
import errno
import os
import sqlite3
import tempfile
from pathlib import Path
from typing import Final

from app.events.ports import StorageBroken, StorageCorrupt, StorageDown, StorageFailed, StorageFull, StoreError
from app.store.engine import Conflict

_SYNC_FAILED: Final = frozenset({sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC})
_CORRUPT: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_REFUSED: Final = frozenset(
    {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN}
)
_RACED: Final = frozenset({sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY})
_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_PROBE_BYTES: Final = 64 * 1024
"""More than the files that SQLite shares between connections need to come into being."""


def translated(error: sqlite3.Error, folder: Path | None = None) -> StoreError:
    """`folder` is where the database is; without it a doubtful error counts as one of the disk."""
    code = getattr(error, "sqlite_errorcode", None)
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    if code is None:
        return StorageDown(f"the database answered {name}")
    if code in _SYNC_FAILED:
        return StorageBroken()
    if code in _RACED:
        return Conflict()
    primary = code & 0xFF
    if primary == sqlite3.SQLITE_FULL:
        return StorageFull()
    if primary in _CORRUPT:
        return StorageCorrupt(f"the database answered {name}: its file is damaged")
    if primary in _REFUSED:
        reason = None if folder is None else why_refused(folder)
        if reason in _NO_SPACE:
            return StorageFull()
        because = "" if not reason else f" ({os.strerror(reason)})"
        return StorageFailed(f"the disk refused what the database asked of it: {name}{because}")
    return StorageDown(f"the database answered {name}")


def why_refused(folder: Path) -> int | None:
    """The number of the error that a write in the folder meets now; None if it meets none."""
    name = ""
    try:
        file, name = tempfile.mkstemp(prefix=".probe-", dir=folder)
        try:
            os.write(file, b"\0" * _PROBE_BYTES)
        finally:
            os.close(file)
    except OSError as error:
        return error.errno
    finally:
        if name:
            with contextlib.suppress(OSError):
                os.unlink(name)
    return None

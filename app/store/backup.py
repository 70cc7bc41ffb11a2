"""A copy of an embedded data folder while its server runs: the database by SQLite's own backup, then the files.

In this order, because a file is there before the event that refers to it. Postgres has its own tools.

The database is copied in one step, under one read transaction. The server's writer never waits for a reader, so it
goes on; in several steps SQLite would begin anew after each write of another process, and never end next to a busy one.
"""

import contextlib
import os
import shutil
import sqlite3
import stat
import tempfile
from pathlib import Path
from typing import Final

from app.core.errors import HoldfastError

_NOT_COPIED: Final = frozenset({"lock", "holdfast.db", "holdfast.db-wal", "holdfast.db-shm"})


def back_up(data_dir: Path, target: Path) -> int:
    """The number of bytes that the copy of the database has. `target` must not exist yet."""
    source = data_dir / "holdfast.db"
    if not source.is_file():
        raise HoldfastError("NOT_FOUND", f"There is no database in {data_dir}.")
    if target.exists():
        raise HoldfastError("INVALID_REQUEST", f"{target} already exists.")
    target.parent.mkdir(parents=True, exist_ok=True)
    # Made with mode 0700, and with a name of its own: a backup that was killed is not in the way of the next one.
    part = Path(tempfile.mkdtemp(prefix=f"{target.name}.part-", dir=target.parent))
    try:
        _copy_database(source, part / "holdfast.db")
        _copy_others(data_dir, part, part.resolve(), _NOT_COPIED)
        part.replace(target)
    except OSError as error:
        raise HoldfastError("BACKUP_FAILED", f"The copy could not be written: {error.strerror}.") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return (target / "holdfast.db").stat().st_size


def _copy_database(source: Path, target: Path) -> None:
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    # Read-only: only the server's own writer may touch the log that is written ahead.
    reading = sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)
    writing = sqlite3.connect(target)
    try:
        # Nobody has the copy before it is complete, and it is synced as a whole.
        writing.execute("PRAGMA synchronous = OFF")
        reading.backup(writing, pages=-1)
        (found,) = writing.execute("PRAGMA quick_check").fetchone()
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", type(error).__name__)
        raise HoldfastError("BACKUP_FAILED", f"The database could not be copied: {name}: {error}.") from error
    finally:
        writing.close()
        reading.close()
    if found != "ok":
        raise HoldfastError("STORAGE_CORRUPT", f"The copy and its source are damaged: {found}.")
    _sync(target)


def _copy_others(folder: Path, target: Path, part: Path, without: frozenset[str] = frozenset()) -> None:
    """Files and folders, for the owner alone. Anything that vanishes meanwhile or is not a file is left out."""
    for path in sorted(folder.iterdir()):
        if path.name in without or path.resolve() == part:
            continue
        with contextlib.suppress(FileNotFoundError):
            mode = path.lstat().st_mode
            copy = target / path.name
            if stat.S_ISLNK(mode):
                copy.symlink_to(path.readlink())  # what it leads to may be anybody's
            elif stat.S_ISDIR(mode):
                copy.mkdir(mode=0o700)
                _copy_others(path, copy, part)
            elif stat.S_ISREG(mode):
                shutil.copy2(path, copy, follow_symlinks=False)
                copy.chmod(0o600)


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)

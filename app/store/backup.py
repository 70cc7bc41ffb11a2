"""A copy of an embedded data folder while its server runs: the database by SQLite's own backup, then the files.

In this order, because a file is there before the event that tells of it. Postgres has its own tools.
"""

import shutil
import sqlite3
from pathlib import Path
from typing import Final

from app.core.errors import HoldfastError
from app.store.privacy import make_private

_PAGES_AT_ONCE: Final = 2000
"""Between two portions the server writes on; what it wrote to copied pages is copied again."""
_NOT_COPIED: Final = frozenset({"lock", "holdfast.db", "holdfast.db-wal", "holdfast.db-shm"})


def back_up(data_dir: Path, target: Path) -> int:
    """The number of bytes that the copy of the database has. `target` must not exist yet."""
    source = data_dir / "holdfast.db"
    if not source.is_file():
        raise HoldfastError("NOT_FOUND", f"there is no database in {data_dir}")
    if target.exists():
        raise HoldfastError("INVALID_REQUEST", f"{target} exists already")
    part = target.with_name(target.name + ".part")
    part.mkdir(mode=0o700, parents=True)
    try:
        _copy_database(source, part / "holdfast.db")
        for path in data_dir.iterdir():
            if path.is_dir():
                shutil.copytree(path, part / path.name)
            elif path.name not in _NOT_COPIED:
                shutil.copy2(path, part / path.name)
        make_private(part)
        part.replace(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return (target / "holdfast.db").stat().st_size


def _copy_database(source: Path, target: Path) -> None:
    # Read-only: only the server's own writer may touch the log that is written ahead.
    reading = sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)
    writing = sqlite3.connect(target)
    try:
        reading.backup(writing, pages=_PAGES_AT_ONCE)
        (found,) = writing.execute("PRAGMA quick_check").fetchone()
    finally:
        writing.close()
        reading.close()
    if found != "ok":
        raise HoldfastError("STORAGE_BROKEN", f"the copy is damaged: {found}")

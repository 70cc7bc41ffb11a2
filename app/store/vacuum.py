"""Gives back to the disk what a purge left free in an embedded database, by setting.

SQLite keeps free pages for later use and can return them in small steps, but only in a file that was made for it: new
ones are when the setting is on, others once by `compact`, with the server stopped. Postgres does this by itself.
"""

import asyncio
import sqlite3
from pathlib import Path
from typing import Final

import structlog

from app.store.engine import Database, Sql, Tx
from app.store.sqlite_errors import translated

PAGES_AT_ONCE: Final = 256
"""A mebibyte: some milliseconds of the only writer, after which the log writes on."""
_KEPT_PAGES: Final = 1024
"""Free pages that the next writes will use anyway."""
INCREMENTAL: Final = 2
"""SQLite's number for a file whose free pages can be returned in steps."""

_KIND: Final = Sql("PRAGMA auto_vacuum")
_FREE: Final = Sql("PRAGMA freelist_count")
_STEP: Final = Sql(f"PRAGMA incremental_vacuum({PAGES_AT_ONCE})")

log = structlog.get_logger("holdfast.storage")


async def shrink(database: Database, stop: asyncio.Event) -> int:
    """The number of pages that were returned. Ends early when `stop` is set."""
    kind = int((await database.read(lambda tx: tx.rows(_KIND)))[0][0])
    if kind != INCREMENTAL:
        log.warning(
            "storage.cannot_shrink",
            remedy="This database was made before HOLDFAST_SQLITE_VACUUM was set: stop the server and run "
            "`holdfast compact` once.",
        )
        return 0
    returned = 0
    while not stop.is_set():
        before, after = await database.write(_step)
        returned += before - after
        if after <= _KEPT_PAGES or after >= before:
            break
    return returned


async def _step(tx: Tx) -> tuple[int, int]:
    before = int((await tx.rows(_FREE))[0][0])
    if before <= _KEPT_PAGES:
        return before, before
    await tx.rows(_STEP)
    return before, int((await tx.rows(_FREE))[0][0])


def compact(path: Path) -> tuple[int, int]:
    """Writes the whole database anew without its free pages, and ready for steps; its size before and after, in bytes.

    Whoever calls holds the data folder's lock. Needs as much room again as the database takes.
    """
    before = path.stat().st_size
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA auto_vacuum = {INCREMENTAL}")
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error as error:
        raise translated(error, path.parent) from error
    finally:
        connection.close()
    return before, path.stat().st_size

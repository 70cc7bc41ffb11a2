"""Rewrites what held the texts of forgotten records, so that no unused part of the database files has them.

Deleting marks space as free; a database overwrites it only later. Leaves to the memory room: forgetting itself.
"""

from typing import Any, Final

from app.core.errors import HoldfastError
from app.core.settings import Settings
from app.store.folder import DataFolder

_TABLES: Final = (
    "blobs",
    "blob_refs",
    "memory_terms",
    "memory_postings",
    "memory_index",
    "memory_vectors",
    "memory_embeddings",
    "memory_citations",
    "memory_records",
    "interrupts",
)
"""Those that hold texts of memory, or what was made from them."""
_MAX_SEGMENTS: Final = 256
"""Of the write-ahead log that are overwritten: 4 GiB with the usual size."""

# Segments that are kept for later use still have what was once written to them. Each is filled once: switching to the
# next one fills the rest of a segment with zeros.
_AHEAD: Final = (
    "SELECT count(*) FROM pg_ls_waldir() WHERE length(name) = 24 AND name > pg_walfile_name(pg_current_wal_lsn())"
)
_WRITE: Final = "SELECT pg_logical_emit_message(true, 'holdfast', 'purge')"
_SWITCH: Final = "SELECT pg_switch_wal()"


async def purge_memory(settings: Settings) -> str:
    """What was done, for the operator."""
    if settings.is_postgres:
        return await _purge_postgres(settings)
    from app.store.vacuum import compact

    if not settings.sqlite_path.is_file():
        raise HoldfastError("NOT_FOUND", f"there is no database in {settings.data_dir}")
    folder = DataFolder(settings.data_dir)
    folder.take()
    try:
        before, after = compact(settings.sqlite_path)
    finally:
        folder.release()
    return f"{settings.sqlite_path} was rewritten: {before / 1024**2:.1f} MiB before, {after / 1024**2:.1f} MiB now"


async def _purge_postgres(settings: Settings) -> str:
    import asyncpg

    assert settings.direct_url is not None
    connection = await asyncpg.connect(settings.direct_url)
    try:
        for table in _TABLES:
            # One of them is made only where a memory needs vectors.
            if await connection.fetchval("SELECT to_regclass($1)", table) is not None:
                await connection.execute(f"VACUUM (FULL) {table}")
        try:
            written = await _overwrite_log(connection)
            log = f"; the write-ahead log was recycled ({written} segments)"
        except asyncpg.InsufficientPrivilegeError:
            log = (
                "; the write-ahead log is the server's and may hold texts until it is overwritten: run this command as "
                "a superuser, or ask whoever runs the database"
            )
    finally:
        await connection.close()
    return f"the tables with texts were rewritten{log}"


async def _overwrite_log(connection: Any) -> int:
    """Until nothing that was written before is left in it; how many segments were filled."""
    await connection.execute("ALTER SYSTEM SET wal_recycle = off")
    try:
        await connection.execute("SELECT pg_reload_conf()")
        ahead = min(int(await connection.fetchval(_AHEAD)), _MAX_SEGMENTS)
        for _ in range(ahead + 1):
            await connection.execute(_WRITE)
            await connection.execute(_SWITCH)
        # Removes what lies before it, instead of keeping it for later.
        await connection.execute("CHECKPOINT")
        await connection.execute("CHECKPOINT")
    finally:
        await connection.execute("ALTER SYSTEM RESET wal_recycle")
        await connection.execute("SELECT pg_reload_conf()")
    return ahead + 1

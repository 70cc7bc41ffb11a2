"""Rewrites what held the texts of forgotten records, so that no unused part of the database files has them.

Deleting marks space as free; a database overwrites it only later. Leaves to the memory room: forgetting itself.
"""

from typing import Final

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
    "memory_citations",
    "memory_records",
    "interrupts",
)
"""Those that hold texts of memory, or what was made from them."""


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
            await connection.execute(f"VACUUM (FULL) {table}")
        # The write-ahead log is the server's own: from here on a checkpoint lets it recycle what is older.
        try:
            await connection.execute("CHECKPOINT")
            checkpoint = ""
        except asyncpg.InsufficientPrivilegeError:
            checkpoint = "; run CHECKPOINT as a superuser, so that the write-ahead log can be recycled"
    finally:
        await connection.close()
    return f"{len(_TABLES)} tables were rewritten{checkpoint}"

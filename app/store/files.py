"""Uploaded files, in the database like everything else, so that every replica has them and a backup is whole.

Content is stored in chunks as it arrives: a chunk is one short transaction, so that a large upload neither fills
memory nor keeps the log from writing. A file is seen only once its last chunk is stored.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from hashlib import sha256
from typing import Final

from app.core.clock import Clock
from app.core.ids import new_id
from app.events.ports import StoreError
from app.store.engine import Database, Row, Sql, Tx
from app.views.file import NewFile, StoredFile

CHUNK_BYTES: Final = 1024 * 1024
UPLOAD_MS: Final = 24 * 3600 * 1000
"""An upload that is older and not complete was broken off."""

_BEGIN: Final = Sql(
    "INSERT INTO files (tenant, id, name, mime, size, sha256, created_by, created_at, stored_at, deleted_at) "
    "VALUES ($1, $2, $3, $4, 0, '', $5, $6, NULL, NULL)"
)
_CHUNK: Final = Sql("INSERT INTO file_chunks (tenant, file_id, number, data) VALUES ($1, $2, $3, $4)")
_FINISH: Final = Sql("UPDATE files SET size = $3, sha256 = $4, stored_at = $5 WHERE tenant = $1 AND id = $2")
_COLUMNS: Final = "id, name, mime, size, sha256, created_by, created_at, deleted_at"
_GET: Final = Sql(f"SELECT {_COLUMNS} FROM files WHERE tenant = $1 AND id = $2 AND stored_at IS NOT NULL")
_LIST: Final = Sql(
    f"SELECT {_COLUMNS} FROM files WHERE tenant = $1 AND id > $2 AND stored_at IS NOT NULL AND deleted_at IS NULL "
    "ORDER BY id LIMIT $3"
)
_READ: Final = Sql("SELECT data FROM file_chunks WHERE tenant = $1 AND file_id = $2 AND number = $3")
_DELETE: Final = Sql("UPDATE files SET deleted_at = $3 WHERE tenant = $1 AND id = $2 AND deleted_at IS NULL")
_DUE: Final = Sql(
    "SELECT tenant, id FROM files WHERE (stored_at IS NULL AND created_at <= $1) "
    "OR (deleted_at IS NOT NULL AND deleted_at <= $2) LIMIT 100"
)
_CHUNKS_AT_ONCE: Final = 8
"""Of a mebibyte each: removing them keeps the only writer for some milliseconds."""
_PURGE_CHUNKS: Final = Sql(
    "DELETE FROM file_chunks WHERE tenant = $1 AND file_id = $2 AND number IN (SELECT c.number FROM file_chunks c "
    "WHERE c.tenant = $1 AND c.file_id = $2 ORDER BY c.number DESC LIMIT $3) RETURNING 1"
)
_PURGE: Final = Sql("DELETE FROM files WHERE tenant = $1 AND id = $2")


class FileStore:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    async def put(self, tenant: str, new: NewFile, content: AsyncIterator[bytes]) -> StoredFile:
        file_id, created_at = new_id("file"), self._clock.now_ms()
        begin = (tenant, file_id, new.name, new.mime, new.created_by, created_at)
        await self._write(_BEGIN, begin)
        try:
            size, digest = await self._take(tenant, file_id, content)
            await self._write(_FINISH, (tenant, file_id, size, digest, self._clock.now_ms()))
        except BaseException:
            # The purge finds it too, if not even this can be written.
            with contextlib.suppress(StoreError):
                await self._purge(tenant, file_id)
            raise
        return StoredFile(file_id, new.name, new.mime, size, digest, new.created_by, created_at)

    async def _take(self, tenant: str, file_id: str, content: AsyncIterator[bytes]) -> tuple[int, str]:
        hashed, size, number = sha256(), 0, 0
        waiting = bytearray()
        async for piece in content:
            hashed.update(piece)
            size += len(piece)
            waiting += piece
            while len(waiting) >= CHUNK_BYTES:
                await self._write(_CHUNK, (tenant, file_id, number, bytes(waiting[:CHUNK_BYTES])))
                del waiting[:CHUNK_BYTES]
                number += 1
        if waiting:
            await self._write(_CHUNK, (tenant, file_id, number, bytes(waiting)))
        return size, hashed.hexdigest()

    async def get(self, tenant: str, file_id: str) -> StoredFile | None:
        rows = await self._database.read(lambda tx: tx.rows(_GET, tenant, file_id))
        return StoredFile(*rows[0]) if rows else None

    async def read(self, tenant: str, file_id: str) -> AsyncIterator[bytes]:
        number = 0
        while rows := await self._read_chunk(tenant, file_id, number):
            yield bytes(rows[0][0])
            number += 1

    async def read_range(self, tenant: str, file_id: str, start: int, end: int) -> AsyncIterator[bytes]:
        """Every chunk but the last has the same size, so that only those of the range are read."""
        at = start
        while at < end:
            rows = await self._read_chunk(tenant, file_id, at // CHUNK_BYTES)
            if not rows:
                return
            offset = at % CHUNK_BYTES
            piece = bytes(rows[0][0])[offset : offset + end - at]
            if not piece:
                return
            yield piece
            at += len(piece)

    async def _read_chunk(self, tenant: str, file_id: str, number: int) -> list[Row]:
        return await self._database.read(lambda tx: tx.rows(_READ, tenant, file_id, number))

    async def files(self, tenant: str, after: str, limit: int) -> list[StoredFile]:
        rows = await self._database.read(lambda tx: tx.rows(_LIST, tenant, after, limit))
        return [StoredFile(*row) for row in rows]

    async def delete(self, tenant: str, file_id: str) -> None:
        """Out of sight at once; the content goes with the next purge after its retention."""
        await self._write(_DELETE, (tenant, file_id, self._clock.now_ms()))

    async def purge(self, keep_ms: int, stop: asyncio.Event) -> int:
        """Remove what was deleted longer ago than that, and uploads that were broken off; returns how many.

        Ends early when `stop` is set; what is left is found again.
        """
        now, purged = self._clock.now_ms(), 0
        while due := await self._database.read(lambda tx: tx.rows(_DUE, now - UPLOAD_MS, now - keep_ms)):
            for tenant, file_id in due:
                if stop.is_set():
                    return purged
                await self._purge(tenant, file_id)
                purged += 1
        return purged

    async def _purge(self, tenant: str, file_id: str) -> None:
        """The end first: a file whose removal was broken off is found again by its row."""
        while await self._database.write(lambda tx: tx.rows(_PURGE_CHUNKS, tenant, file_id, _CHUNKS_AT_ONCE)):
            pass
        await self._write(_PURGE, (tenant, file_id))

    async def _write(self, sql: Sql, row: Row) -> None:
        async def work(tx: Tx) -> None:
            await tx.many(sql, [row])

        await self._database.write(work)

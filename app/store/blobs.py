"""Content by its hash, once per tenant; a thread that refers to it keeps it alive.

Large values of a payload are stored by the log itself, with their event; this is for content that is made before
its event, such as a tool's large output.
"""

from hashlib import sha256
from typing import Any, Final

from app.core.errors import HoldfastError
from app.store.engine import BLOB_DATA, Database, Sql, Tx

_PUT: Final = Sql(
    "INSERT INTO blobs (tenant, sha256, size, mime, data) VALUES ($1, $2, $3, $4, $5) "
    "ON CONFLICT (tenant, sha256) DO NOTHING",
    content=BLOB_DATA,
)
_KEY: Final = Sql("SELECT key FROM threads WHERE tenant = $1 AND id = $2")
_REFER: Final = Sql(
    "INSERT INTO blob_refs (tenant, sha256, thread_key) VALUES ($1, $2, $3) "
    "ON CONFLICT (tenant, sha256, thread_key) DO NOTHING"
)


class Blobs:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, tenant: str, thread_id: str, data: bytes, mime: str) -> dict[str, Any]:
        """The reference `{sha256, size, mime}`; durable when this returns."""
        digest = sha256(data).hexdigest()

        async def work(tx: Tx) -> None:
            found = await tx.rows(_KEY, tenant, thread_id)
            if not found:
                raise HoldfastError("THREAD_NOT_FOUND", "There is no such thread.")
            await tx.many(_PUT, [(tenant, digest, len(data), mime, data)])
            await tx.many(_REFER, [(tenant, digest, found[0][0])])

        await self._database.write(work)
        return {"sha256": digest, "size": len(data), "mime": mime}

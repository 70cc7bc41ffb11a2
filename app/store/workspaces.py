"""The files of every workspace that a run has used, by digest, so that a run resumes with what it started with.

Outside the fold and without a tenant: one server has one workspace, seen by all its tenants.
"""

import base64
import zlib
from collections.abc import Mapping
from typing import Final

from app.core import json
from app.store.engine import Database, Sql, Tx

_PUT: Final = Sql("INSERT INTO workspaces (digest, files) VALUES ($1, $2) ON CONFLICT (digest) DO NOTHING")
_GET: Final = Sql("SELECT files FROM workspaces WHERE digest = $1")


class WorkspaceTable:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, digest: str, files: Mapping[str, bytes]) -> None:
        encoded = {path: base64.b64encode(data).decode() for path, data in files.items()}
        packed = zlib.compress(json.canonical(encoded))

        async def work(tx: Tx) -> None:
            await tx.many(_PUT, [(digest, packed)])

        await self._database.write(work)

    async def get(self, digest: str) -> dict[str, bytes] | None:
        rows = await self._database.read(lambda tx: tx.rows(_GET, digest))
        if not rows:
            return None
        unpacked: dict[str, str] = json.loads(zlib.decompress(rows[0][0]))
        return {path: base64.b64decode(data) for path, data in unpacked.items()}

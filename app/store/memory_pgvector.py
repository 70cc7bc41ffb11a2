"""Vectors of the memory in Postgres with pgvector: `memory_embeddings`, a searchable copy of `memory_vectors`.

Made when a memory first needs it, because the extension is not everywhere; without it vectors are compared in the
server. A small namespace is searched exactly; a large one by an HNSW index of its own, which maintenance makes: one
over all namespaces would find mostly records of others. Rows go with those of `memory_vectors`, by the foreign key.
Leaves to the memory room: the order of what was found.
"""

import asyncio
import hashlib
import struct
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

import structlog

from app.core.errors import HoldfastError
from app.events.ports import StorageDown
from app.store.engine import Sql, Tx

INDEX_FROM: Final = 10_000
"""Vectors of a namespace from which on it gets an index: below, comparing all of them takes less than 20 ms."""
MAX_INDEXES: Final = 50
"""Each costs planning time and a check of every new row."""
MAX_INDEXED_DIMENSIONS: Final = 4_000
"""pgvector's own limit for an index over half precision."""
EF_SEARCH: Final = 200
_COPIED: Final = 500
_PREPARE_SECONDS: Final = 30.0
_OFFERED_SECONDS: Final = 3.0
_INDEX_SECONDS: Final = 3600.0

_CREATE: Final = (
    "CREATE EXTENSION IF NOT EXISTS vector",
    "CREATE TABLE IF NOT EXISTS memory_embeddings (namespace_key bigint NOT NULL, model text NOT NULL, "
    "seq bigint NOT NULL, embedding vector NOT NULL, PRIMARY KEY (namespace_key, model, seq), "
    "FOREIGN KEY (namespace_key, model, seq) REFERENCES memory_vectors (namespace_key, model, seq) ON DELETE CASCADE)",
)
_OFFERED: Final = "SELECT default_version FROM pg_available_extensions WHERE name = 'vector'"
_HAS_TABLE: Final = "SELECT to_regclass('memory_embeddings') IS NOT NULL"
_LACKING: Final = (
    "SELECT v.namespace_key, v.model, v.seq, v.vector FROM memory_vectors v WHERE NOT EXISTS "
    "(SELECT 1 FROM memory_embeddings e WHERE e.namespace_key = v.namespace_key AND e.model = v.model "
    "AND e.seq = v.seq) LIMIT $1"
)
_PUT: Final = Sql(
    "INSERT INTO memory_embeddings (namespace_key, model, seq, embedding) VALUES ($1, $2, $3, $4::text::vector) "
    "ON CONFLICT (namespace_key, model, seq) DO UPDATE SET embedding = excluded.embedding",
    bulk="INSERT INTO memory_embeddings (namespace_key, model, seq, embedding) SELECT v.k, v.m, v.s, v.e::vector "
    "FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[]) AS v(k, m, s, e) "
    "ON CONFLICT (namespace_key, model, seq) DO UPDATE SET embedding = excluded.embedding",
)
_COPY: Final = (
    "INSERT INTO memory_embeddings (namespace_key, model, seq, embedding) SELECT v.k, v.m, v.s, v.e::vector "
    "FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[]) AS v(k, m, s, e) "
    # Deleted while it was copied: then there is nothing to refer to.
    "JOIN memory_vectors o ON o.namespace_key = v.k AND o.model = v.m AND o.seq = v.s ON CONFLICT DO NOTHING"
)
_EXACT: Final = Sql(
    "SELECT v.seq, v.vector FROM (SELECT e.seq FROM memory_embeddings e WHERE e.namespace_key = $1 AND e.model = $2 "
    "AND vector_dims(e.embedding) = $3 ORDER BY e.embedding <#> $4::text::vector LIMIT $5) near "
    "JOIN memory_vectors v ON v.namespace_key = $1 AND v.model = $2 AND v.seq = near.seq"
)
_EF_SEARCH: Final = Sql(f"SET LOCAL hnsw.ef_search = {EF_SEARCH}")
_LARGE: Final = (
    "SELECT e.namespace_key, e.model, count(*), min(vector_dims(e.embedding)), max(vector_dims(e.embedding)) "
    "FROM memory_embeddings e GROUP BY 1, 2 HAVING count(*) >= $1 ORDER BY 3 DESC LIMIT $2"
)
_INDEXES: Final = (
    "SELECT c.relname, i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
    "WHERE i.indrelid = 'memory_embeddings'::regclass AND c.relname LIKE 'memory\\_near\\_%'"
)

log = structlog.get_logger("holdfast.memory")


class PgVector:
    def __init__(self, url: str) -> None:
        self._url = url
        self._one = asyncio.Lock()
        self._present: bool | None = None
        """Whether the table exists; None as long as nobody asked."""
        self._complete = False
        """Whether it has every vector, so that it can be searched."""

    async def present(self) -> bool:
        if self._present is None:
            async with self._one:
                if self._present is None:
                    await self._prepare()
        return bool(self._present)

    async def searchable(self) -> bool:
        return await self.present() and self._complete

    async def put(self, tx: Tx, key: int, model: str, vectors: Mapping[int, bytes]) -> None:
        await tx.many(_PUT, [(key, model, seq, as_text(vector)) for seq, vector in sorted(vectors.items())])

    async def nearest(
        self, tx: Tx, key: int, records: int, model: str, vector: bytes, limit: int
    ) -> list[tuple[int, bytes]]:
        dimensions = len(vector) // 4
        if records < INDEX_FROM or dimensions > MAX_INDEXED_DIMENSIONS:
            found = await tx.rows(_EXACT, key, model, dimensions, as_text(vector), limit)
        else:
            await tx.rows(_EF_SEARCH)
            found = await tx.rows(_by_index(key, model, dimensions), as_text(vector), limit)
        return [(row[0], bytes(row[1])) for row in found]

    async def _prepare(self) -> None:
        import asyncpg

        try:
            connection = await asyncpg.connect(self._url, timeout=_PREPARE_SECONDS, command_timeout=_PREPARE_SECONDS)
        except (OSError, asyncpg.PostgresError, TimeoutError):
            return  # asked again next time
        try:
            if not await connection.fetchval(_HAS_TABLE):
                for statement in _CREATE:
                    await connection.execute(statement)
            self._present = True
            self._complete = not await connection.fetch(_LACKING, 1)
        except asyncpg.PostgresError as error:
            self._present = False
            log.warning("memory.pgvector_missing", reason=str(error)[:200], remedy=REMEDY)
        except (OSError, TimeoutError):
            return
        finally:
            await connection.close(timeout=_PREPARE_SECONDS)

    async def tend(self, stop: Callable[[], bool]) -> int:
        """Copies vectors from before the extension, and makes and drops indexes; how many indexes."""
        if not await self.present():
            return 0
        import asyncpg

        connection = await asyncpg.connect(self._url, timeout=_PREPARE_SECONDS)
        try:
            await self._catch_up(connection, stop)
            return await self._index(connection, stop)
        except asyncpg.PostgresError as error:
            raise HoldfastError("MEMORY_PUT_FAILED", f"Postgres could not index vectors: {error}"[:500]) from error
        finally:
            await connection.close(timeout=_PREPARE_SECONDS)

    async def _catch_up(self, connection: Any, stop: Callable[[], bool]) -> None:
        while not stop():
            rows = await connection.fetch(_LACKING, _COPIED)
            if rows:
                columns = [(key, model, seq, as_text(bytes(vector))) for key, model, seq, vector in rows]
                await connection.execute(_COPY, *map(list, zip(*columns, strict=True)))
            if len(rows) < _COPIED:
                self._complete = True
                return

    async def _index(self, connection: Any, stop: Callable[[], bool]) -> int:
        large = await connection.fetch(_LARGE, INDEX_FROM, MAX_INDEXES)
        wanted = {
            index_name(key, model): (key, model, most)
            for key, model, _, least, most in large
            if least == most and most <= MAX_INDEXED_DIMENSIONS
        }
        made = 0
        valid: set[str] = set()
        for name, is_valid in await connection.fetch(_INDEXES):
            if name in wanted and is_valid:
                valid.add(name)
            else:  # of a namespace that has become small, or left half-made by a server that was stopped
                await connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}", timeout=_INDEX_SECONDS)
        for name, (key, model, dimensions) in wanted.items():
            if name not in valid and not stop():
                statement = (
                    f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON memory_embeddings USING hnsw "
                    f"((embedding::halfvec({dimensions})) halfvec_ip_ops) WHERE {_predicate(key, model)}"
                )
                await connection.execute(statement, timeout=_INDEX_SECONDS)
                made += 1
        return made


async def offered_version(url: str) -> str | None:
    """Of the extension that the server has, used or not."""
    import asyncpg

    try:
        connection = await asyncpg.connect(url, timeout=_OFFERED_SECONDS)
        try:
            found: str | None = await connection.fetchval(_OFFERED)
        finally:
            await connection.close(timeout=_OFFERED_SECONDS)
    except (OSError, asyncpg.PostgresError, TimeoutError) as error:
        raise StorageDown(f"the database answered {type(error).__name__}") from error
    return found


REMEDY: Final = (
    "Install the extension pgvector on the Postgres server (`CREATE EXTENSION vector`), or leave it: vectors are then "
    "compared in the server."
)


@lru_cache(maxsize=256)
def _by_index(key: int, model: str, dimensions: int) -> Sql:
    """With the same words as the index, so that Postgres sees that it applies; without the index it is exact."""
    return Sql(
        f"SELECT v.seq, v.vector FROM (SELECT e.seq FROM memory_embeddings e WHERE {_predicate(key, model)} "
        f"ORDER BY e.embedding::halfvec({dimensions}) <#> $1::text::halfvec({dimensions}) LIMIT $2) near "
        f"JOIN memory_vectors v ON v.seq = near.seq WHERE v.namespace_key = {key} AND v.model = '{_checked(model)}'"
    )


def _predicate(key: int, model: str) -> str:
    return f"namespace_key = {key} AND model = '{_checked(model)}'"


def index_name(key: int, model: str) -> str:
    return f"memory_near_{key}_{hashlib.sha256(model.encode()).hexdigest()[:12]}"


def _checked(model: str) -> str:
    """It stands in the text of statements: an identity is made of letters and digits."""
    if not (model.isascii() and model.isalnum()):
        raise ValueError("an embedding's identity has only letters and digits")
    return model


def as_text(vector: bytes) -> str:
    values = struct.unpack(f"<{len(vector) // 4}f", vector)
    return f"[{','.join(map(repr, values))}]"

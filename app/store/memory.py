"""Reads the memory records and their index. Every query carries the tenant."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from app.events.catalog.memory import MEMORY_THREAD
from app.events.ports import MemoryIndexed
from app.memory.contract import RecordFilter, Standing
from app.memory.ranking import Ranked
from app.store.codec import decode
from app.store.engine import Database, Row, Sql, Tx
from app.store.memory_index import VECTORS_GONE, index_record, unindex_record
from app.store.memory_pgvector import PgVector
from app.store.memory_search import BY_SEQ, CONTENTS, NAMESPACE, OF_TENANT, search
from app.views.memory_record import MemoryRecord

_RECORD: Final = Sql(f"SELECT r.state FROM memory_records r WHERE {OF_TENANT} AND r.id = $2")
_RECORDS: Final = Sql(f"SELECT r.state FROM memory_records r WHERE {OF_TENANT} AND r.id {{in:$2}}")
_PAGE: Final = Sql(
    f"SELECT r.state FROM memory_records r WHERE {OF_TENANT} AND r.seq > $2 "
    "AND (CAST($3 AS TEXT) IS NULL OR r.namespace = $3) "
    "AND (CAST($4 AS TEXT) IS NULL OR substr(r.namespace, 1, length($4)) = $4) "
    "AND (CAST($5 AS TEXT) IS NULL OR r.status = $5) AND (CAST($6 AS TEXT) IS NULL OR r.kind = $6) "
    "AND (CAST($7 AS TEXT) IS NULL OR r.person = $7) ORDER BY r.seq LIMIT $8"
)
_NEWEST: Final = Sql(
    f"SELECT r.state FROM memory_records r WHERE {OF_TENANT} AND r.namespace = $2 AND r.status = $5 "
    "AND (r.expires_at IS NULL OR r.expires_at > $4) ORDER BY r.seq DESC LIMIT $3"
)
_REPEATED: Final = Sql(
    f"SELECT r.seq FROM memory_records r JOIN memory_namespaces n ON n.tenant = $1 AND n.namespace = r.namespace "
    "JOIN memory_index i ON i.namespace_key = n.key AND i.seq = r.seq "
    f"WHERE {OF_TENANT} AND r.seq {{in:$2}} AND r.status = 'accepted' AND EXISTS (SELECT 1 FROM memory_index o "
    "WHERE o.namespace_key = i.namespace_key AND o.fingerprint = i.fingerprint AND o.seq < i.seq)"
)
_SAME: Final = Sql("SELECT fingerprint, seq FROM memory_index WHERE namespace_key = $1 AND fingerprint {in:$2}")
_SAME_SLOT: Final = Sql("SELECT slot, seq FROM memory_index WHERE namespace_key = $1 AND slot {in:$2}")
_COUNTS: Final = Sql("SELECT namespace, records FROM memory_namespaces WHERE tenant = $1 ORDER BY namespace")
_TENANTS: Final = Sql(f"SELECT tenant FROM threads WHERE id = '{MEMORY_THREAD}' AND deleted_at IS NULL ORDER BY tenant")

_PUT_VECTOR: Final = Sql(
    "INSERT INTO memory_vectors (namespace_key, model, seq, vector) VALUES ($1, $2, $3, $4) "
    "ON CONFLICT (namespace_key, model, seq) DO UPDATE SET vector = excluded.vector"
)
_INDEXED: Final = Sql("SELECT seq FROM memory_index WHERE namespace_key = $1 AND seq {in:$2}")
_VECTORS: Final = Sql(
    "SELECT v.seq, v.vector FROM memory_vectors v JOIN memory_namespaces n ON n.key = v.namespace_key "
    "WHERE n.tenant = $1 AND n.namespace = $2 AND v.model = $3 AND v.seq > $4 ORDER BY v.seq LIMIT $5"
)
_VECTORS_OF: Final = Sql(
    "SELECT v.seq, v.vector FROM memory_vectors v JOIN memory_namespaces n ON n.key = v.namespace_key "
    "WHERE n.tenant = $1 AND n.namespace = $2 AND v.model = $3 AND v.seq {in:$4}"
)
_STAMP: Final = Sql("SELECT vectors_put, vectors_gone FROM memory_namespaces WHERE tenant = $1 AND namespace = $2")
_VECTORS_PUT: Final = Sql("UPDATE memory_namespaces SET vectors_put = vectors_put + $2 WHERE key = $1")
_WITHOUT_VECTOR: Final = Sql(
    f"SELECT r.state FROM memory_records r WHERE {OF_TENANT} AND r.status = 'accepted' AND NOT EXISTS "
    "(SELECT 1 FROM memory_vectors v JOIN memory_namespaces n ON n.key = v.namespace_key "
    "WHERE n.tenant = $1 AND n.namespace = r.namespace AND v.model = $2 AND v.seq = r.seq) ORDER BY r.seq LIMIT $3"
)
_OTHER_VECTORS: Final = Sql(
    "DELETE FROM memory_vectors WHERE namespace_key IN (SELECT n.key FROM memory_namespaces n WHERE n.tenant = $1) "
    "AND NOT model {in:$2} RETURNING namespace_key"
)


class MemoryTable:
    def __init__(self, database: Database, pgvector: PgVector | None = None) -> None:
        """`pgvector` where the database is Postgres."""
        self._database, self._pgvector = database, pgvector

    async def record(self, tenant: str, record_id: str) -> MemoryRecord | None:
        found = await self._database.look(lambda tx: tx.rows(_RECORD, tenant, record_id))
        return _decoded(found[0]) if found else None

    async def by_id(self, tenant: str, record_ids: Sequence[str]) -> dict[str, MemoryRecord]:
        if not record_ids:
            return {}
        found = await self._database.look(lambda tx: tx.rows(_RECORDS, tenant, list(record_ids)))
        return {record.id: record for record in map(_decoded, found)}

    async def records(self, tenant: str, filter_: RecordFilter, after: int, limit: int) -> list[MemoryRecord]:
        wanted = (filter_.namespace, filter_.prefix, filter_.status, filter_.kind, filter_.user)
        found = await self._database.look(lambda tx: tx.rows(_PAGE, tenant, after, *wanted, limit))
        return [_decoded(row) for row in found]

    async def newest(
        self, tenant: str, namespace: str, limit: int, now: str = "", status: str = "accepted"
    ) -> list[MemoryRecord]:
        found = await self._database.look(lambda tx: tx.rows(_NEWEST, tenant, namespace, limit, now, status))
        return [_decoded(row) for row in found]

    async def by_seq(self, tenant: str, seqs: Sequence[int], now: str = "") -> dict[int, MemoryRecord]:
        found = await self._database.look(lambda tx: tx.rows(BY_SEQ, tenant, list(seqs), now))
        return {record.seq: record for record in map(_decoded, found)}

    async def contents(self, tenant: str, digests: Sequence[str]) -> dict[str, bytes]:
        if not digests:
            return {}
        found = await self._database.look(lambda tx: tx.rows(CONTENTS, tenant, list(digests)))
        return {digest: bytes(data) for digest, data in found}

    async def search(self, tenant: str, namespace: str, terms: Sequence[str], limit: int, now: int) -> list[Ranked]:
        return await self._database.read(lambda tx: search(tx, tenant, namespace, terms, limit, now))

    async def standing(
        self, tenant: str, namespace: str, record_ids: Sequence[str], wanted: Sequence[tuple[str, str | None]]
    ) -> Standing:
        async def work(tx: Tx) -> Standing:
            named = await tx.rows(_RECORDS, tenant, list(record_ids)) if record_ids else []
            known = {record.id: record for record in map(_decoded, named)}
            place = await tx.rows(NAMESPACE, tenant, namespace) if wanted else []
            if not place:
                return Standing(known)
            key = place[0][0]
            same = await tx.rows(_SAME, key, [fingerprint for fingerprint, _ in wanted])
            slots = [slot for _, slot in wanted if slot is not None]
            of_slot = await tx.rows(_SAME_SLOT, key, slots) if slots else []
            seqs = sorted({row[1] for row in same} | {row[1] for row in of_slot})
            found = await tx.rows(BY_SEQ, tenant, seqs, "") if seqs else []
            records = {record.seq: record for record in map(_decoded, found)}
            return Standing(known, _grouped(same, records), _grouped(of_slot, records))

        return await self._database.read(work)

    async def repeated(self, tenant: str, seqs: Sequence[int]) -> set[int]:
        return {row[0] for row in await self._database.look(lambda tx: tx.rows(_REPEATED, tenant, list(seqs)))}

    async def index(self, tenant: str, record: MemoryRecord, entry: MemoryIndexed) -> None:
        async def work(tx: Tx) -> None:
            # Only what is in force at this moment: it may have been forgotten since it was read.
            if await tx.rows(BY_SEQ, tenant, [record.seq], ""):
                await index_record(tx, tenant, record.namespace, record.seq, entry)

        await self._database.write(work)

    async def unindex(self, tenant: str, record: MemoryRecord) -> None:
        await self._database.write(lambda tx: unindex_record(tx, tenant, record.namespace, record.seq))

    async def counts(self, tenant: str) -> dict[str, int]:
        return {row[0]: row[1] for row in await self._database.look(lambda tx: tx.rows(_COUNTS, tenant))}

    async def tenants(self) -> list[str]:
        return [row[0] for row in await self._database.look(lambda tx: tx.rows(_TENANTS))]

    # -- vectors ---------------------------------------------------------------------------------------

    async def put_vectors(self, tenant: str, namespace: str, model: str, vectors: Mapping[int, bytes]) -> None:
        pgvector = self._pgvector
        if pgvector is not None and not await pgvector.present():
            pgvector = None

        async def work(tx: Tx) -> None:
            known = await tx.rows(NAMESPACE, tenant, namespace)
            if known:
                # Only of what is in the index: it may have been forgotten while its vector was made.
                key = known[0][0]
                left = [row[0] for row in await tx.rows(_INDEXED, key, sorted(vectors))]
                if left:
                    await tx.many(_PUT_VECTOR, [(key, model, seq, vectors[seq]) for seq in left])
                    await tx.rows(_VECTORS_PUT, key, len(left))
                    if pgvector is not None:
                        await pgvector.put(tx, key, model, {seq: vectors[seq] for seq in left})

        await self._database.write(work)

    async def nearest(
        self, tenant: str, namespace: str, model: str, vector: bytes, limit: int
    ) -> list[tuple[int, bytes]] | None:
        pgvector = self._pgvector
        if pgvector is None or not await pgvector.searchable():
            return None

        async def work(tx: Tx) -> list[tuple[int, bytes]]:
            known = await tx.rows(NAMESPACE, tenant, namespace)
            return await pgvector.nearest(tx, known[0][0], known[0][1], model, vector, limit) if known else []

        return await self._database.read(work)

    async def tend_vectors(self, stop: Callable[[], bool]) -> int:
        return await self._pgvector.tend(stop) if self._pgvector is not None else 0

    async def vectors(self, tenant: str, namespace: str, model: str, after: int, limit: int) -> list[tuple[int, bytes]]:
        found = await self._database.look(lambda tx: tx.rows(_VECTORS, tenant, namespace, model, after, limit))
        return [(row[0], bytes(row[1])) for row in found]

    async def vectors_of(self, tenant: str, namespace: str, model: str, seqs: Sequence[int]) -> list[tuple[int, bytes]]:
        found = await self._database.look(lambda tx: tx.rows(_VECTORS_OF, tenant, namespace, model, list(seqs)))
        return [(row[0], bytes(row[1])) for row in found]

    async def vectors_since(
        self, tenant: str, namespace: str, model: str, after: int, limit: int
    ) -> tuple[tuple[int, int], list[tuple[int, bytes]]]:
        async def work(tx: Tx) -> tuple[tuple[int, int], list[tuple[int, bytes]]]:
            stamp = await tx.rows(_STAMP, tenant, namespace)
            found = await tx.rows(_VECTORS, tenant, namespace, model, after, limit) if stamp else []
            put, gone = stamp[0] if stamp else (0, 0)
            return (put, gone), [(row[0], bytes(row[1])) for row in found]

        return await self._database.read(work)

    async def without_vector(self, tenant: str, model: str, limit: int) -> list[MemoryRecord]:
        found = await self._database.look(lambda tx: tx.rows(_WITHOUT_VECTOR, tenant, model, limit))
        return [_decoded(row) for row in found]

    async def drop_other_vectors(self, tenant: str, models: Sequence[str]) -> int:
        async def work(tx: Tx) -> int:
            gone = Counter(row[0] for row in await tx.rows(_OTHER_VECTORS, tenant, list(models)))
            for key, count in sorted(gone.items()):
                await tx.rows(VECTORS_GONE, key, count)
            return gone.total()

        return await self._database.write(work)


def _grouped(rows: Sequence[Row], records: Mapping[int, MemoryRecord]) -> dict[str, list[MemoryRecord]]:
    """Oldest first."""
    made: dict[str, list[MemoryRecord]] = {}
    for key, seq in sorted((row[0], row[1]) for row in rows):
        if seq in records:
            made.setdefault(key, []).append(records[seq])
    return made


def _decoded(row: Row) -> MemoryRecord:
    return decode(MemoryRecord, row[0])

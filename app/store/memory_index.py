"""The search index of the memory records, written in the append transaction with the events it belongs to.

One inverted index for both databases: namespaces, their terms with how many records have them, and which records
those are. Leaves to others: what the terms of a text are and how records are ranked (the memory room).
"""

import struct
from collections import Counter
from collections.abc import Sequence
from typing import Final

from app.events import ports
from app.store.decide import ThreadHead
from app.store.engine import Sql, Tx

PUT_CITATION: Final = Sql(
    "INSERT INTO memory_citations (tenant, record_id, sha256) VALUES ($1, $2, $3) "
    "ON CONFLICT (tenant, record_id, sha256) DO NOTHING"
)
_PUT_NAMESPACE: Final = Sql(
    "INSERT INTO memory_namespaces (tenant, namespace, records, length) VALUES ($1, $2, $3, $4) "
    "ON CONFLICT (tenant, namespace) DO UPDATE SET records = memory_namespaces.records + excluded.records, "
    "length = memory_namespaces.length + excluded.length RETURNING key"
)
_PUT_TERM: Final = Sql(
    "INSERT INTO memory_terms (namespace_key, term, records) VALUES ($1, $2, $3) ON CONFLICT (namespace_key, term) "
    "DO UPDATE SET records = memory_terms.records + excluded.records RETURNING term, key",
    bulk="INSERT INTO memory_terms (namespace_key, term, records) SELECT * FROM "
    "unnest($1::bigint[], $2::text[], $3::bigint[]) ON CONFLICT (namespace_key, term) "
    "DO UPDATE SET records = memory_terms.records + excluded.records RETURNING term, key",
)
_PUT_POSTING: Final = Sql(
    "INSERT INTO memory_postings (term_key, seq, occurrences, length) VALUES ($1, $2, $3, $4) "
    "ON CONFLICT (term_key, seq) DO NOTHING",
    bulk="INSERT INTO memory_postings (term_key, seq, occurrences, length) SELECT * FROM "
    "unnest($1::bigint[], $2::bigint[], $3::integer[], $4::integer[]) ON CONFLICT (term_key, seq) DO NOTHING",
)
_PUT_INDEX: Final = Sql(
    "INSERT INTO memory_index (namespace_key, seq, length, fingerprint, slot, terms) VALUES ($1, $2, $3, $4, $5, $6)"
)
_NAMESPACE: Final = Sql("SELECT key FROM memory_namespaces WHERE tenant = $1 AND namespace = $2")
_INDEXED: Final = Sql("SELECT length, terms FROM memory_index WHERE namespace_key = $1 AND seq = $2")
_DROP_POSTINGS: Final = Sql("DELETE FROM memory_postings WHERE term_key {in:$1} AND seq = $2")
_LESS_TERMS: Final = Sql("UPDATE memory_terms SET records = records - 1 WHERE key {in:$1}")
_DROP_TERMS: Final = Sql("DELETE FROM memory_terms WHERE key {in:$1} AND records <= 0")
_DROP_INDEX: Final = Sql("DELETE FROM memory_index WHERE namespace_key = $1 AND seq = $2")
_DROP_VECTORS: Final = Sql("DELETE FROM memory_vectors WHERE namespace_key = $1 AND seq = $2 RETURNING 1")
VECTORS_GONE: Final = Sql("UPDATE memory_namespaces SET vectors_gone = vectors_gone + $2 WHERE key = $1")
_LESS_NAMESPACE: Final = Sql("UPDATE memory_namespaces SET records = records - 1, length = length - $2 WHERE key = $1")
_CITING: Final = Sql("SELECT sha256 FROM memory_citations WHERE tenant = $1 AND record_id {in:$2}")
_DROP_CITATIONS: Final = Sql("DELETE FROM memory_citations WHERE tenant = $1 AND sha256 {in:$2}")
_DROP_BLOBS: Final = Sql("DELETE FROM blobs WHERE tenant = $1 AND sha256 {in:$2}")
_DROP_REFERENCES: Final = Sql("DELETE FROM blob_refs WHERE tenant = $1 AND sha256 {in:$2}")


class IndexChanges:
    """What a commit does to the index. Records that come into force are added together, in few statements; the
    records are those that the commands' events were folded into."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._added: dict[tuple[str, str], list[tuple[int, ports.MemoryIndexed]]] = {}

    def add(self, head: ThreadHead, entry: ports.MemoryIndexed) -> None:
        """A record that has just come into force is in no index yet."""
        record = head.records.memories[entry.record_id]
        self._added.setdefault((head.tenant, record.namespace), []).append((record.seq, entry))

    async def remove(self, head: ThreadHead, change: ports.MemoryUnindexed) -> None:
        await self.write()  # it may have come into force in this very commit
        await _unindex(self._tx, head, change)

    async def write(self) -> None:
        # In one order everywhere, so that replicas wait for each other instead of locking up.
        for (tenant, namespace), entries in sorted(self._added.items(), key=lambda one: one[0]):
            await _index(self._tx, tenant, namespace, entries)
        self._added.clear()


async def _unindex(tx: Tx, head: ThreadHead, change: ports.MemoryUnindexed) -> None:
    digests: list[str] = []
    for record_id in change.record_ids:
        found = head.records.memories.get(record_id)
        if found is not None:
            await unindex_record(tx, head.tenant, found.namespace, found.seq)
            digests += [found.digest] if found.digest is not None else []
    if change.erase:
        await _erase(tx, head.tenant, change.record_ids, digests)


async def index_record(tx: Tx, tenant: str, namespace: str, seq: int, entry: ports.MemoryIndexed) -> None:
    """Once: a record that is in the index already is taken out first."""
    await unindex_record(tx, tenant, namespace, seq)
    await _index(tx, tenant, namespace, [(seq, entry)])


async def _index(tx: Tx, tenant: str, namespace: str, entries: Sequence[tuple[int, ports.MemoryIndexed]]) -> None:
    lengths = {seq: sum(entry.terms.values()) for seq, entry in entries}
    ((place,),) = await tx.rows(_PUT_NAMESPACE, tenant, namespace, len(entries), sum(lengths.values()))
    having = Counter(term for _, entry in entries for term in entry.terms)
    keys: dict[str, int] = {}
    if having:
        # Ordered for the same reason as the namespaces.
        placed = await tx.returning(_PUT_TERM, [(place, term, count) for term, count in sorted(having.items())])
        keys = {row[0]: row[1] for row in placed}
        postings = [
            (keys[term], seq, count, lengths[seq]) for seq, entry in entries for term, count in entry.terms.items()
        ]
        await tx.many(_PUT_POSTING, sorted(postings))
    rows = [
        (place, seq, lengths[seq], entry.fingerprint, entry.slot, pack_keys(sorted(keys[term] for term in entry.terms)))
        for seq, entry in entries
    ]
    await tx.many(_PUT_INDEX, rows)


async def unindex_record(tx: Tx, tenant: str, namespace: str, seq: int) -> None:
    found = await tx.rows(_NAMESPACE, tenant, namespace)
    if not found:
        return
    key = found[0][0]
    gone = await tx.rows(_DROP_VECTORS, key, seq)
    if gone:
        await tx.rows(VECTORS_GONE, key, len(gone))
    indexed = await tx.rows(_INDEXED, key, seq)
    if not indexed:
        return
    length, packed = indexed[0]
    terms = unpack_keys(packed)
    if terms:
        await tx.rows(_DROP_POSTINGS, terms, seq)
        await tx.rows(_LESS_TERMS, terms)
        await tx.rows(_DROP_TERMS, terms)  # a word that no record has any more is forgotten, too
    await tx.rows(_DROP_INDEX, key, seq)
    await tx.rows(_LESS_NAMESPACE, key, length)


async def _erase(tx: Tx, tenant: str, record_ids: Sequence[str], digests: list[str]) -> None:
    """The records' own blobs, and the contexts of all runs that recalled one of them."""
    digests += [row[0] for row in await tx.rows(_CITING, tenant, list(record_ids))]
    if digests:
        for sql in (_DROP_CITATIONS, _DROP_BLOBS, _DROP_REFERENCES):
            await tx.rows(sql, tenant, digests)


def pack_keys(keys: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(keys)}q", *keys)


def unpack_keys(packed: bytes) -> list[int]:
    return list(struct.unpack(f"<{len(packed) // 8}q", packed))

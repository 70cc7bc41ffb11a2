"""Searches the index of the memory records: a bounded number of its entries, in one read.

Leaves to the memory room: what the terms of a query are, and every number of the ranking.
"""

from collections.abc import Sequence
from typing import Final

from app.core.clock import iso
from app.events.catalog.memory import MEMORY_THREAD
from app.memory.ranking import Ranked, Relevance, ceiling, freshness
from app.store.codec import decode
from app.store.engine import Sql, Tx
from app.views.memory_record import MemoryRecord

OF_TENANT: Final = f"r.thread_key = (SELECT t.key FROM threads t WHERE t.tenant = $1 AND t.id = '{MEMORY_THREAD}')"
BY_SEQ: Final = Sql(
    f"SELECT r.state FROM memory_records r WHERE {OF_TENANT} AND r.seq {{in:$2}} AND r.status = 'accepted' "
    "AND (r.expires_at IS NULL OR r.expires_at > $3)"
)
_FRESH: Final = Sql(
    "SELECT r.seq, r.touched_at, r.confidence, CASE WHEN r.touched_at IS NULL THEN r.state END "
    f"FROM memory_records r WHERE {OF_TENANT} AND r.seq {{in:$2}} AND r.status = 'accepted' "
    "AND (r.expires_at IS NULL OR r.expires_at > $3)"
)
CONTENTS: Final = Sql("SELECT sha256, data FROM blobs WHERE tenant = $1 AND sha256 {in:$2}")
NAMESPACE: Final = Sql("SELECT key, records, length FROM memory_namespaces WHERE tenant = $1 AND namespace = $2")
_TERMS: Final = Sql("SELECT key, term, records FROM memory_terms WHERE namespace_key = $1 AND term {in:$2}")
_POSTINGS: Final = Sql("SELECT term_key, seq, occurrences, length FROM memory_postings WHERE term_key {in:$1}")
_NEWEST_POSTINGS: Final = Sql(
    "SELECT term_key, seq, occurrences, length FROM memory_postings WHERE term_key = $1 ORDER BY seq DESC LIMIT $2"
)
_POSTINGS_OF: Final = Sql(
    "SELECT term_key, seq, occurrences, length FROM memory_postings WHERE term_key {in:$1} AND seq {in:$2}"
)

POSTINGS_BUDGET: Final = 800
"""Entries that one search reads of rare terms; the others are common ones."""
REFINED: Final = 64
"""For how many of the best records that rare terms found the common ones are looked up."""
COMMON: Final = 6
"""How many of the common terms take part: those that the fewest records have."""
RERANKED: Final = 200
"""Of the most relevant records, how many may be ranked by recency and confidence as well."""
_LOADED: Final = 64
"""Records that are looked at together: the next only if they could still be among the best."""


async def search(tx: Tx, tenant: str, namespace: str, terms: Sequence[str], limit: int, now: int) -> list[Ranked]:
    relevant = await _relevant(tx, tenant, namespace, terms, max(RERANKED, limit))
    size, at = max(_LOADED, limit), iso(now)
    best: list[tuple[float, int]] = []
    for start in range(0, len(relevant), size):
        if len(best) >= limit and best[limit - 1][0] > ceiling(relevant[start][1]):
            break
        page = dict(relevant[start : start + size])
        for seq, touched_at, confidence, state in await tx.rows(_FRESH, tenant, list(page), at):
            if state is not None:
                record = decode(MemoryRecord, state)
                touched_at, confidence = record.touched_at, record.confidence
            best.append((ceiling(page[seq]) * freshness(touched_at, confidence, now), seq))
        best.sort(reverse=True)  # of equals the newest first
    scores = {seq: score for score, seq in best[:limit]}
    rows = await tx.rows(BY_SEQ, tenant, list(scores), at) if scores else []
    records = {record.seq: record for record in (decode(MemoryRecord, row[0]) for row in rows)}
    return await _with_contents(tx, tenant, [(records[seq], score) for seq, score in scores.items()])


async def _with_contents(tx: Tx, tenant: str, found: Sequence[tuple[MemoryRecord, float]]) -> list[Ranked]:
    digests = [record.digest for record, _ in found if record.digest is not None]
    stored = {digest: bytes(data) for digest, data in await tx.rows(CONTENTS, tenant, digests)} if digests else {}
    return [Ranked(record, score, stored.get(record.digest or "")) for record, score in found]


async def _relevant(tx: Tx, tenant: str, namespace: str, terms: Sequence[str], limit: int) -> list[tuple[int, float]]:
    known = await tx.rows(NAMESPACE, tenant, namespace)
    if not known:
        return []
    key, records, length = known[0]
    found = await tx.rows(_TERMS, key, list(terms))
    # Rare terms first; the term itself decides between equals, because keys may differ between databases.
    counted = [(row[0], row[2]) for row in sorted(found, key=lambda row: (row[2], row[1]))]
    rare: dict[int, int] = {}
    left = POSTINGS_BUDGET
    for term, count in counted:
        if count > left:
            break
        rare[term] = count
        left -= count
    common = dict(counted[len(rare) : len(rare) + COMMON])
    relevance = Relevance(records, length)
    if rare:
        relevance.add(rare, await tx.rows(_POSTINGS, list(rare)))
    elif common:
        rarest = next(iter(common))
        relevance.add({rarest: common.pop(rarest)}, await tx.rows(_NEWEST_POSTINGS, rarest, left))
    if common:
        # They decide only among the best of what the rarer ones found.
        best = [seq for seq, _ in relevance.best(REFINED)]
        relevance.add(common, await tx.rows(_POSTINGS_OF, list(common), best))
    return relevance.best(limit)

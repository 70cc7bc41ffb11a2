"""The order of what a search found: BM25, then how recent and how certain each record is.

Pure functions over numbers that both databases give alike, so that both give the same order. Leaves to the store: which
records have a term; to `terms`: what a term is.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from app.views.memory_record import MemoryRecord

K1: Final = 1.2
B: Final = 0.75
HALF_LIFE_MS: Final = 30 * 86_400_000
"""After this time without use a record counts half as recent."""
_HALF_SCORE: Final = 2.0
"""The BM25 score that becomes 0.5: scores are shown between 0 and 1."""
RECIPROCAL: Final = 60
"""The constant of reciprocal rank fusion, as it is usually chosen."""


@dataclass(frozen=True, slots=True)
class Matches:
    """What the index says about a query in one namespace."""

    records: int = 0
    length: int = 0
    """Of all records together, in terms."""
    having: Mapping[str, int] = field(default_factory=dict)
    """Each term of the query that occurs: how many records have it."""
    postings: Mapping[str, Sequence[tuple[int, int, int]]] = field(default_factory=dict)
    """Each term: `(seq, occurrences, length)` of the records that were looked at."""


@dataclass(frozen=True, slots=True)
class Ranked:
    record: MemoryRecord
    score: float


def relevance(matches: Matches, limit: int) -> list[tuple[int, float]]:
    """`(seq, BM25)`, best first; of equals the newest."""
    if not matches.records:
        return []
    average = max(1.0, matches.length / matches.records)
    scores: dict[int, float] = {}
    for term in sorted(matches.postings):  # in one order: sums of floats depend on it
        having = min(matches.having[term], matches.records)
        weight = math.log(1 + (matches.records - having + 0.5) / (having + 0.5))
        for seq, occurrences, length in matches.postings[term]:
            share = occurrences * (K1 + 1) / (occurrences + K1 * (1 - B + B * length / average))
            scores[seq] = scores.get(seq, 0.0) + weight * share
    best = sorted(scores.items(), key=lambda found: (-found[1], -found[0]))
    return best[:limit]


def weighted(relevant: Sequence[tuple[int, float]], records: Mapping[int, MemoryRecord], now: int) -> list[Ranked]:
    """Relevance with recency and confidence, between 0 and 1. What is not among the records is left out."""
    made = [
        Ranked(records[seq], score / (score + _HALF_SCORE) * freshness(records[seq], now))
        for seq, score in relevant
        if seq in records
    ]
    return sorted(made, key=lambda ranked: (-ranked.score, -ranked.record.seq))


def freshness(record: MemoryRecord, now: int) -> float:
    """Between 0.25 and 1: recency and confidence each decide about half."""
    age = max(0, now - max(record.created_at, record.used_at))
    recency = math.pow(0.5, age / HALF_LIFE_MS)
    return (0.5 + 0.5 * recency) * (0.5 + 0.5 * record.confidence)


def fused(*orders: Sequence[Ranked]) -> list[Ranked]:
    """One order from several by reciprocal rank, between 0 and 1."""
    scores: dict[int, float] = {}
    records: dict[int, MemoryRecord] = {}
    for order in orders:
        for place, ranked in enumerate(order):
            seq = ranked.record.seq
            records[seq] = ranked.record
            scores[seq] = scores.get(seq, 0.0) + (RECIPROCAL + 1) / (RECIPROCAL + 1 + place) / len(orders)
    made = [Ranked(records[seq], score) for seq, score in scores.items()]
    return sorted(made, key=lambda ranked: (-ranked.score, -ranked.record.seq))

"""The order of what a search found: BM25, then how recent and how certain each record is.

Pure functions over numbers that both databases give alike, so that both give the same order. Leaves to the store: which
records have a term; to `terms`: what a term is.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Final

from app.core.value import contract_value
from app.views.memory_record import MemoryRecord

HALF_LIFE_MS: Final = 30 * 86_400_000
"""After this time without use a record counts half as recent."""
USED_EVERY_MS: Final = 86_400_000
"""That a record was used is recorded once in this time: it decides about recency, in days."""
_HALF_SCORE: Final = 2.0
"""The BM25 score that becomes 0.5: scores are shown between 0 and 1."""
RECIPROCAL: Final = 60
"""The constant of reciprocal rank fusion, as it is usually chosen."""

# BM25 with k1 = 1.2 and b = 0.75, in whole numbers: their sum is the same in whatever order a database gives the rows.
# The scales keep most sums under 2**30, which Python sorts fastest.
_WEIGHT: Final = 1_000
_SHARE: Final = 10_000
_SCALE: Final = _WEIGHT * _SHARE
_OCCURRENCE: Final = 1_000  # thousandths, as the next two: k1 * (1 - b) and k1 * b
_FLAT: Final = 300
_BY_LENGTH: Final = 900
_MOST: Final = 2_200  # k1 + 1

Posting = Sequence[int]
"""`(term, seq, occurrences, length)`: a record that has a term, with how many terms it has altogether."""


@contract_value(frozen=True, slots=True)
class Ranked:
    record: MemoryRecord
    score: float
    content: bytes | None = field(default=None, compare=False)
    """The record's blob, where the search has read it along."""


class Relevance:
    """Adds up BM25 for the records of one namespace."""

    def __init__(self, records: int, length: int) -> None:
        """How many records the namespace has, and how many terms they have together."""
        self._records, self._length = max(1, records), max(1, length)
        self._scores: dict[int, int] = {}
        self._shares: dict[tuple[int, int], int] = {}

    def __bool__(self) -> bool:
        return bool(self._scores)

    def add(self, having: Mapping[int, int], postings: Iterable[Posting]) -> None:
        """`having`: each term with how many records have it. A posting is given once."""
        weights = {term: self._weight(count) for term, count in having.items()}
        scores, shares = self._scores, self._shares
        for term, seq, occurrences, length in postings:
            share = shares.get((occurrences, length))
            if share is None:
                share = shares[occurrences, length] = self._share(occurrences, length)
            scores[seq] = scores.get(seq, 0) + weights[term] * share

    def best(self, limit: int) -> list[tuple[int, float]]:
        """`(seq, BM25)`, best first; of equals the newest."""
        scores = self._scores
        newest = sorted(scores, reverse=True)
        newest.sort(key=scores.__getitem__, reverse=True)  # equals keep their order
        return [(seq, scores[seq] / _SCALE) for seq in newest[:limit]]

    def _weight(self, having: int) -> int:
        having = min(having, self._records)
        return round(math.log(1 + (self._records - having + 0.5) / (having + 0.5)) * _WEIGHT)

    def _share(self, occurrences: int, length: int) -> int:
        relative = _FLAT + _BY_LENGTH * length * self._records // self._length
        return occurrences * _MOST * _SHARE // (occurrences * _OCCURRENCE + relative)


def ceiling(relevance: float) -> float:
    """Relevance between 0 and 1: the most that a record of it can score."""
    return relevance / (relevance + _HALF_SCORE)


def ordered(ranked: Iterable[Ranked]) -> list[Ranked]:
    """Best first; of equals the newest."""
    return sorted(ranked, key=lambda one: (-one.score, -one.record.seq))


def freshness(touched_at: int, confidence: float, now: int) -> float:
    """Between 0.25 and 1: recency and confidence each decide about half."""
    age = max(0, now - touched_at)
    recency = math.pow(0.5, age / HALF_LIFE_MS)
    return (0.5 + 0.5 * recency) * (0.5 + 0.5 * confidence)


def fused(*orders: Sequence[Ranked]) -> list[Ranked]:
    """One order from several by reciprocal rank, between 0 and 1."""
    scores: dict[int, float] = {}
    records: dict[int, MemoryRecord] = {}
    for order in orders:
        for place, ranked in enumerate(order):
            seq = ranked.record.seq
            records[seq] = ranked.record
            scores[seq] = scores.get(seq, 0.0) + (RECIPROCAL + 1) / (RECIPROCAL + 1 + place) / len(orders)
    return ordered(Ranked(records[seq], score) for seq, score in scores.items())

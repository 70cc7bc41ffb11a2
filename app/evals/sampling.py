"""A sample of cases: the same seed and the same cases give the same sample, whatever order they come in.

Each case draws a number from the seed and its id, and those with the smallest are taken. Stratified by a field, every
value of it gets its share of the sample, rounded so that no share is off by one or more.
"""

from collections import defaultdict
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

from app.core import json
from app.core.value import value
from app.evals.cases import Case

DEFAULT_SIZE: Final = 200


@value(frozen=True, slots=True)
class Stratum:
    value: Any
    """What the cases of it have in the field; None for those that have none."""
    of: int
    taken: int


@value(frozen=True, slots=True)
class Sample:
    cases: list[Case]
    of: int
    strata: list[Stratum]


def sample(cases: Sequence[Case], size: int = DEFAULT_SIZE, seed: int = 0, by: str | None = None) -> Sample:
    """The cases in the order of their ids. All of them when there are not more than `size`."""
    groups: defaultdict[bytes, list[Case]] = defaultdict(list)
    for case in cases:
        groups[_key(case.value_at(by)) if by is not None else b""].append(case)
    names = sorted(groups)
    shares = allocate([len(groups[name]) for name in names], size, [_draw(seed, name) for name in names])
    taken: list[Case] = []
    strata: list[Stratum] = []
    for name, share in zip(names, shares, strict=True):
        group = sorted(groups[name], key=lambda case: (_draw(seed, case.id.encode()), case.id))
        taken += group[:share]
        strata.append(Stratum(None if by is None else group[0].value_at(by), len(group), share))
    return Sample(sorted(taken, key=lambda case: case.id), len(cases), strata)


def allocate(sizes: Sequence[int], size: int, ties: Sequence[bytes]) -> list[int]:
    """How many of each group are taken: each at least the whole part of its exact share, at most one more.

    The places that are left go to the largest remainders, among equal ones by `ties`.
    """
    total = sum(sizes)
    if total <= size:
        return list(sizes)
    shares = [count * size // total for count in sizes]
    remainders = [count * size % total for count in sizes]
    left = size - sum(shares)
    order = sorted(range(len(sizes)), key=lambda number: (-remainders[number], ties[number]))
    for number in order[:left]:
        shares[number] += 1
    return shares


def _draw(seed: int, name: bytes) -> bytes:
    return sha256(b"%d:" % seed + name).digest()


def _key(value: Any) -> bytes:
    """Equal JSON values are one stratum, whatever the order of their keys."""
    return json.canonical({"value": value})

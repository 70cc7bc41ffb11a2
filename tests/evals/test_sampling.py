"""Samples: the same seed and cases give the same one, in any order, and strata are within one of their exact share."""

import random
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.evals.cases import Case
from app.evals.sampling import allocate, sample

STRATA = st.lists(st.sampled_from(["a", "b", "c", None, 1, True, {"x": 1}]), max_size=120)


def cases(strata: list[object]) -> list[Case]:
    return [Case(f"case-{number}", "x", metadata={"kind": kind}) for number, kind in enumerate(strata)]


@pytest.mark.requirement("HK-21")
@settings(max_examples=150, deadline=None)
@given(strata=STRATA, size=st.integers(1, 150), seed=st.integers(0, 2**40), shuffle=st.randoms(use_true_random=False))
def test_sample_is_the_same_whatever_the_order(
    strata: list[object], size: int, seed: int, shuffle: random.Random
) -> None:
    made = cases(strata)
    mixed = list(made)
    shuffle.shuffle(mixed)
    for by in (None, "metadata.kind", "kind"):
        taken, again = sample(made, size, seed, by), sample(mixed, size, seed, by)
        assert [case.id for case in taken.cases] == [case.id for case in again.cases]
        assert len(taken.cases) == min(size, len(made)) == sum(stratum.taken for stratum in taken.strata)


@pytest.mark.requirement("HK-21")
@settings(max_examples=300, deadline=None)
@given(sizes=st.lists(st.integers(1, 5000), min_size=1, max_size=40), size=st.integers(1, 3000))
def test_strata_are_within_one_of_their_exact_share(sizes: list[int], size: int) -> None:
    ties = [b"%d" % number for number in range(len(sizes))]
    shares = allocate(sizes, size, ties)
    total = sum(sizes)
    assert sum(shares) == min(size, total)
    for count, share in zip(sizes, shares, strict=True):
        exact = Fraction(count * min(size, total), total)
        assert abs(share - exact) < 1 and share <= count


def test_another_seed_gives_another_sample() -> None:
    made = cases(["a"] * 1000)
    first, second = (sample(made, 200, seed).cases for seed in (1, 2))
    assert len(first) == len(second) == 200 and first != second
    overlap = len({case.id for case in first} & {case.id for case in second})
    assert 15 <= overlap <= 70  # 40 are expected by chance


def test_equal_values_are_one_stratum_and_missing_ones_another() -> None:
    made = [
        Case("1", "x", metadata={"kind": {"a": 1, "b": 2}}),
        Case("2", "x", metadata={"kind": {"b": 2, "a": 1}}),
        Case("3", "x"),
        Case("4", "x", metadata={"kind": 1}),
        Case("5", "x", metadata={"kind": "1"}),
    ]
    strata = sample(made, 5, 0, "kind").strata
    assert Counter(stratum.of for stratum in strata) == Counter({1: 3, 2: 1})

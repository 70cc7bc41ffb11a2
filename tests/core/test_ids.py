"""Ids say what they name, are unique and rise with time."""

from typing import get_args

import pytest

from app.core.ids import Kind, new_id


@pytest.mark.parametrize("kind", get_args(Kind))
def test_id_has_a_prefix_of_its_kind_and_only_safe_characters(kind: Kind) -> None:
    prefix, _, rest = new_id(kind).rpartition("_")
    assert prefix
    assert len(rest) == 32 and set(rest) <= set("0123456789abcdef")


def test_prefixes_distinguish_the_kinds() -> None:
    assert len({new_id(kind).rpartition("_")[0] for kind in get_args(Kind)}) == len(get_args(Kind))


def test_ids_made_one_after_another_rise() -> None:
    made = [new_id("event") for _ in range(10_000)]
    assert made == sorted(set(made))

"""Failures and exceptions carry a listed code, a message and a remedy."""

import re

import pytest

from app.core.error_codes import CODES, remedy_of
from app.core.errors import Failure, HoldfastError


def test_exception_carries_its_failure() -> None:
    error = HoldfastError("STORAGE_DOWN", "the database does not answer", retryable=True, attempts=3)
    assert error.failure == Failure("STORAGE_DOWN", "the database does not answer", True, {"attempts": 3})
    assert error.code == "STORAGE_DOWN"
    assert error.remedy == CODES["STORAGE_DOWN"].remedy
    assert str(error) == "STORAGE_DOWN: the database does not answer"


def test_a_remedy_refers_to_a_list_of_places_only_where_there_is_one() -> None:
    assert "`issues`" in remedy_of("INVALID_REQUEST", listed=True)
    assert "`issues`" not in Failure("INVALID_REQUEST", "there is no message").remedy


def test_code_that_is_not_listed_cannot_be_used() -> None:
    with pytest.raises(AssertionError, match="error_codes"):
        Failure("MADE_UP", "nobody documented this")


@pytest.mark.parametrize("name", CODES)
def test_code_is_in_capitals_and_its_sentences_are_whole(name: str) -> None:
    assert re.fullmatch(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*", name)
    for sentence in (CODES[name].meaning, CODES[name].remedy):
        assert sentence[0].isupper() or sentence[0] == "`"
        assert sentence.endswith(".")

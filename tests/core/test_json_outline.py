"""Measuring a JSON text before it is parsed: never fewer values than there are, exact keys, any window."""

import json as stdlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core import json
from app.core.json_outline import at_most_values, outline_of

_LEAVES = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text('ab"\\,:[]{}é0123456789', max_size=30)
_DOCUMENTS = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5)
)


def _counted(value: Any) -> tuple[int, int]:
    """(values, keys)"""
    if isinstance(value, dict):
        inner = [_counted(item) for item in value.values()]
        return 1 + sum(values for values, _ in inner), len(value) + sum(keys for _, keys in inner)
    if isinstance(value, list):
        inner = [_counted(item) for item in value]
        return 1 + sum(values for values, _ in inner), sum(keys for _, keys in inner)
    return 1, 0


@given(_DOCUMENTS, st.integers(1, 40), st.booleans())
def test_keys_are_counted_exactly_and_values_never_too_low(value: Any, window: int, ascii_only: bool) -> None:
    data = stdlib.dumps(value, ensure_ascii=ascii_only).encode()
    values, keys = _counted(value)
    found = outline_of(data, window=window)
    assert found.colons == keys
    assert values <= found.values <= at_most_values(data)


@given(st.binary(max_size=200), st.integers(1, 40))
def test_what_is_not_json_is_measured_without_an_error(data: bytes, window: int) -> None:
    assert outline_of(data, window=window).values <= at_most_values(data)


@given(st.integers(0, 10), st.integers(1, 40))
def test_a_long_number_is_seen_across_windows_and_only_outside_strings(padding: int, window: int) -> None:
    space = b" " * padding
    assert outline_of(b"[" + space + b"1234567890123456789]", window=window).long_number
    assert not outline_of(b"[" + space + b'"1234567890123456789"]', window=window).long_number
    assert not outline_of(b"[" + space + b"1234567890,123456789]", window=window).long_number


def test_commas_inside_strings_do_not_count_against_the_limit() -> None:
    text = "a, b: [c] {d} " * 1000
    assert json.loads_strict(stdlib.dumps({"text": text}).encode(), max_values=10) == {"text": text}


@pytest.mark.parametrize(
    "body", [b"[" + b"0," * 10 + b"0]", b"[" + b"[]," * 10 + b"[]]", b'{"a":[{},{},{},{},{},{},{},{},{}]}']
)
def test_a_document_with_too_many_values_is_refused_before_it_is_parsed(body: bytes) -> None:
    with pytest.raises(json.JsonError) as refused:
        json.loads_strict(body, max_values=10)
    assert refused.value.failure.code == "JSON_TOO_MANY_VALUES"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"a":"' + b"x:" * 50_000 + b'","b":1,"b":2}', "JSON_DUPLICATE_KEY"),
        (b'{"a":"' + b"x:" * 50_000 + b'","b":99999999999999999999}', "JSON_NUMBER_RANGE"),
    ],
)
def test_a_large_document_is_as_strict_as_a_small_one(body: bytes, code: str) -> None:
    with pytest.raises(json.JsonError) as refused:
        json.loads_strict(body)
    assert refused.value.failure.code == code

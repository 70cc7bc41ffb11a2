"""JSON in and out: what strangers may send, and the one canonical spelling."""

import json as stdlib
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core import json
from app.core.json import JsonError

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.requirement("S10")
@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"", "JSON_INVALID"),
        (b"{", "JSON_INVALID"),
        (b"[1,]", "JSON_INVALID"),
        (b"{} {}", "JSON_INVALID"),
        (b"NaN", "JSON_INVALID"),
        (b"Infinity", "JSON_INVALID"),
        (b"-Infinity", "JSON_INVALID"),
        (b"1e400", "JSON_INVALID"),
        (b"-1e400", "JSON_INVALID"),
        (b"01", "JSON_INVALID"),
        (b"'a'", "JSON_INVALID"),
        (b'"\xff"', "JSON_INVALID"),
        (b"\xef\xbb\xbf{}", "JSON_INVALID"),
        ('"\u00e9"'.encode("utf-16"), "JSON_INVALID"),
        (b'"\\ud800"', "JSON_INVALID"),
        (b'"\\udc00\\ud800"', "JSON_INVALID"),
        (b'"\xed\xa0\x80"', "JSON_INVALID"),
        (b'"\x00"', "JSON_INVALID"),
        (b'"\\u0000"', "JSON_NUL"),
        (b'[["a\\u0000b"]]', "JSON_NUL"),
        (b'{"a\\u0000": 1}', "JSON_NUL"),
        (b'["%b\\u0000"]' % (b"a" * 70_000), "JSON_NUL"),
        (b'{"a": 1, "a": 1}', "JSON_DUPLICATE_KEY"),
        (b'{"a": 1, "\\u0061": 2}', "JSON_DUPLICATE_KEY"),
        (b'[{"b": {"": 1, "": 2}}]', "JSON_DUPLICATE_KEY"),
        (b"18446744073709551616", "JSON_NUMBER_RANGE"),
        (b"-9223372036854775809", "JSON_NUMBER_RANGE"),
        (b'{"n": [123456789012345678901234567890]}', "JSON_NUMBER_RANGE"),
        (b"[" * 33 + b"]" * 33, "JSON_TOO_DEEP"),
        (b'{"a":' * 33 + b"1" + b"}" * 33, "JSON_TOO_DEEP"),
        (b"[" * 100_000 + b"]" * 100_000, "JSON_TOO_DEEP"),
        (b"[" * 100_000, "JSON_TOO_DEEP"),
    ],
)
def test_what_another_parser_would_read_differently_is_refused_by_code(text: bytes, code: str) -> None:
    with pytest.raises(JsonError) as caught:
        json.loads_strict(text)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"18446744073709551615", 2**64 - 1),
        (b'"\\\\u0000"', "\\u0000"),
        (b"-9223372036854775808", -(2**63)),
        (b" null ", None),
        (b'"\\ud83d\\ude00"', "\N{GRINNING FACE}"),
        (b"1e3", 1000.0),
        (b'{"a": {"a": 1}}', {"a": {"a": 1}}),
    ],
)
def test_values_at_the_edge_of_what_is_allowed_are_read(text: bytes, value: object) -> None:
    assert json.loads_strict(text) == value


def test_thirty_two_levels_are_read() -> None:
    assert json.loads_strict(b"[" * 32 + b"]" * 32) is not None
    assert json.loads_strict(b"[" * 32 + b"1" + b"]" * 32) is not None


@pytest.mark.requirement("S10")
@given(st.binary(max_size=40) | TEXT.map(str.encode))
def test_error_of_strict_reading_never_repeats_the_input(noise: bytes) -> None:
    secret = b'"hunter2-' + noise.hex().encode() + b'"'
    for text in (
        secret + secret,
        b"{" + secret + b":1," + secret + b":2}",
        b"[" + secret + b",1e400]",
        noise + b"!" + secret,
    ):
        with pytest.raises(JsonError) as caught:
            json.loads_strict(text)
        assert "hunter2" not in f"{caught.value} {caught.value.failure}"


@given(VALUES)
def test_strict_reading_gives_what_the_standard_library_gives(value: Any) -> None:
    assert json.loads_strict(stdlib.dumps(value).encode()) == value
    assert json.loads_strict(json.dumps(value)) == value


@given(st.binary(max_size=64))
def test_strict_reading_of_any_bytes_ends_in_a_value_or_a_coded_error(data: bytes) -> None:
    try:
        value = json.loads_strict(data)
    except JsonError:
        return
    assert json.loads(json.canonical(value)) == value


@given(VALUES)
def test_canonical_bytes_do_not_depend_on_key_order_and_read_back_equal(value: Any) -> None:
    written = json.canonical(value)
    assert json.canonical(_reversed(value)) == written
    assert json.canonical(json.loads(written)) == written


@pytest.mark.parametrize("value", [math.nan, math.inf, {"a": [None, -math.inf]}, [(math.nan,)]])
def test_numbers_that_json_does_not_have_are_never_stored_as_null(value: object) -> None:
    with pytest.raises(JsonError) as caught:
        json.canonical(value)
    assert caught.value.code == "JSON_UNENCODABLE"


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, "\ud800", {1: 2}, object(), {"a": b"bytes"}])
def test_value_that_cannot_be_written_is_refused_by_code(value: object) -> None:
    for write in (json.dumps, json.canonical):
        with pytest.raises(JsonError) as caught:
            write(value)
        assert caught.value.code == "JSON_UNENCODABLE"


def test_pretty_is_sorted_indented_and_ends_with_a_newline() -> None:
    assert json.pretty({"b": 1, "a": []}) == b'{\n  "a": [],\n  "b": 1\n}\n'


def _reversed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _reversed(inner) for key, inner in reversed(value.items())}
    return [_reversed(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":1,"a":2}', b'{"a" : 1, "a" : 2}', b'{"a":1,"\\u0061":2}', b'{"x":{"a":":","a":1}}', b'[{"a":1,"a":1}]',
        b'{"a":1,"b":":","a":2}', b'{"":1,"":2}', b'{":":1,":":2}',
    ],
)  # fmt: skip
def test_a_key_named_twice_is_found_however_it_is_written(text: bytes) -> None:
    with pytest.raises(json.JsonError) as refused:
        json.loads_strict(text)
    assert refused.value.code == "JSON_DUPLICATE_KEY"


@pytest.mark.parametrize("text", [b'{"a":1,"b":{"a":":"}}', b'{"a" : "b:c"}', b'["a:b"]', b'{"a":[{"a":1},{"a":2}]}'])
def test_colons_in_texts_and_the_same_key_elsewhere_are_no_duplicates(text: bytes) -> None:
    assert json.loads_strict(text) == json.loads(text)


@pytest.mark.parametrize("number", [b"18446744073709551616", b"-9223372036854775809", b"1" * 40])
def test_an_integer_beyond_64_bits_is_refused_in_a_document_without_colons(number: bytes) -> None:
    with pytest.raises(json.JsonError) as refused:
        json.loads_strict(b"[" + number + b"]")
    assert refused.value.code == "JSON_NUMBER_RANGE"

"""Long strings are read apart from the rest of a text, and nobody can tell from the result."""

import re
import tracemalloc
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.core import json
from app.core.json import JsonError
from app.core.json_long_texts import STRETCH_BYTES, NotApart, put_back, take_out

LONG = "a line of text; " * (2 * STRETCH_BYTES // 16)
PLAIN = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
TEXTS = PLAIN | st.text('\\"/ué€😀\n', max_size=60)
VALUES = st.recursive(
    TEXTS | st.integers(-9, 9) | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=10,
)


def apart(data: bytes) -> Any:
    """As for large texts, with a stretch and pieces that make every string of a few characters a long one."""
    rest, texts = take_out(data, stretch=4)
    try:
        return put_back(orjson.loads(rest), data, texts, piece=32)
    except orjson.JSONDecodeError:
        raise NotApart from None


@given(VALUES, st.booleans())
@example({"a": "😀" * 40}, True)
@example(["x" * 11 + "\\n" * 40], True)
def test_a_value_is_read_as_it_was_written_or_left_to_the_parser(value: Any, escaped: bool) -> None:
    data = orjson.dumps(value)
    if escaped:  # every character beyond ASCII by its number, surrogates included
        data = re.sub(r"[^\x00-\x7f]", lambda found: _escaped(found[0]), data.decode()).encode()
    try:
        read = apart(data)
    except NotApart:
        return
    assert read == value


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[n : n + 2].hex()}" for n in range(0, len(units), 2))


@given(st.text('"\\,:[]{} a1\n', max_size=60) | st.binary(max_size=60).map(lambda raw: raw.decode("latin-1")))
@example('["aaaaaaaaaaaa\\","b":"c"]')
@example('{"a"             :"b"}')
def test_what_the_parser_refuses_is_not_read_apart_either(text: str) -> None:
    data = text.encode("latin-1")
    try:
        read = apart(data)
    except NotApart:
        return
    assert read == orjson.loads(data)


def test_long_strings_are_taken_out_and_put_back() -> None:
    value = {"input": LONG, "parts": [{"data": LONG + "é"}, {"data": "short"}], "text": "\n" + LONG}
    data = orjson.dumps(value)
    rest, texts = take_out(data)
    assert (len(rest) < 1000, len(texts)) == (True, 3)
    assert put_back(orjson.loads(rest), data, texts) == value
    assert json.loads_strict(data, max_values=10) == value


@given(st.lists(st.sampled_from(["plain ", "é", "€", "😀"]), min_size=1, max_size=12))
def test_pieces_whose_characters_take_more_room_than_those_before_are_put_together(kinds: list[str]) -> None:
    value = {"a": "".join(kind * 40 for kind in kinds), "b": ["x" * 100]}
    data = orjson.dumps(value)
    rest, texts = take_out(data, stretch=4)
    assert put_back(orjson.loads(rest), data, texts, piece=64) == value


def test_the_content_of_a_long_string_is_not_copied_with_every_piece() -> None:
    data = orjson.dumps("a" * 32_000_000)
    rest, texts = take_out(data)
    put_back(orjson.loads(rest), data, texts)  # Python specializes the loop the first time
    tracemalloc.start()
    try:
        put_back(orjson.loads(rest), data, texts)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 40_000_000


def test_a_string_alone_is_a_text() -> None:
    assert json.loads_strict(orjson.dumps(LONG)) == LONG


@pytest.mark.parametrize("text", ["\\n" * STRETCH_BYTES * 2, "\\ud83d\\ude00" * STRETCH_BYTES], ids=["breaks", "pairs"])
def test_a_string_of_nothing_but_escapes_is_read_as_a_whole(text: str) -> None:
    data = b'{"input":"%b"}' % text.encode()
    rest, texts = take_out(data)
    with pytest.raises(NotApart):
        put_back(orjson.loads(rest), data, texts)
    assert json.loads_strict(data) == orjson.loads(data)


_LONG = LONG.encode()


@pytest.mark.requirement("S10")
@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b'{"a":"%b","a":1}' % _LONG, "JSON_DUPLICATE_KEY"),
        (b'{"a":"%b","a":"%b"}' % (_LONG, _LONG), "JSON_DUPLICATE_KEY"),
        (b'{"a":"%b\\u0000"}' % _LONG, "JSON_NUL"),
        (b'{"a":"%b\x00"}' % _LONG, "JSON_INVALID"),
        (b'{"a":"%b\n"}' % _LONG, "JSON_INVALID"),
        (b'{"a":"%b\xff"}' % _LONG, "JSON_INVALID"),
        (b'{"a":"%b\\ud800"}' % _LONG, "JSON_INVALID"),
        (b'{"a":"%b' % _LONG, "JSON_INVALID"),
        (b'{"a":"%b\\","b":"c"}' % _LONG, "JSON_INVALID"),
        (b'{"a":"%b","b":123456789012345678901}' % _LONG, "JSON_NUMBER_RANGE"),
        (b'{"a":' + b"[" * 40 + b'"%b"' % _LONG + b"]" * 40 + b"}", "JSON_TOO_DEEP"),
        (b'{"a":"%b","b":[%b1]}' % (_LONG, b"1," * 2000), "JSON_TOO_MANY_VALUES"),
        (b'{"a":[%b1],"b":"c"}' % (b"1," * STRETCH_BYTES), "JSON_TOO_MANY_VALUES"),
    ],
)
def test_what_is_refused_next_to_or_in_a_long_string(data: bytes, code: str) -> None:
    with pytest.raises(JsonError) as refused:
        json.loads_strict(data, max_values=1000)
    assert refused.value.code == code


def test_a_long_key_and_long_white_space_are_read_as_a_whole() -> None:
    for data in (b'{"%b":1}' % _LONG, b'{"a"%b:1}' % (b" " * len(LONG))):
        assert json.loads_strict(data) == orjson.loads(data)

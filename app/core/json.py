"""JSON in and out, strict at the edges and canonical in the log.

orjson does the work; what it lets through (duplicate keys, integers beyond 64 bits, NUL, endless depth)
is refused here, because a value that another parser reads differently cannot be hashed or trusted.
Leaves to others: what a document means (schemas) and how large a body may be (the protocols).
"""

import json as _stdlib
from typing import Any, Final, TypeAlias

import orjson

from app.core.errors import HoldfastError
from app.core.json_long_texts import STRETCH_BYTES, NotApart, put_back, take_out
from app.core.json_outline import at_most_values, outline_of

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
JsonObject: TypeAlias = dict[str, Any]

MAX_DEPTH: Final = 32
MAX_VALUES: Final = 100_000
"""Values of one document that a client sends. Each costs up to a hundred bytes and a microsecond, whatever it says."""
_LARGE_BYTES: Final = 64 * 1024
"""Over it, a search through the whole text at once would keep the interpreter for too long."""
_PLAIN: Final = frozenset({str, int, bool, type(None)})
_INT_MIN: Final = -(2**63)
_INT_MAX: Final = 2**64 - 1
_DIGITS_AS_ZEROS: Final = bytes(0x30 if 0x30 <= byte <= 0x39 else 0x20 for byte in range(256))
_LONG_NUMBER: Final = b"0" * 19
"""A number with fewer digits fits in 64 bits."""

_NUL_ESCAPE: Final = b"\\u0000"

Fragment = orjson.Fragment


class JsonError(HoldfastError):
    """Input that is not JSON as we accept it, or a value that cannot be written as JSON."""


class _DuplicateKey(ValueError):
    pass


def loads(data: bytes | str) -> Any:
    """Parse what a trusted program wrote (our own log, a provider's chunk): fast, not strict."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise JsonError("JSON_INVALID", "the text is not valid JSON") from error


def loads_strict(data: bytes, *, max_depth: int = MAX_DEPTH, max_values: int | None = None) -> Any:
    """Parse what a stranger sent. The error never repeats the input."""
    if len(data) > STRETCH_BYTES:
        rest, texts = take_out(data)
        if texts:
            try:
                value = put_back(_loads_whole(rest, max_depth, max_values), data, texts)
            except (JsonError, NotApart):
                pass  # what is wrong, if anything, is said of the text as it was sent
            else:
                _check_depth(value, max_depth)
                _refuse_nul(value, data)
                return value
    return _loads_whole(data, max_depth, max_values)


def _loads_whole(data: bytes, max_depth: int, max_values: int | None) -> Any:
    if (
        max_values is not None
        and len(data) > max_values  # each takes a character at least
        and at_most_values(data) > max_values
        and outline_of(data, max_values).values > max_values
    ):
        raise JsonError("JSON_TOO_MANY_VALUES", f"the document has more than {max_values} values")
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        # orjson gives up beyond 1024 levels; the sender gets this reason, not that it is invalid JSON.
        if "depth limit" in error.msg:
            raise _too_deep(max_depth) from None
        raise JsonError("JSON_INVALID", "the text is not valid JSON") from None
    keys = _check_depth(value, max_depth)
    _refuse_nul(value, data)
    # Every key that was written has its colon: as many colons as keys means that no key was dropped as a duplicate.
    if len(data) > _LARGE_BYTES:
        outline = outline_of(data)
        if outline.colons == keys and not outline.long_number:
            return value
    elif data.count(b":") == keys and data.translate(_DIGITS_AS_ZEROS).find(_LONG_NUMBER) < 0:
        return value
    try:
        # The second parse exists only to see every pair: orjson keeps the last duplicate in silence.
        _stdlib.loads(data, object_pairs_hook=_refuse_duplicates, parse_int=_bounded_int)
    except _DuplicateKey:
        raise JsonError("JSON_DUPLICATE_KEY", "an object names the same key twice") from None
    except (ValueError, RecursionError):
        raise JsonError("JSON_INVALID", "the text is not valid JSON") from None
    return value


def dumps(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError as error:
        raise JsonError("JSON_UNENCODABLE", "the value cannot be written as JSON") from error


def canonical(value: Any) -> bytes:
    """Sorted keys, no white space: the bytes that are hashed and stored. NaN and infinities are refused."""
    try:
        written = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError as error:
        raise JsonError("JSON_UNENCODABLE", "the value cannot be written as JSON") from error
    # orjson writes them as null in silence, so only a text with a null can hide one. `in` would do the same for several
    # times the cost: it first takes what it looks for as a number, and throws the exception away.
    if written.find(b"null") >= 0 and not _finite(value):
        raise JsonError("JSON_UNENCODABLE", "NaN and infinities cannot be written as JSON")
    return written


def present(document: JsonObject) -> JsonObject:
    """Without what is None: absent and null mean the same on our wires."""
    return {name: value for name, value in document.items() if value is not None}


def pretty(value: Any) -> bytes:
    """For files that people read: sorted, indented, with a final newline."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _finite(value: Any) -> bool:
    waiting = [value]
    for item in waiting:
        if type(item) in _PLAIN:
            continue
        if type(item) is float:
            # NaN and the infinities are the floats that give no zero here.
            if item - item != 0:
                return False
        elif isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, list | tuple):
            waiting.extend(item)
    return True


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> None:
    if len({key for key, _ in pairs}) != len(pairs):
        raise _DuplicateKey


def _bounded_int(text: str) -> None:
    # Twenty digits hold every 64-bit integer; int() on a longer text would be slow work for a stranger.
    if len(text) > 20 or not _INT_MIN <= int(text) <= _INT_MAX:
        raise JsonError("JSON_NUMBER_RANGE", "an integer does not fit in 64 bits")


def _check_depth(value: Any, max_depth: int) -> int:
    """Refuses what is nested too deeply; answers how many keys there are."""
    level: list[Any] = [value]
    depth = keys = 0
    while level:
        below: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is dict:
                keys += len(item)
                below.extend(item.values())
            elif kind is list:
                below.extend(item)
            else:
                continue
            if depth == max_depth:
                raise _too_deep(max_depth)
        level = below
        depth += 1
    return keys


def _refuse_nul(value: Any, data: bytes) -> None:
    """`data` is the text of the value. JSON can write the character only as an escape, so the value of a small text
    without one need not be looked through."""
    if len(data) <= _LARGE_BYTES and data.find(_NUL_ESCAPE) < 0:
        return
    waiting = [value]
    for item in waiting:
        if type(item) is str:
            if "\x00" in item:
                raise JsonError("JSON_NUL", "a string contains the NUL character")
        elif type(item) is dict:
            waiting.extend(item)
            waiting.extend(item.values())
        elif type(item) is list:
            waiting.extend(item)


def _too_deep(max_depth: int) -> JsonError:
    return JsonError("JSON_TOO_DEEP", f"values are nested deeper than {max_depth} levels")

"""Reads long strings of a JSON text piece by piece, apart from the rest of it.

A parser keeps the interpreter until it is done, and nearly all of a very large text is one string: the content of an
image, or a document. So such strings are taken out and a mark stands in for each; what is left is small. Their content
is then read in pieces of a few hundred microseconds, between which other threads run.

Leaves to others: what is accepted (`core.json`). Whatever is not plainly a long string in the place of a value is left
to the parser as a whole: nothing is decided here that it would decide differently.
"""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import orjson

STRETCH_BYTES: Final = 512 * 1024
"""A string without quotes of twice this size is found for sure, a shorter one than this never."""
PIECE_BYTES: Final = 128 * 1024
_PAIR_BYTES: Final = 12
"""The longest escape, of two surrogates: behind a place without a backslash in so many bytes, none is cut in two."""
_TRIES: Final = 1000
"""Places at which a piece may end, until the string is taken to consist of escapes."""


class NotApart(ValueError):
    """The text has to be read as a whole."""


@dataclass(frozen=True, slots=True)
class LongText:
    mark: str
    start: int
    end: int
    """The closing quote."""


def take_out(data: bytes, stretch: int = STRETCH_BYTES) -> tuple[bytes, list[LongText]]:
    """The text with marks, and what they stand for: everything between two quotes that are this far apart."""
    found: list[LongText] = []
    rest: list[bytes] = []
    done = place = 0
    while place + stretch <= len(data):
        if data.find(b'"', place, place + stretch) < 0:
            start, end = data.rfind(b'"', done, place) + 1, data.find(b'"', place + stretch)
            if not start or end < 0:
                break  # no string
            # Nobody can write a mark that he cannot guess.
            found.append(LongText(secrets.token_hex(16), start, end))
            rest += (data[done:start], found[-1].mark.encode())
            done = place = end
        else:
            place += stretch
    rest.append(data[done:])
    return b"".join(rest), found


def put_back(value: Any, data: bytes, texts: list[LongText], piece: int = PIECE_BYTES) -> Any:
    """The value with its long strings; `NotApart` where a mark did not become a value of its own."""
    missing = {text.mark: text for text in texts}
    root = [value]
    waiting: list[Any] = [root]
    while waiting and missing:
        holder = waiting.pop()
        for place, item in holder.items() if type(holder) is dict else enumerate(holder):
            if type(item) is str:
                if (text := missing.pop(item, None)) is not None:
                    holder[place] = _content(data, text, piece)
            elif type(item) is dict or type(item) is list:
                waiting.append(item)
    if missing:
        raise NotApart
    return root[0]


def _content(data: bytes, text: LongText, piece: int) -> str:
    """Python enlarges a string in place that nobody else refers to: new memory is taken a piece at a time. Joining a
    list takes all of it at once, and keeps the interpreter until the system has provided it."""
    content = ""
    for part in _pieces(data, text, piece):
        content += part
    return content


def _pieces(data: bytes, text: LongText, piece: int) -> Iterator[str]:
    place = text.start
    while place < text.end:
        end = text.end if text.end - place <= piece else _border(data, place, place + piece)
        try:
            # With quotes around it, so that the parser checks it as it checks any string.
            yield orjson.loads(b'"%b"' % data[place:end])
        except orjson.JSONDecodeError:
            raise NotApart from None
        place = end


def _border(data: bytes, start: int, place: int) -> int:
    """The last place up to this one that is neither within a character nor within an escape."""
    for _ in range(_TRIES):
        if data[place] & 0b1100_0000 == 0b1000_0000:  # not the first byte of its character
            place -= 1
        elif (backslash := data.rfind(b"\\", place - _PAIR_BYTES, place)) >= 0:
            place = backslash
        else:
            return place
        if place - _PAIR_BYTES <= start:
            break
    raise NotApart

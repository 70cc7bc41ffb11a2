"""Counts what a JSON text holds outside its strings, before anything is parsed.

Parsing costs memory and time per value, so a text of a stranger is measured first. The text is read in windows, each a
few milliseconds at most, so that a thread that measures a large body does not keep the interpreter to itself. Leaves to
others: whether the text is JSON at all (`core.json`); for anything else the counts mean nothing, and nothing breaks.
"""

import re
from typing import Final

from app.core.value import mutable

WINDOW_BYTES: Final = 64 * 1024
_COUNTED_BYTES: Final = 1024 * 1024
_LONG_NUMBER: Final = re.compile(rb"\d{19}")
"""A number with fewer digits fits in 64 bits."""
_OVERLAP: Final = 18
"""Digits of a long number that may stand before the border of a window."""


@mutable(slots=True)
class Outline:
    commas: int = 0
    containers: int = 0
    colons: int = 0
    """One for each key that was written."""
    long_number: bool = False

    @property
    def values(self) -> int:
        """At least as many values as the text has; more only by its empty lists and objects."""
        return 1 + self.commas + self.containers


def at_most_values(data: bytes) -> int:
    """No fewer values than the text has, in a few nanoseconds; commas inside strings count as well."""
    found = 1
    for start in range(0, len(data), _COUNTED_BYTES):
        end = start + _COUNTED_BYTES
        found += data.count(b",", start, end) + data.count(b"[", start, end) + data.count(b"{", start, end)
    return found


class OutlineReader:
    """Counts a text that arrives in pieces."""

    __slots__ = ("_held_back", "_inside", "_tail", "found")

    def __init__(self) -> None:
        self.found = Outline()
        self._inside = False
        self._held_back = self._tail = b""

    def feed(self, piece: bytes) -> None:
        text = self._held_back + piece
        # An escape must not be cut in two: a backslash that begins one waits for the next piece.
        self._held_back = b"\\" if (len(text) - len(text.rstrip(b"\\"))) % 2 else b""
        text = text[: len(text) - len(self._held_back)].replace(b"\\\\", b"").replace(b'\\"', b"")
        pieces = text.split(b'"')
        begins_outside = not self._inside
        outside = b'"'.join(pieces[self._inside :: 2])
        self._inside ^= len(pieces) % 2 == 0
        found = self.found
        found.commas += outside.count(b",")
        found.colons += outside.count(b":")
        found.containers += outside.count(b"[") + outside.count(b"{")
        if begins_outside:
            outside = self._tail + outside
        found.long_number = found.long_number or _LONG_NUMBER.search(outside) is not None
        self._tail = b"" if self._inside else outside[-_OVERLAP:]


def outline_of(data: bytes, max_values: int | None = None, window: int = WINDOW_BYTES) -> Outline:
    """Stops early at more than `max_values`."""
    reader = OutlineReader()
    for start in range(0, len(data), window):
        reader.feed(data[start : start + window])
        if max_values is not None and reader.found.values > max_values:
            break
    return reader.found

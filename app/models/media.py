"""Request bodies with attachments: JSON around base64, encoded once, while it is sent.

The kinds put a placeholder where an attachment belongs; the body is then sent in segments, and the
attachment's bytes are read from where they are, a slice at a time. Nothing ever holds the whole encoded
body.
"""

import secrets
from binascii import b2a_base64
from collections.abc import Iterator
from typing import Any, Final

from app.core import json
from app.models.completion import Media
from app.outside.http import Segments

# A multiple of 3, so that the slices' base64 joins without padding in between.
_SLICE: Final = 48 * 1024


class Attachments:
    def __init__(self) -> None:
        self._mark = ""
        self._media: list[Media] = []

    def base64(self, media: Media) -> str:
        """The placeholder for this attachment's base64 text."""
        if not self._mark:
            # Random, so that no text of a user can pose as a placeholder.
            self._mark = f"@@{secrets.token_hex(12)}@@"
        self._media.append(media)
        return self._mark

    def body(self, document: Any) -> bytes | Segments:
        """The document as JSON. The placeholders must stand in it in the order they were given out."""
        encoded = json.dumps(document)
        if not self._media:
            return encoded
        around = encoded.split(self._mark.encode())
        assert len(around) == len(self._media) + 1, "each placeholder stands in the document once"
        views = [memoryview(media.data).cast("B") for media in self._media]
        length = sum(map(len, around)) + sum((len(view) + 2) // 3 * 4 for view in views)
        return Segments(length, lambda: _pieces(around, views))


def _pieces(around: list[bytes], views: list[memoryview]) -> Iterator[bytes]:
    for text, view in zip(around, views, strict=False):
        yield text
        for start in range(0, len(view), _SLICE):
            yield b2a_base64(view[start : start + _SLICE], newline=False)
    yield around[-1]

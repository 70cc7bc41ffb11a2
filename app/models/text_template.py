"""Reads the parts of a streamed answer by comparing them with an earlier one.

Nearly all parts of an answer say the same except for their text: the bytes before and after it are compared, and only
the texts are parsed, all that arrived together at once. Ours, because this is done for every token of every model.
Leaves to the decoders of the kinds: what a part means; whatever differs anywhere else is theirs to read.
"""

import sys
from collections.abc import Callable
from typing import Any, Final

import orjson

_PROBE: Final = "\0 a text that no model writes"
_PROBE_WRITTEN: Final = orjson.dumps(_PROBE)


class TextTemplate:
    __slots__ = ("_after", "_before", "_end", "_least")

    def __init__(self, before: bytes, after: bytes, least: int) -> None:
        """`before` ends and `after` begins with the quote of the text."""
        self._before, self._after, self._least = before, after, least

    def alike(self, payloads: list[bytes], at: int) -> list[bytes]:
        """The texts, as they are written between their quotes, of the parts from there on up to one that differs in
        anything else, or whose text is empty. What looks like the end of a text may be within it: `joined_text` finds
        that out."""
        before, after, least = self._before, self._after, self._least
        written: list[bytes] = []
        # Not a slice: of a hundred thousand parts that all differ, each would copy those after it.
        for payload in map(payloads.__getitem__, range(at, len(payloads))) if at else payloads:
            text = payload.removeprefix(before).removesuffix(after)
            if not text or len(payload) - len(text) != least:
                break
            written.append(text)
        return written

    def text(self, part: bytes) -> str | None:
        """The text of one part; None if it differs in anything else, or its text is empty."""
        written = part.removeprefix(self._before).removesuffix(self._after)
        if not written or len(part) - len(written) != self._least:
            return None
        try:
            text: str = orjson.loads(b'"%b"' % written)
        except orjson.JSONDecodeError:
            return None
        return text

    def framed(self, data: bytes, payload: bytes) -> "TextTemplate":
        """For data that is one such part with its framing, as this data is with this payload: no line of it begins or
        ends within a text. `NO_TEMPLATE` if the payload is not like the others."""
        before, found, after = data.partition(payload)
        if not found or payload in after or b"\n" in payload or b"\r" in payload or self.text(payload) is None:
            return NO_TEMPLATE
        return TextTemplate(before + self._before, self._after + after, self._least + len(before) + len(after))


NO_TEMPLATE: Final = TextTemplate(b"", b"", sys.maxsize)
"""Nothing is like it."""


def joined_text(written: list[bytes]) -> str | None:
    """What the texts come to, of which each is as it is written between its quotes; None if one of them is no text by
    itself."""
    if not written:
        return ""
    if len(written) == 1:
        try:
            text: str = orjson.loads(b'"%b"' % written[0])
        except orjson.JSONDecodeError:
            return None
        return text
    array = b'","'.join(written)
    if array.find(b'\\","') >= 0:
        return None  # one may end in an escaped quote, and the next one would be taken for its end
    try:
        texts = orjson.loads(b'["%b"]' % array)
    except orjson.JSONDecodeError:
        return None
    # A quote within one of them makes two texts of it.
    return "".join(texts) if len(texts) == len(written) else None


def template_of(payload: bytes, text: str, read: Callable[[Any], str | None]) -> TextTemplate:
    """Of a part with this text; `read` finds the text in the parsed part."""
    written = orjson.dumps(text)
    before, found, after = payload.partition(written)
    if not found or written in after:
        return NO_TEMPLATE  # it is written in another way, or something else says the same
    try:
        if read(orjson.loads(before + _PROBE_WRITTEN + after)) != _PROBE:
            return NO_TEMPLATE
    except (orjson.JSONDecodeError, AttributeError, LookupError, TypeError):
        return NO_TEMPLATE
    return TextTemplate(before + b'"', b'"' + after, len(before) + len(after) + 2)

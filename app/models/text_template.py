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
    __slots__ = ("_after", "_before", "_end", "_least", "_start")

    def __init__(self, before: bytes, after: bytes, least: int) -> None:
        self._before, self._after, self._least = before, after, least
        # Of the text with its quotes, which end what is before it and begin what is after it.
        self._start, self._end = len(before) - 1, 1 - len(after)

    def alike(self, payloads: list[bytes], at: int) -> list[bytes]:
        """The texts, as they are written, of the parts from there on up to one that differs in anything else, or whose
        text is empty. What looks like the end of a text may be within it: `joined_text` finds that out."""
        before, after, least, start, end = self._before, self._after, self._least, self._start, self._end
        written: list[bytes] = []
        # Not a slice: of a hundred thousand parts that all differ, each would copy those after it.
        for payload in map(payloads.__getitem__, range(at, len(payloads))) if at else payloads:
            if len(payload) <= least or not payload.startswith(before) or not payload.endswith(after):
                break
            written.append(payload[start:end])
        return written


NO_TEMPLATE: Final = TextTemplate(b"", b"", sys.maxsize)
"""Nothing is like it."""


def joined_text(written: list[bytes]) -> str | None:
    """What the texts come to; None if one of them is no text by itself."""
    if len(written) == 1:
        try:
            text: str = orjson.loads(written[0])  # it begins with a quote
        except orjson.JSONDecodeError:
            return None
        return text
    array = b",".join(written)
    if array.find(b'\\","') >= 0:
        return None  # one may end in an escaped quote, and the next one would be taken for its end
    try:
        texts = orjson.loads(b"[%b]" % array)
    except orjson.JSONDecodeError:
        return None
    # Each begins and ends with a quote: a quote in between makes two texts of one.
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

"""Reads a part of a streamed answer by comparing it with an earlier one.

Nearly all parts of an answer say the same except for their text: the bytes before and after it are compared, and only
the text is parsed. Ours, because this is done for every token of every model. Leaves to the decoders of the kinds:
what a part means; whatever differs anywhere else is theirs to read.
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

    def text(self, payload: bytes) -> str | None:
        """The text of a part that differs in nothing else; None if it differs, or if its text is empty."""
        if len(payload) > self._least and payload.startswith(self._before) and payload.endswith(self._after):
            try:
                text = orjson.loads(payload[self._start : self._end])
            except orjson.JSONDecodeError:
                return None  # what looks like the end of the text is within it, or it is no JSON at all
            if type(text) is str:
                return text
        return None


NO_TEMPLATE: Final = TextTemplate(b"", b"", sys.maxsize)
"""Nothing is like it."""


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

"""Answers as bytes: JSON documents, pages of them, and content that somebody made and nobody checked."""

from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import quote

from fastapi import Response

from app.core import json
from app.events.envelope import Event

_JSON: Final = "application/json"
_VISIBLE: Final = "".join(map(chr, range(0x21, 0x7F))).replace("%", "")


def json_answer(value: Any, status: int = 200) -> Response:
    return Response(json.dumps(value), status, None, _JSON)


def page_answer(items: Iterable[Any], cursor: str | int | None = None) -> Response:
    return json_answer({"items": list(items), "nextCursor": None if cursor is None else str(cursor)})


def events_answer(events: list[Event], cursor: int | None) -> Response:
    """A list of events without parsing them: their stored bytes are put between brackets."""
    tail = b'],"nextCursor":%s}' % (b"null" if cursor is None else b'"%d"' % cursor)
    return Response(b'{"items":[' + b",".join(event.wire() for event in events) + tail, 200, None, _JSON)


def header_text(text: str) -> str:
    """Any text as a header may carry it: what is not visible ASCII, and the percent sign, is percent-encoded."""
    if text.isascii() and text.isidentifier():  # nearly always it is an id of ours
        return text
    return quote(text, safe=_VISIBLE)


def content_headers(name: str, sha256: str, size: int | None = None) -> dict[str, str]:
    """For bytes that a client or a tool chose: saved, not shown, and never taken for something else."""
    headers = {
        "content-disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}",
        "x-content-type-options": "nosniff",
        "content-security-policy": "sandbox",
        "cache-control": "private, max-age=31536000, immutable",
        "etag": f'"{sha256}"',
    }
    return headers if size is None else headers | {"content-length": str(size)}

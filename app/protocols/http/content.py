"""Stored bytes as an answer: the whole, one range of it, or only its head.

Bytes are never changed once they are stored, so that their hash is a strong ETag. Several ranges in one request are
answered with the whole, as HTTP allows. Leaves to others: where the bytes come from (each route's `read`).
"""

import re
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from fastapi import Request, Response
from fastapi.responses import StreamingResponse

from app.core.errors import Failure
from app.core.value import value
from app.protocols.http.answers import content_headers
from app.protocols.http.errors import answer
from app.protocols.http.uploads import clean_mime

_RANGE: Final = re.compile(r"bytes=\s*([0-9]{0,18})-([0-9]{0,18})\s*", re.IGNORECASE)

PART: Final[dict[int | str, dict[str, Any]]] = {
    206: {
        "description": "The part that `Range` asks for.",
        "content": {"*/*": {"schema": {"type": "string", "format": "binary"}}},
    },
    304: {"description": "The content is the one that `If-None-Match` names."},
}
"""For `responses` of a route that answers so."""

Read = Callable[[int, int], AsyncIterator[bytes]]
"""From a position until before another one."""


@value(frozen=True, slots=True)
class Content:
    name: str
    mime: str
    sha256: str
    size: int


@value(frozen=True, slots=True)
class Unsatisfiable:
    """The range begins after the end."""


def content_answer(request: Request, content: Content, read: Read) -> Response:
    headers = content_headers(content.name, content.sha256, content.size) | {
        "content-type": clean_mime(content.mime),
        "accept-ranges": "bytes",
    }
    etag = headers["etag"]
    if _lists(request.headers.get("if-none-match"), etag):
        return Response(status_code=304, headers={"etag": etag, "cache-control": headers["cache-control"]})
    if request.method == "HEAD":
        return Response(None, 200, headers)
    wanted = _wanted(request, content.size, etag)
    if isinstance(wanted, Unsatisfiable):
        failure = Failure(
            "RANGE_NOT_SATISFIABLE", f"The content has {content.size} bytes, the range begins after them."
        )
        refused = answer(failure, path=request.scope["path"])
        refused.headers["content-range"] = f"bytes */{content.size}"
        return refused
    if wanted is None:
        return StreamingResponse(read(0, content.size), 200, headers)
    start, end = wanted
    headers |= {"content-range": f"bytes {start}-{end - 1}/{content.size}", "content-length": str(end - start)}
    return StreamingResponse(read(start, end), 206, headers)


def parse_range(text: str, size: int) -> tuple[int, int] | Unsatisfiable | None:
    """(start, end), the end not included. None for what is to be ignored: another unit, several ranges, no range."""
    found = _RANGE.fullmatch(text)
    if found is None or found[1] == found[2] == "":
        return None
    if found[1] == "":
        length = min(int(found[2]), size)  # the last so many bytes
        return (size - length, size) if length else Unsatisfiable()
    start = int(found[1])
    if found[2] and int(found[2]) < start:
        return None
    if start >= size:
        return Unsatisfiable()
    return start, min(int(found[2]) + 1, size) if found[2] else size


def _wanted(request: Request, size: int, etag: str) -> tuple[int, int] | Unsatisfiable | None:
    text = request.headers.get("range")
    if text is None or "," in text:
        return None
    # Whoever has a part of something else, or knows only a date, gets the whole.
    if request.headers.get("if-range", etag) != etag:
        return None
    return parse_range(text, size)


def _lists(etags: str | None, etag: str) -> bool:
    if etags is None:
        return False
    return etags.strip() == "*" or etag in {one.strip().removeprefix("W/") for one in etags.split(",")}

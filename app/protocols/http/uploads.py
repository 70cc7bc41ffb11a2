"""Reads an upload as it comes, raw or as multipart/form-data, without ever holding it.

Leaves to others: where it is stored (the store), who may upload (the route).
"""

from collections.abc import AsyncIterator
from email.message import Message
from typing import Final

from fastapi import Request
from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect

from app.core.errors import Failure
from app.protocols.http.errors import HttpProblem

MAX_NAME: Final = 255
_MAX_PART_HEADER: Final = 8 * 1024
_MIME_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789/.+-_;= \"'")


class FileUpload:
    """One file of a request. `begin` reads as far as its name and type are known, `content` the rest."""

    def __init__(self, request: Request, limit: int, name: str | None) -> None:
        self._stream = request.stream()
        self._limit, self._size = limit, 0
        declared = request.headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > limit:
            raise _too_large(limit)
        self.name, self.mime = name or "file", clean_mime(request.headers.get("content-type", ""))
        self._given_name = name
        kind, options = parse_options_header(request.headers.get("content-type", ""))
        self._parts = _Parts(options.get(b"boundary", b"")) if kind == b"multipart/form-data" else None

    async def begin(self) -> None:
        if self._parts is None:
            return
        while self._parts.headers is None:
            await self._feed()
        self.name = self._given_name or self._parts.filename() or "file"
        self.mime = clean_mime(self._parts.headers.get_content_type() if "content-type" in self._parts.headers else "")

    async def content(self) -> AsyncIterator[bytes]:
        if self._parts is None:
            async for chunk in self._chunks():
                yield chunk
            return
        while True:
            pieces, self._parts.pieces = self._parts.pieces, []
            for piece in pieces:
                yield piece
            if self._parts.ended:
                break
            await self._feed()

    async def _feed(self) -> None:
        """One more chunk of the body into the parts."""
        assert self._parts is not None
        async for chunk in self._chunks():
            self._parts.write(chunk)
            return
        raise HttpProblem(Failure("UPLOAD_INVALID", "The form ends before its file does."))

    async def _chunks(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._stream:
                if chunk:
                    self._size += len(chunk)
                    if self._size > self._limit:
                        raise _too_large(self._limit)
                    yield chunk
        except ClientDisconnect:
            raise HttpProblem(Failure("UPLOAD_INVALID", "The upload was broken off.")) from None


class _Parts:
    """The one file of a form, as the parser reports it; other fields are passed over."""

    def __init__(self, boundary: bytes) -> None:
        if not 1 <= len(boundary) <= 70:
            raise HttpProblem(Failure("UPLOAD_INVALID", "The form names no boundary."))
        self.headers: Message | None = None
        self.pieces: list[bytes] = []
        self.ended = False
        self._reading = Message()
        self._field = self._value = b""
        self._taking = False
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin,
                "on_header_field": self._on_field,
                "on_header_value": self._on_value,
                "on_header_end": self._on_header,
                "on_headers_finished": self._on_headers,
                "on_part_data": self._on_data,
                "on_end": self._on_end,
            },
        )

    def write(self, chunk: bytes) -> None:
        try:
            self._parser.write(chunk)
        except MultipartParseError:
            raise HttpProblem(Failure("UPLOAD_INVALID", "The form cannot be read.")) from None

    def filename(self) -> str | None:
        assert self.headers is not None
        return self.headers.get_filename()

    def _begin(self) -> None:
        self._reading, self._taking = Message(), False

    def _on_field(self, data: bytes, start: int, end: int) -> None:
        self._field = self._bounded(self._field + data[start:end])

    def _on_value(self, data: bytes, start: int, end: int) -> None:
        self._value = self._bounded(self._value + data[start:end])

    def _bounded(self, data: bytes) -> bytes:
        if len(data) > _MAX_PART_HEADER:
            raise HttpProblem(Failure("UPLOAD_INVALID", "A part of the form has too long a header."))
        return data

    def _on_header(self) -> None:
        # The first of a name counts, and nobody needs many.
        if len(self._reading) < 10:
            self._reading[self._field.decode("latin-1")] = self._value.decode("utf-8", "replace")
        self._field = self._value = b""

    def _on_headers(self) -> None:
        if self._reading.get_filename() is None:
            return
        if self.headers is not None:
            raise HttpProblem(Failure("UPLOAD_INVALID", "The form has more than one file."))
        self.headers, self._taking = self._reading, True

    def _on_data(self, data: bytes, start: int, end: int) -> None:
        if self._taking:
            self.pieces.append(data[start:end])

    def _on_end(self) -> None:
        self.ended = True


def clean_name(name: str) -> str:
    """The last part of a path, without what no file system or header takes."""
    last = name.replace("\\", "/").rpartition("/")[2]
    kept = "".join(character for character in last if character.isprintable()).strip(". ")
    return kept[:MAX_NAME] or "file"


def clean_mime(mime: str) -> str:
    """A type as it may stand in a header again; anything else is just bytes."""
    mime = mime.strip().lower()
    known = 3 <= len(mime) <= 100 and mime.count("/") == 1 and set(mime) <= _MIME_CHARACTERS
    return mime if known else "application/octet-stream"


def _too_large(limit: int) -> HttpProblem:
    return HttpProblem(Failure("BODY_TOO_LARGE", f"The upload is larger than {limit} bytes."))

"""Media on their way to a model and from it.

To a model: JSON around base64, encoded once, while it is sent. The kinds put a placeholder where an attachment belongs;
the body is then sent in segments, and the attachment's bytes are read from where they are, a slice at a time. Nothing
ever holds the whole encoded body. From a model: checked and hashed once; a model's word for a type is not trusted.
"""

import re
import secrets
from binascii import b2a_base64
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final

from app.core import json
from app.core.base64_text import decode_base64
from app.events.ports import BlobDraft
from app.models.completion import Media, MediaKind, Message, Part, Text
from app.outside.http import Segments

# A multiple of 3, so that the slices' base64 joins without padding in between.
_SLICE: Final = 48 * 1024
MAX_MEDIA: Final = 64
"""Of one answer. What is more is a fault or an attack; the size of all is bounded by the answer's."""
_MIME: Final = re.compile(r"[a-z0-9][a-z0-9.+-]{0,49}/[a-z0-9][a-z0-9.+-]{0,49}")
_UNKNOWN: Final = "application/octet-stream"
_KINDS: Final[dict[str, MediaKind]] = {"image": "image", "audio": "audio", "video": "video"}
_SOUNDS: Final = (
    (b"RIFF", "audio/wav"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
    (b"OggS", "audio/ogg"),
)


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


# -- what a model made ---------------------------------------------------------------------------------


def received(mime: object, data: str) -> Media:
    """Media as a provider sent them. Raises ValueError for what is not base64."""
    named = mime.partition(";")[0].strip().lower() if isinstance(mime, str) else ""
    known = named if _MIME.fullmatch(named) else _UNKNOWN
    return Media(_KINDS.get(known.partition("/")[0], "file"), known, decode_base64(data))


def received_url(url: str) -> Media | None:
    """Media as a data URL; None for any other address, which nobody here asks for."""
    head, comma, data = url.partition(",")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        return None
    return received(head.removeprefix("data:"), data)


def received_sound(data: bytes) -> Media:
    """Sound whose format only the request named: its first bytes tell; raw samples have no mark."""
    mime = next((mime for mark, mime in _SOUNDS if data.startswith(mark)), "audio/pcm")
    return Media("audio", mime, data)


def hashed(part: Part) -> Part:
    """With its hash, so that it is made once."""
    if not isinstance(part, Media) or part.sha256 is not None:
        return part
    return replace(part, sha256=sha256(part.data).hexdigest())


def stored_media(parts: Iterable[Part]) -> tuple[BlobDraft, ...]:
    """The content of what a model made, for the commit that reports it."""
    return tuple(
        BlobDraft(part.sha256, bytes(part.data), part.mime)
        for part in parts
        if isinstance(part, Media) and part.sha256 is not None
    )


def as_users_media(messages: Sequence[Message]) -> Iterable[Message]:
    """For a provider whose assistant messages are only text: what the model made follows as a user's message, behind
    the results of the tools that it called."""
    for message in messages:
        if message.parts and message.role == "assistant":
            return _after_answers(messages)
    return messages


def _after_answers(messages: Iterable[Message]) -> Iterator[Message]:
    waiting: list[Part] = []
    for message in messages:
        if waiting and message.role != "tool":
            yield _shown(waiting)
            waiting = []
        made = [part for part in message.parts if isinstance(part, Media)] if message.role == "assistant" else []
        if made:
            waiting += made
            message = replace(message, parts=tuple(part for part in message.parts if not isinstance(part, Media)))
        yield message
    if waiting:
        yield _shown(waiting)


def _shown(made: list[Part]) -> Message:
    note = "What the assistant made in its last answer:"
    return Message("user", note, (Text(note), *made))

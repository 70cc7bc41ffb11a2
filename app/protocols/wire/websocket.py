"""Text messages as bytes of a websocket. A server's frames carry no mask, so the same bytes serve every client."""

from collections.abc import Iterator
from typing import Final

_TEXT: Final = 0x81
"""A whole text message in one frame."""


def text_frame(payload: bytes) -> bytes:
    size = len(payload)
    if size < 126:
        return bytes((_TEXT, size)) + payload
    if size < 65536:
        return bytes((_TEXT, 126)) + size.to_bytes(2, "big") + payload
    return bytes((_TEXT, 127)) + size.to_bytes(8, "big") + payload


def messages(frames: bytes) -> Iterator[bytes]:
    """The messages of whole frames that `text_frame` made."""
    at = 0
    while at < len(frames):
        size, at = frames[at + 1], at + 2
        if size > 125:
            wide = 2 if size == 126 else 8
            size, at = int.from_bytes(frames[at : at + wide], "big"), at + wide
        yield frames[at : at + size]
        at += size

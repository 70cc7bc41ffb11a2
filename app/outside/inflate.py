"""Unpacks a body that was sent compressed, never to more than the caller has room for.

Leaves to `http`: what to do about a body that is too large or broken (`BrokenBody`).
"""

import zlib
from typing import Final

_GZIP: Final = 16 + zlib.MAX_WBITS
_ZLIB: Final = zlib.MAX_WBITS
_RAW: Final = -zlib.MAX_WBITS


class BrokenBody(Exception):
    """What arrived is not what its header says."""


class Inflater:
    """One body in `gzip` or `deflate`."""

    def __init__(self, gzip: bool) -> None:
        self._gzip = gzip
        self._stream: zlib._Decompress | None = None

    def feed(self, data: bytes, room: int) -> bytes:
        """At most `room` bytes and one more, by which the caller sees that there would have been too many."""
        unpacked: list[bytes] = []
        while data and room >= 0:
            if self._stream is None:
                self._stream = zlib.decompressobj(_GZIP if self._gzip else _deflate_format(data))
            elif self._stream.eof:
                if not self._gzip:
                    raise BrokenBody
                data = data.lstrip(b"\0")  # padding
                if not data:
                    break
                self._stream = zlib.decompressobj(_GZIP)  # several members are one body
            try:
                piece = self._stream.decompress(data, room + 1)
            except zlib.error:
                raise BrokenBody from None
            room -= len(piece)
            unpacked.append(piece)
            data = self._stream.unconsumed_tail or self._stream.unused_data
        return b"".join(unpacked)

    @property
    def ended(self) -> bool:
        """Whether the body may end here. One that never began is a body of nothing."""
        return self._stream is None or self._stream.eof


def _deflate_format(data: bytes) -> int:
    """The name means the zlib format, but many send the bare one, which does not begin like this."""
    return _ZLIB if data[0] & 0x0F == 8 else _RAW


def inflater(encoding: str) -> Inflater | None:
    """None for a body that is as it is; `BrokenBody` for what was not asked for."""
    match encoding.strip().lower():
        case "" | "identity":
            return None
        case "gzip" | "x-gzip":
            return Inflater(gzip=True)
        case "deflate":
            return Inflater(gzip=False)
    raise BrokenBody

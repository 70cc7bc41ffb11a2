"""Incremental parsers for what providers stream: server-sent events and JSON lines.

Ours, because it sits on the hottest path of the product: it takes whatever has arrived and gives back the
whole payloads in it as bytes, in one pass, without an object per line. It cuts only at line ends, so a
character split between two reads stays whole, and each payload is decoded once, by the JSON parser. It
keeps no field but `data`: every provider repeats the event's name inside it. A payload over the limit is an
error, not memory.
"""

from typing import Final

MAX_PAYLOAD: Final = 8 * 1024 * 1024


class PayloadTooLarge(Exception):
    """One event or line is larger than anything a provider sends on purpose."""


class SseParser:
    def __init__(self, limit: int = MAX_PAYLOAD) -> None:
        self._buffer = bytearray()
        self._searched = 0
        self._limit = limit
        self._carriage = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing of what was fed waits for its end."""
        return not (self._buffer or self._carriage)

    def feed(self, data: bytes) -> list[bytes]:
        """The data of each event that is now complete."""
        if self._carriage or data.find(b"\r") >= 0:
            data = self._newlines(data)
        buffer = self._buffer
        if not buffer and data.endswith(b"\n\n"):
            # Whole events arrive, nearly always of one line each: then they are cut apart and not looked at.
            if data.startswith(b"data: "):
                found = data[6:-2].split(b"\n\ndata: ")
                if b"\n" not in b"".join(found):  # to count them in the data takes ten times as long
                    return found
            return _payloads(data[:-2])
        buffer += data
        cut = buffer.rfind(b"\n\n", max(self._searched - 1, 0))
        if cut < 0:
            self._searched = len(buffer)
            if self._searched > self._limit:
                raise PayloadTooLarge
            return []
        complete = bytes(buffer[:cut])
        del buffer[: cut + 2]
        self._searched = len(buffer)
        return _payloads(complete)

    def finish(self) -> list[bytes]:
        """What a server left without its closing blank line."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        return _payloads(rest.removesuffix(b"\n")) if rest.endswith(b"\n") else []

    def _newlines(self, data: bytes) -> bytes:
        """CRLF and CR become LF; a CR at the very end waits, since its LF may be in the next read."""
        if self._carriage:
            data = b"\r" + data
        self._carriage = data.endswith(b"\r")
        if self._carriage:
            data = data[:-1]
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _payloads(text: bytes) -> list[bytes]:
    found = []
    for block in text.split(b"\n\n"):
        if block.startswith(b"data: ") and block.find(b"\n") < 0:
            found.append(block[6:])
        elif payload := _slow(block):
            found.append(payload)
    return found


def _slow(block: bytes) -> bytes:
    lines = [line[5:].removeprefix(b" ") for line in block.split(b"\n") if line.startswith(b"data:")]
    return b"\n".join(lines)


class LineParser:
    """JSON lines: one document per line."""

    def __init__(self, limit: int = MAX_PAYLOAD) -> None:
        self._buffer = bytearray()
        self._limit = limit

    @property
    def is_empty(self) -> bool:
        """Whether nothing of what was fed waits for its end."""
        return not self._buffer

    def feed(self, data: bytes) -> list[bytes]:
        buffer = self._buffer
        buffer += data
        cut = buffer.rfind(b"\n", max(len(buffer) - len(data), 0))
        if cut < 0:
            if len(buffer) > self._limit:
                raise PayloadTooLarge
            return []
        complete = bytes(buffer[:cut])
        del buffer[: cut + 1]
        return [line for line in complete.split(b"\n") if line.strip()]

    def finish(self) -> list[bytes]:
        rest = bytes(self._buffer).strip()
        self._buffer.clear()
        return [rest] if rest else []

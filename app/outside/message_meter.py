"""How much one JSON message of a stranger may hold, known before anybody parses it.

Parsing costs memory and time per value: a listing of 8 MB took seconds and 200 MB. A message is measured in the pieces
in which it arrives, as the body of an answer or as the events of a stream. Leaves to others: what is done about it.
"""

from typing import Final

from app.core.json import MAX_VALUES
from app.core.json_outline import OutlineReader, at_most_values, outline_of

MAX_MESSAGE_BYTES: Final = 16 * 1024 * 1024


def fits(message: bytes) -> bool:
    """Whether a whole message is small enough to be parsed."""
    if len(message) > MAX_MESSAGE_BYTES:
        return False
    return at_most_values(message) <= MAX_VALUES or outline_of(message, MAX_VALUES).values <= MAX_VALUES


class MessageMeter:
    """Of one answer: its body is one message, or a stream of events with a message each."""

    def __init__(self, *, events: bool) -> None:
        self._events = events
        self._line = OutlineReader()
        """What has arrived of a line whose end has not."""
        self._line_bytes = 0
        self._bytes = self._values = 0
        """Of the lines before it, back to the end of an event."""
        self._after_return = False

    def feed(self, piece: bytes) -> bool:
        """False once a message is too large."""
        if not self._events:
            return self._go_on(piece)
        # A line of a stream ends with a line feed, a carriage return, or both, which may come apart.
        if self._after_return and piece.startswith(b"\n"):
            piece = piece[1:]
        self._after_return = piece.endswith(b"\r")
        first, *whole = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        if not self._go_on(first) or not whole:
            return self._is_small()
        last = whole.pop()
        # No string of JSON goes on in another line.
        self._end_line(self._line_bytes, self._line.found.values)
        self._line, self._line_bytes = OutlineReader(), 0
        for line in whole:
            self._end_line(len(line), _values(line))
            if not self._is_small():
                return False
        return self._go_on(last)

    def _go_on(self, piece: bytes) -> bool:
        self._line_bytes += len(piece)
        self._line.feed(piece)
        return self._is_small()

    def _end_line(self, size: int, values: int) -> None:
        if size:
            self._bytes += size
            self._values += values
        else:  # an empty line ends the event
            self._bytes = self._values = 0

    def _is_small(self) -> bool:
        size, values = self._bytes + self._line_bytes, self._values + self._line.found.values
        return size <= MAX_MESSAGE_BYTES and values <= MAX_VALUES


def _values(line: bytes) -> int:
    """Short lines are counted roughly, which takes next to nothing."""
    roughly = at_most_values(line)
    return roughly if roughly < 1000 else outline_of(line).values

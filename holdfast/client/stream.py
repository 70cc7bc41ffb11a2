"""A stream of events as it arrives: lines to events, and where to go on after it was cut.

Pure: nothing here reads from a connection. Both clients feed it.
"""

from collections.abc import Mapping
from typing import Any, Final, cast

import orjson

from holdfast.client.types import Event

PATIENCE_SECONDS: Final = 120.0
"""How long a stream that was cut is tried anew without a single event."""
_TERMINAL: Final = frozenset({"runtime.request.completed", "runtime.request.failed", "runtime.request.cancelled"})


class EventLines:
    """The events of a stream, line by line. `after` is the last one's `seq`, `ended` whether the server said so."""

    def __init__(self, after: int) -> None:
        self.after = after
        self.ended = False
        self._name = ""
        self._data: list[str] = []

    def connect_again(self) -> None:
        """What had arrived of an event in pieces is sent again."""
        self._name, self._data = "", []

    def feed(self, line: str) -> Event | None:
        """The event that this line completes, if it does."""
        field, _, value = line.partition(":")
        if field == "event":
            self._name = value.strip()
        elif field == "data":
            self._data.append(value.removeprefix(" "))
        elif not line and self._data:
            name, data = self._name, orjson.loads("\n".join(self._data))
            self._name, self._data = "", []
            return self._frame(name, data)
        return None

    def _frame(self, name: str, data: Mapping[str, Any]) -> Event | None:
        if name == "end":
            self.ended = True
            return None
        # After a problem the server closes; what stands in the way of the next connection is said there.
        if name == "problem" or data["seq"] <= self.after:
            return None
        self.after = data["seq"]
        return cast(Event, data)


def text_of(event: Event, run_id: str) -> str:
    """The piece of the answer that the event carries; empty for any other event, also of subagents."""
    signal = event["payload"].get("event")
    if event["runId"] != run_id or not isinstance(signal, dict) or signal.get("phase") != "agent.output.delta":
        return ""
    return str(signal.get("text") or "")


def stops(event: Event, run_id: str) -> bool:
    """Whether the run goes no further by itself: it has ended, or it waits for an answer."""
    return event["runId"] == run_id and (event["type"] in _TERMINAL or event["type"] == "runtime.interrupt.raised")

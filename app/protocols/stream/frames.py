"""The frames of `/api/stream` as bytes of the websocket: control frames, and those of an event, made once for all.

Leaves to others: which aliases an event has
(the dialect) and who gets which (the socket).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from app.core import json
from app.core.value import value
from app.events.envelope import Event, iso_at
from app.events.hub import EVERYWHERE
from app.protocols.dialects.codex import Alias
from app.protocols.wire.websocket import text_frame

PONG: Final = text_frame(b'{"type":"pong"}')
INVALID: Final = text_frame(b'{"type":"error","message":"invalid websocket command"}')


def ready(thread_id: str | None) -> bytes:
    return text_frame(json.dumps({"type": "ready", "threadId": thread_id}))


def is_global(event: Event) -> bool:
    """Goes to every socket of the tenant, whatever it is subscribed to."""
    return event.type in EVERYWHERE


@dataclass(frozen=True, slots=True, eq=False)
class Types:
    """A filter by the types of frames: names in which `*` stands for anything. Equal only to itself: cheap to find."""

    patterns: tuple[str, ...]
    matches: "re.Pattern[str]"


@lru_cache(maxsize=1024)
def types_of(patterns: tuple[str, ...]) -> Types:
    """The same filter for the same patterns, so that what it selects is found again."""
    alternatives = (".*".join(map(re.escape, pattern.split("*"))) for pattern in patterns)
    return Types(patterns, re.compile("|".join(alternatives)))


@value(frozen=True, slots=True)
class Part:
    type: str
    everywhere: bool
    data: bytes


class EventFrames:
    """All frames of one event, and the selections of them that sockets have asked for."""

    __slots__ = ("_selected", "parts", "whole")

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = parts
        self.whole = b"".join(part.data for part in parts)
        self._selected: dict[tuple[Types | None, bool], bytes] = {}

    def select(self, types: Types | None, everywhere: bool) -> bytes:
        """Those of the types; with `everywhere` only what goes to everybody."""
        if types is None and not everywhere:
            return self.whole
        key = (types, everywhere)
        found = self._selected.get(key)
        if found is None:
            found = self._selected[key] = _join(self.parts, types, everywhere)
        return found

    def after(self, part: int, types: Types | None) -> bytes:
        """For who had the event up to that part."""
        return _join(self.parts[part + 1 :], types, False)


def _join(parts: Sequence[Part], types: Types | None, everywhere: bool) -> bytes:
    return b"".join(
        part.data
        for part in parts
        if (part.everywhere or not everywhere) and (types is None or types.matches.fullmatch(part.type))
    )


def event_frames(event: Event, aliases: Sequence[Alias]) -> EventFrames:
    everywhere, last = is_global(event), len(aliases)
    own = json.dumps(
        {
            "type": event.type,
            "threadId": None if everywhere else event.thread_id,
            "seq": event.seq,
            "part": 0,
            "last": last == 0,
            "id": event.id,
            "runId": event.run_id,
            "at": iso_at(event.at),
            "actor": event.actor,
            "payload": json.Fragment(event.payload_bytes),
        }
    )
    parts = [Part(event.type, everywhere, text_frame(own))]
    for number, alias in enumerate(aliases, 1):
        frame: dict[str, Any] = {
            "type": alias.type,
            "threadId": alias.thread_id if alias.everywhere else event.thread_id,
            "seq": event.seq,
            "part": number,
            "last": number == last,
            "payload": alias.payload,
        }
        parts.append(Part(alias.type, alias.everywhere, text_frame(json.dumps(frame))))
    return EventFrames(parts)

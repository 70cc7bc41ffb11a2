"""What a client may say on `/api/stream`. Anything else is answered with an error frame, and the socket stays open."""

import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from app.core import json


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Sets or replaces the filter: thread to the `seq` after which it wants to hear; None means live only."""

    threads: dict[str, int | None]


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    pass


@dataclass(frozen=True, slots=True)
class Ping:
    pass


Command: TypeAlias = Subscribe | Unsubscribe | Ping

MAX_THREADS: Final = 100
MAX_SEQ: Final = 2**63 - 1
"""What the databases hold; a cursor over it can only be a mistake."""

_CURSOR: Final = re.compile(r"[0-9]{1,19}")


def parse(data: bytes) -> Command | None:
    """None for what is not a command. Unknown keys are ignored."""
    try:
        told = json.loads_strict(data)
    except json.JsonError:
        return None
    if not isinstance(told, dict):
        return None
    match told.get("type"):
        case "ping":
            return Ping()
        case "unsubscribe":
            return Unsubscribe()
        case "subscribe":
            return _subscribe(told)
    return None


def from_query(threads: list[str], cursors: list[str]) -> Subscribe | Literal["invalid"] | None:
    """The filter that an address asks for. An empty or repeated thread is none; a cursor needs a thread and a number.

    Here and not only as a command: what is heard before a first command arrives would be out of order.
    """
    thread = threads[0] if len(threads) == 1 and threads[0] else None
    if not cursors:
        return None if thread is None else Subscribe({thread: None})
    if thread is None or len(cursors) > 1 or not _CURSOR.fullmatch(cursors[0]) or int(cursors[0]) > MAX_SEQ:
        return "invalid"
    return Subscribe({thread: int(cursors[0])})


def _subscribe(told: dict[str, object]) -> Subscribe | None:
    threads, thread_id, after = told.get("threads"), told.get("threadId"), told.get("afterSeq")
    if threads is None:
        threads = {thread_id: after} if isinstance(thread_id, str) else None
    if not isinstance(threads, dict) or not 0 < len(threads) <= MAX_THREADS:
        return None
    for name, cursor in threads.items():
        if not name or not (cursor is None or (type(cursor) is int and 0 <= cursor <= MAX_SEQ)):
            return None
    return Subscribe(threads)

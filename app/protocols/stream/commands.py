"""What a client may say on `/api/stream`. Anything else is answered with an error frame, and the socket stays open."""

from dataclasses import dataclass
from typing import TypeAlias

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

MAX_THREADS = 100


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


def _subscribe(told: dict[str, object]) -> Subscribe | None:
    threads, thread_id, after = told.get("threads"), told.get("threadId"), told.get("afterSeq")
    if threads is None:
        threads = {thread_id: after} if isinstance(thread_id, str) else None
    if not isinstance(threads, dict) or not 0 < len(threads) <= MAX_THREADS:
        return None
    for name, cursor in threads.items():
        if not name or not (cursor is None or (type(cursor) is int and cursor >= 0)):
            return None
    return Subscribe(threads)

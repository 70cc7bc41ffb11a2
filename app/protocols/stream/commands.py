"""What a client may say on `/api/stream`. Anything else is answered with an error frame, and the socket stays open."""

import re
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from app.core import json
from app.core.value import value
from app.protocols.stream.frames import Types, types_of


@value(frozen=True, slots=True)
class Cursor:
    """The last event that a client has seen, and of that event the last part unless it was the whole."""

    seq: int
    part: int | None = None


@value(frozen=True, slots=True)
class Subscribe:
    """Sets or replaces the filter: thread to the cursor after which it wants to hear; None means live only."""

    threads: Mapping[str, Cursor | None]
    types: Types | None = None


@value(frozen=True, slots=True)
class Unsubscribe:
    pass


@value(frozen=True, slots=True)
class Ping:
    pass


Command: TypeAlias = Subscribe | Unsubscribe | Ping

MAX_THREADS: Final = 100
MAX_TYPES: Final = 50
MAX_COMMAND_BYTES: Final = 256 * 1024
"""A hundred threads with the longest ids, every character of them escaped."""
MAX_COMMAND_VALUES: Final = 1000
MAX_SEQ: Final = 2**63 - 1
"""What the databases hold; a cursor over it can only be a mistake."""

_NUMBER: Final = re.compile(r"[0-9]{1,19}")
_TYPE: Final = re.compile(r"[A-Za-z0-9_.*-]{1,100}")


def parse(data: bytes) -> Command | None:
    """None for what is not a command. Unknown keys are ignored."""
    if len(data) > MAX_COMMAND_BYTES:
        return None
    try:
        command = json.loads_strict(data, max_values=MAX_COMMAND_VALUES)
    except json.JsonError:
        return None
    if not isinstance(command, dict):
        return None
    match command.get("type"):
        case "ping":
            return Ping()
        case "unsubscribe":
            return Unsubscribe()
        case "subscribe":
            return _subscribe(command)
    return None


def from_query(query: Mapping[str, list[str]]) -> Subscribe | Literal["invalid"] | None:
    """The filter that an address asks for. An empty or repeated thread is none; a cursor needs a thread and numbers.

    Here and not only as a command: what is heard before a first command arrives would be out of order.
    """
    named, seqs, parts = query["threadId"], query["afterSeq"], query["afterPart"]
    thread = named[0] if len(named) == 1 and named[0] else None
    types = _types(query["types"] or None)
    if types == "invalid":
        return "invalid"
    if not (seqs or parts):
        if thread is None:
            return None if types is None else Subscribe({}, types)
        return Subscribe({thread: None}, types)
    numbers = [_number(given) for given in (seqs, parts) if given]
    if thread is None or not seqs or None in numbers:
        return "invalid"
    return Subscribe({thread: Cursor(*(number for number in numbers if number is not None))}, types)


def _number(given: list[str]) -> int | None:
    if len(given) > 1 or not _NUMBER.fullmatch(given[0]) or int(given[0]) > MAX_SEQ:
        return None
    return int(given[0])


def _subscribe(command: Mapping[str, Any]) -> Subscribe | None:
    threads = command.get("threads")
    if threads is None:
        named = command.get("threadId")
        threads = {named: _one(command)} if isinstance(named, str) else None
    types = _types(command.get("types"))
    if not isinstance(threads, dict) or not 0 < len(threads) <= MAX_THREADS or types == "invalid":
        return None
    cursors: dict[str, Cursor | None] = {}
    for name, given in threads.items():
        cursor = _cursor(given)
        if not name or cursor == "invalid":
            return None
        cursors[name] = cursor
    return Subscribe(cursors, types)


def _one(command: Mapping[str, Any]) -> Any:
    """The cursor of a command that names one thread, as `threads` would have it."""
    return {"afterSeq": command.get("afterSeq"), "afterPart": command.get("afterPart")}


def _cursor(given: Any) -> Cursor | Literal["invalid"] | None:
    seq, part = (given.get("afterSeq"), given.get("afterPart")) if isinstance(given, dict) else (given, None)
    if seq is None:
        return None if part is None else "invalid"
    if not _is_number(seq) or not (part is None or _is_number(part)):
        return "invalid"
    return Cursor(seq, part)


def _is_number(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_SEQ


def _types(given: Any) -> Types | Literal["invalid"] | None:
    if given is None:
        return None
    if not isinstance(given, list) or not 0 < len(given) <= MAX_TYPES:
        return "invalid"
    if not all(isinstance(pattern, str) and _TYPE.fullmatch(pattern) for pattern in given):
        return "invalid"
    return types_of(tuple(sorted(set(given))))

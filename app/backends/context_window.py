"""What of a conversation a model gets to see: pure functions over messages, the same answer for the same messages.

A call and its results are one unit and never parted. The request that a run works on and the newest unit always stay;
before them as many of the newest units as fit. Sizes are estimates, bytes / 4, as the models room makes them.
Leaves to others: the messages that come before all of them (instructions, skill), and asking for a summary.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from app.core import json
from app.core.json import JsonObject
from app.core.value import value

Unit = tuple[JsonObject, ...]

NOTE_TOKENS: Final = 128
"""Kept free for the note about what is left out; longer notes are cut."""
_MESSAGE_BYTES: Final = 16  # role and separators
_MEDIA_TOKENS: Final = 1000  # what the models room assumes for a picture, whatever its size
_MAX_NAMES: Final = 10


@value(frozen=True, slots=True)
class Room:
    """How much may be sent; None means that nobody says."""

    tokens: int | None = None
    messages: int | None = None

    def holds(self, tokens: int, messages: int) -> bool:
        return (self.tokens is None or tokens <= self.tokens) and (self.messages is None or messages <= self.messages)

    def without(self, tokens: int) -> "Room":
        return self if self.tokens is None else Room(max(0, self.tokens - tokens), self.messages)


@value(frozen=True, slots=True)
class Window:
    """The messages to send, of the thread before and of the run itself, and those that had no room, each in order."""

    earlier: tuple[JsonObject, ...]
    own: tuple[JsonObject, ...]
    left_out: tuple[JsonObject, ...] = ()

    @property
    def messages(self) -> tuple[JsonObject, ...]:
        return (*self.earlier, *self.own)


@value(frozen=True, slots=True)
class Split:
    """What a summary is to replace, and what stays as it is before and after the request."""

    old: tuple[JsonObject, ...]
    earlier: tuple[JsonObject, ...]
    own: tuple[JsonObject, ...]


# -- sizes -----------------------------------------------------------------------------------------


def tokens_of(message: JsonObject) -> int:
    parts, calls = message.get("parts"), message.get("tool_calls")
    size = _MESSAGE_BYTES + (sum(map(_part_bytes, parts)) if parts else _bytes(message["content"]))
    if calls:
        size += sum(len(json.dumps(call["args"])) + len(call["name"]) for call in calls)
    return size // 4 + 1


def total(messages: Iterable[JsonObject]) -> int:
    return sum(map(tokens_of, messages))


def _part_bytes(part: JsonObject) -> int:
    match part["type"]:
        case "text":
            return _bytes(part["text"])
        case "json":
            return len(json.dumps(part["json"]))
    return 4 * _MEDIA_TOKENS


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def shortened(message: JsonObject, limit: int) -> JsonObject:
    """A tool's result cut to so many bytes, saying so; everything else as it is."""
    content = message["content"]
    if message["role"] != "tool" or _bytes(content) <= limit:
        return message
    kept = content.encode("utf-8", "surrogatepass")[:limit].decode("utf-8", "ignore")
    return message | {"content": f"{kept}\n[shortened to {limit} of {_bytes(content)} bytes]"}


# -- units -----------------------------------------------------------------------------------------


def units(messages: Sequence[JsonObject]) -> list[Unit]:
    """Each message alone, but calls together with their results. A result whose call is nowhere is dropped:
    no provider takes it."""
    made: list[list[JsonObject]] = []
    place: dict[str, int] = {}
    for message in messages:
        if message["role"] == "tool":
            of_call = place.get(message.get("tool_call_id", ""))
            if of_call is not None:
                made[of_call].append(message)
            continue
        if calls := message.get("tool_calls"):
            place.update((call["id"], len(made)) for call in calls)
        made.append([message])
    return [tuple(unit) for unit in made]


def _flat(found: Iterable[Unit]) -> tuple[JsonObject, ...]:
    return tuple(message for unit in found for message in unit)


# -- the sliding window ----------------------------------------------------------------------------


def window(earlier: Sequence[JsonObject], own: Sequence[JsonObject], room: Room) -> Window:
    """`own` are the messages of this run, of which the first is its request; `earlier` is the thread before it."""
    if not earlier and len(own) == 1:
        return Window((), (own[0],))
    before, request, after = units(earlier), own[0], units(own[1:])
    everything = Window(_flat(before), (request, *_flat(after)))
    # Counting is cheap compared with weighing, and what is too many need not be weighed.
    if room.holds(0, len(everything.messages)) and room.holds(total(everything.messages), 0):
        return everything
    room = room.without(NOTE_TOKENS)
    tokens, count, kept = tokens_of(request), 1, 0
    for unit in reversed(before + after):
        tokens, count = tokens + total(unit), count + len(unit)
        # Whatever its size the newest unit stays, so that a model always sees the result it waits for.
        if not room.holds(tokens, count) and not (kept == 0 and after):
            break
        kept += 1
    own_kept = min(kept, len(after))
    start = len(before) - (kept - own_kept)
    # A conversation begins with what somebody asked, and some providers insist on it.
    while start < len(before) and before[start][0]["role"] != "user":
        start += 1
    cut = len(after) - own_kept
    left_out = (*_flat(before[:start]), *_flat(after[:cut]))
    return Window(_flat(before[start:]), (request, *_flat(after[cut:])), left_out)


def note(left_out: Sequence[JsonObject]) -> JsonObject | None:
    """What a model should know of the messages it does not see: how many, their tools and files."""
    if not left_out:
        return None
    calls = [call for message in left_out if "tool_calls" in message for call in message["tool_calls"]]
    tools = Counter(call["name"] for call in calls)
    parted = [message for message in left_out if "parts" in message]
    files = [part.get("name") or part["type"] for message in parted for part in _files(message)]
    said = [f"{len(left_out)} earlier messages are not shown."]
    if tools:
        said.append(
            "Tools used in them: " + ", ".join(f"{name} ({n})" for name, n in tools.most_common(_MAX_NAMES)) + "."
        )
    if files:
        said.append("Files in them: " + ", ".join(files[:_MAX_NAMES]) + ".")
    text = " ".join(said)
    return {"role": "system", "content": _cut(text, NOTE_TOKENS * 4 - _MESSAGE_BYTES - 4)}


def _files(message: JsonObject) -> list[Any]:
    return [part for part in message.get("parts", ()) if part["type"] not in ("text", "json")]


def _cut(text: str, limit: int) -> str:
    return text if _bytes(text) <= limit else text.encode("utf-8", "surrogatepass")[:limit].decode("utf-8", "ignore")


# -- the summary -----------------------------------------------------------------------------------


def split(earlier: Sequence[JsonObject], own: Sequence[JsonObject], keep_last: int) -> Split:
    """What is older than the last so many messages, the request excepted; a unit that reaches into them stays whole."""
    before, after = units(earlier), units(own[1:])
    kept = count = 0
    for unit in reversed(before + after):
        if count >= keep_last:
            break
        kept, count = kept + 1, count + len(unit)
    own_kept = min(kept, len(after))
    start, cut = len(before) - (kept - own_kept), len(after) - own_kept
    return Split((*_flat(before[:start]), *_flat(after[:cut])), _flat(before[start:]), (own[0], *_flat(after[cut:])))


def transcript(messages: Sequence[JsonObject], room: int | None, message_bytes: int = 4000) -> str:
    """Messages as plain text for a summary: nothing in it is a call or an instruction any more. Of more than there is
    room for, in tokens, the oldest go."""
    lines = [_line(message, message_bytes) for message in messages]
    left = None if room is None else room * 4
    kept: list[str] = []
    for line in reversed(lines):
        if left is not None:
            left -= _bytes(line) + 1
            if left < 0:
                break
        kept.append(line)
    return "\n".join(reversed(kept))


def _line(message: JsonObject, limit: int) -> str:
    said = [message["content"]] if message["content"] else []
    said += [f"[calls {call['name']} {json.dumps(call['args']).decode()}]" for call in message.get("tool_calls", ())]
    said += [f"[{part['type']} {part.get('name') or ''}]" for part in _files(message)]
    who = message.get("name") or message["role"]
    return f"{who}: {_cut(' '.join(said), limit)}"

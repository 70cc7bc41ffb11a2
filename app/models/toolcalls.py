"""Tool calls put together from the pieces that a stream brings; parsed once, when complete.

Also their ids. What a provider calls a call is never trusted: models repeat ids, in one answer and in later ones, and
some upstreams number the calls of each conversation from zero. `UpstreamIds` gives every call an id of ours; the
provider gets its own back (`with_upstream_ids`), because some providers refuse an id of another form.
"""

import hashlib
import re
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from app.core import json
from app.core.ids import new_id
from app.models.completion import Message, Thought, ToolCall
from app.models.contract import ToolCallDelta

ANY_ID: Final = re.compile(r"[!-~]{1,512}")
"""What an id of an upstream may be to be sent back to it: printable, without spaces, not a text of its own."""
PLAIN_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class OwnId(str):
    """An id that was made here for a call to which the provider gave none. No provider can send one."""

    __slots__ = ()


def given_id(theirs: object) -> str:
    """The id that a provider gave to a call, or one of ours where it gave none."""
    return theirs if isinstance(theirs, str) and theirs else OwnId(new_id("call"))


class UpstreamIds:
    """Our ids for the calls of one answer, by the part of the stream that brings them."""

    def __init__(self) -> None:
        self._of_part: dict[int, str] = {}
        # By the provider's id, in order, so that an answer of thousands of calls is not searched for each of them.
        self._open: dict[str, deque[str]] = {}
        self._made: dict[str, deque[str]] = {}

    def of_delta(self, delta: ToolCallDelta) -> str:
        known = self._of_part.get(delta.part)
        if known is None:
            known = self._of_part[delta.part] = _ours(delta.id)
            self._open.setdefault(delta.id, deque()).append(known)
        return known

    def of_call(self, call: ToolCall) -> ToolCall:
        """A complete call is the first part with the provider's id that was not complete yet."""
        waiting = self._open.get(call.id)
        ours = waiting.popleft() if waiting else _ours(call.id)
        self._made.setdefault(call.id, deque()).append(ours)
        if isinstance(call.id, OwnId) or ANY_ID.fullmatch(call.id) is None:
            return call._replace(id=ours)
        return call._replace(id=ours, upstream_id=call.id)

    def of_thoughts(self, thoughts: Iterable[Thought]) -> tuple[Thought, ...]:
        """Signatures of calls stay with their calls; of several with one id, in order."""
        left = {theirs: deque(made) for theirs, made in self._made.items()}
        bound: list[Thought] = []
        for thought in thoughts:
            if thought.call_id is not None:
                found = left.get(thought.call_id)
                if not found:
                    continue
                thought = Thought(thought.provider, thought.text, thought.signature, found.popleft())
            bound.append(thought)
        return tuple(bound)


def _ours(theirs: str) -> str:
    return str(theirs) if isinstance(theirs, OwnId) else new_id("call")


def with_upstream_ids(messages: tuple[Message, ...], form: re.Pattern[str] = ANY_ID) -> tuple[Message, ...]:
    """The conversation with the ids that a provider is to see, all of this form: for each call the upstream's own
    where no other call has it, else ours."""
    ids: dict[str, str] = {}
    taken: set[str] = set()
    for message in messages:
        for call in message.tool_calls:
            theirs = call.upstream_id
            if theirs is None or theirs in taken or form.fullmatch(theirs) is None:
                theirs = _of_form(call.id, form)
            taken.add(theirs)
            ids[call.id] = theirs
    if not ids or all(ours == theirs for ours, theirs in ids.items()):
        return messages
    return tuple(_renamed(message, ids) for message in messages)


def _of_form(call_id: str, form: re.Pattern[str]) -> str:
    """An id that a client brought along may be anything."""
    if form.fullmatch(call_id) is not None:
        return call_id
    return "call_" + hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _renamed(message: Message, ids: Mapping[str, str]) -> Message:
    if message.tool_call_id is not None:
        return replace(message, tool_call_id=ids.get(message.tool_call_id, message.tool_call_id))
    if not message.tool_calls:
        return message
    thoughts = tuple(
        thought if thought.call_id is None else replace(thought, call_id=ids.get(thought.call_id, thought.call_id))
        for thought in message.thoughts
    )
    calls = tuple(call._replace(id=ids[call.id]) for call in message.tool_calls)
    return replace(message, tool_calls=calls, thoughts=thoughts)


def parsed_call(call_id: str, name: str, raw: str) -> ToolCall:
    """Arguments that are no JSON object travel as `{}` with their text, so that the guard can repair them."""
    if not raw.strip():
        return ToolCall(call_id, name, {})
    try:
        args = json.loads(raw)
    except json.JsonError:
        return ToolCall(call_id, name, {}, raw)
    return ToolCall(call_id, name, args) if isinstance(args, dict) else ToolCall(call_id, name, {}, raw)


class CallPieces:
    """The calls of one answer, by the provider's index."""

    def __init__(self) -> None:
        self._calls: dict[int, list[str]] = {}
        self._pieces: dict[int, list[str]] = {}

    def add(self, index: int, call_id: str | None, name: str | None, text: str) -> ToolCallDelta:
        known = self._calls.get(index)
        if known is None:
            known = self._calls[index] = [given_id(call_id), name or ""]
            self._pieces[index] = []
        elif name and not known[1]:
            known[1] = name
        if text:
            self._pieces[index].append(text)
        return ToolCallDelta(index, known[0], known[1], text)

    def complete(self) -> list[ToolCall]:
        if not self._calls:
            return []
        calls = [
            parsed_call(ids[0], ids[1], "".join(self._pieces[index])) for index, ids in sorted(self._calls.items())
        ]
        self._calls.clear()
        return calls

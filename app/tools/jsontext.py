"""Reads arguments that are almost JSON, when they have one obvious reading; None when they have not.

Understood: code fences, trailing commas, single quotes, bare keys, Python's True, False and None, raw line
breaks in strings, JSON inside a JSON string, and missing closing brackets at the very end. What was cut off
inside a value, names a key twice or goes on after the document is not read at all.
"""

import math
import re
from dataclasses import field
from typing import Any, Final

from app.core import json
from app.core.value import mutable, value

_MAX_TEXT: Final = 1024 * 1024
_MAX_DEPTH: Final = json.MAX_DEPTH
_FENCE: Final = re.compile(r"\A\s*```[A-Za-z0-9_-]*[ \t]*\r?\n(.*?)\r?\n?[ \t]*```\s*\Z", re.DOTALL)
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORD: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*")
_WORDS: Final = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
# Without \' on purpose: it is not JSON, and what stood there before somebody replaced the quotes is open.
_ESCAPES: Final = {
    '"': '"',
    "\\": "\\",
    "/": "/",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
}
_HEX4: Final = re.compile(r"[0-9a-fA-F]{4}")


@value(frozen=True, slots=True)
class JsonReading:
    value: dict[str, Any]
    kinds: tuple[str, ...]
    """What had to be overlooked, e.g. ("json_fence", "json_trailing_comma")."""
    closed_at: tuple[str, ...] = ()
    """JSON pointers of the containers whose closing bracket was missing; more may be missing than that."""


def read(text: str, *, complete: bool = False) -> JsonReading | None:
    """`complete` says that nothing was cut off the text, so that its last number is whole."""
    if len(text) > _MAX_TEXT:
        return None
    kinds: list[str] = []
    fenced = _FENCE.match(text)
    if fenced is not None:
        text = fenced[1]
        kinds.append("json_fence")
    value = _strict(text)
    if isinstance(value, str):
        kinds.append("json_in_string")
        inner = _strict(value)
        return JsonReading(inner, tuple(kinds)) if isinstance(inner, dict) else None
    if isinstance(value, dict):
        return JsonReading(value, tuple(kinds)) if kinds else None
    if value is not None:
        return None
    parser = _Parser(text, complete)
    try:
        value = parser.document()
    except _Unreadable:
        return None
    # Once more through the strict parser: depth, 64-bit numbers and surrogates are bounded there.
    clean = _strict(_text_of(value))
    if not isinstance(clean, dict):
        return None
    return JsonReading(clean, tuple(kinds) + tuple(parser.kinds), tuple(parser.closed_at))


def _strict(text: str) -> Any:
    try:
        return json.loads_strict(text.encode())
    except (json.JsonError, UnicodeEncodeError):
        return None


def _text_of(value: Any) -> str:
    try:
        return json.dumps(value).decode()
    except json.JsonError:
        return ""


class _Unreadable(Exception):
    pass


@mutable(slots=True)
class _Parser:
    text: str
    complete: bool
    at: int = 0
    path: list[str] = field(default_factory=list)
    kinds: dict[str, None] = field(default_factory=dict)
    closed_at: list[str] = field(default_factory=list)

    def document(self) -> Any:
        self.space()
        if self.peek() != "{":
            raise _Unreadable
        value = self.value()
        self.space()
        if self.at != len(self.text):
            raise _Unreadable
        return value

    def value(self) -> Any:
        if len(self.path) > _MAX_DEPTH:
            raise _Unreadable
        character = self.peek()
        if character == "{":
            return self.container("}")
        if character == "[":
            return self.container("]")
        if character in ('"', "'"):
            return self.string()
        number = _NUMBER.match(self.text, self.at)
        if number is not None:
            return self.number(number)
        return self.word()

    def container(self, closer: str) -> Any:
        members: dict[str, Any] = {}
        items: list[Any] = []
        self.at += 1
        after_value = False
        while True:
            self.space()
            character = self.peek()
            if character == "":
                return self.unclosed(members if closer == "}" else items, after_value)
            if character == closer:
                self.at += 1
                return members if closer == "}" else items
            if after_value:
                if character != ",":
                    raise _Unreadable
                self.at += 1
                self.space()
                if self.peek() == closer:
                    self.kinds["json_trailing_comma"] = None
                elif self.peek() == "":
                    raise _Unreadable  # something was to follow, and it is lost
                after_value = False
                continue
            if closer == "}":
                self.member(members)
            else:
                self.path.append(str(len(items)))
                items.append(self.value())
                self.path.pop()
            after_value = True

    def unclosed(self, value: Any, after_value: bool) -> Any:
        if not after_value:
            raise _Unreadable
        self.kinds["json_unclosed"] = None
        self.closed_at.append("".join("/" + step.replace("~", "~0").replace("/", "~1") for step in self.path))
        return value

    def member(self, members: dict[str, Any]) -> None:
        if self.peek() in ('"', "'"):
            key = self.string()
        else:
            word = _WORD.match(self.text, self.at)
            if word is None:
                raise _Unreadable
            key, self.at = word[0], word.end()
            self.kinds["json_bare_key"] = None
        self.space()
        if self.peek() != ":" or key in members:
            raise _Unreadable
        self.at += 1
        self.space()
        self.path.append(key)
        members[key] = self.value()
        self.path.pop()

    def string(self) -> str:
        quote = self.peek()
        if quote == "'":
            self.kinds["json_single_quotes"] = None
        self.at += 1
        pieces: list[str] = []
        while True:
            character = self.peek()
            if character == "":
                raise _Unreadable  # cut off inside a value: what follows cannot be known
            self.at += 1
            if character == quote:
                self.after_string()
                return "".join(pieces)
            if character == "\\":
                pieces.append(self.escape())
                continue
            if character < " ":
                self.kinds["json_raw_control"] = None
            pieces.append(character)

    def after_string(self) -> None:
        """A quote that is followed by anything but structure was not the end: there are two readings."""
        end = self.at
        while end < len(self.text) and self.text[end] in " \t\r\n":
            end += 1
        if end < len(self.text) and self.text[end] not in ",:}]":
            raise _Unreadable

    def escape(self) -> str:
        letter = self.peek()
        self.at += 1
        if letter == "u":
            digits = _HEX4.match(self.text, self.at)
            if digits is None:
                raise _Unreadable
            self.at = digits.end()
            unit = int(digits[0], 16)
            if 0xD800 <= unit < 0xDC00 and self.text.startswith("\\u", self.at):
                low = _HEX4.match(self.text, self.at + 2)
                if low is not None and 0xDC00 <= int(low[0], 16) < 0xE000:
                    self.at = low.end()
                    return chr(0x10000 + ((unit - 0xD800) << 10) + int(low[0], 16) - 0xDC00)
            return chr(unit)
        if letter not in _ESCAPES:
            raise _Unreadable
        return _ESCAPES[letter]

    def number(self, found: re.Match[str]) -> int | float:
        self.at = found.end()
        if self.at == len(self.text) and not self.complete:
            raise _Unreadable  # 12 may have been the beginning of 123
        text = found[0]
        if not any(c in text for c in ".eE"):
            return int(text)
        if not math.isfinite(float(text)):
            raise _Unreadable
        return float(text)

    def word(self) -> Any:
        found = _WORD.match(self.text, self.at)
        if found is None or found[0] not in _WORDS:
            raise _Unreadable
        self.at = found.end()
        if found[0] in ("True", "False", "None"):
            self.kinds["json_python_word"] = None
        return _WORDS[found[0]]

    def space(self) -> None:
        while self.at < len(self.text) and self.text[self.at] in " \t\r\n":
            self.at += 1

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

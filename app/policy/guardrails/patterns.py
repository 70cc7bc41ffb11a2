"""Regular expressions that can be followed through a stream: how long a match may be, and what one begins with.

A pattern is read as RE2 reads it, as far as its structure goes: groups, alternatives, repetitions, assertions, and
everything else as single characters. From that come the longest match and a second pattern, the opening: it matches
whatever the end of a text has in common with the beginning of a match, so that a stream can hold back just that.
Leaves to RE2: whether a pattern is valid, and matching.
"""

from typing import Any, Final

import re2

from app.core.value import contract_value

MAX_PATTERN: Final = 4_000  # characters of source; a longer list of words belongs to the kind `topic`
_MAX_REPEAT: Final = 1000  # what RE2 allows
_MAX_NESTING: Final = 32
_MEMORY: Final = 32 * 1024 * 1024  # bytes of one pattern's program and states


class PatternError(Exception):
    """A pattern that cannot be used; the text says why."""


@contract_value(frozen=True, slots=True)
class _PatternNode:
    """`source` matches it; `opening` matches what a match of it may begin with, at least one character, or is None;
    `longest` is None for any number of characters."""

    source: str
    opening: str | None
    longest: int | None
    shortest: int


_EMPTY: Final = _PatternNode("", None, 0, 0)


class BoundedPattern:
    """A pattern of which no match is longer than `longest` characters, with its opening."""

    def __init__(
        self, source: str, *, limit: int | None = None, ignore_case: bool = False, max_source: int = MAX_PATTERN
    ) -> None:
        if len(source) > max_source:
            raise PatternError(f"the pattern has {len(source)} characters; at most {max_source} are allowed")
        flags = "(?i)" if ignore_case else ""
        self._find = compiled(flags + source)
        node = _PatternReader(source).read()
        if node.longest is None and limit is not None:
            raise PatternError("a match of it can be of any length; give each repetition an upper bound, as in {1,40}")
        if limit is not None and node.longest is not None and node.longest > limit:
            raise PatternError(f"a match can have {node.longest} characters; at most {limit} are allowed here")
        self.longest, self.shortest = node.longest, node.shortest
        self.source = flags + source
        self.opening_source = None if node.opening is None else f"{flags}(?:{node.opening})\\z"
        self._opening = None if self.opening_source is None else compiled(self.opening_source)
        if self._find.search("") is not None:
            raise PatternError("it matches the empty text, so it would match everywhere")

    def search(self, text: str, start: int = 0) -> Any:
        """The leftmost match from there on; what stands before `start` counts for word boundaries and the like."""
        return self._find.search(text, start)

    def matches(self, text: str) -> bool:
        """Whether the whole text is a match."""
        return self._find.fullmatch(text) is not None

    def opening(self, text: str, start: int = 0) -> int:
        """Where the longest end of the text begins that a match could begin with; the text's length if none does."""
        if self.longest is not None:
            start = max(start, len(text) - self.longest)
        found = None if self._opening is None else self._opening.search(text, start)
        return len(text) if found is None else int(found.start())


def compiled(source: str) -> Any:
    options = re2.Options()
    options.log_errors, options.max_mem = False, _MEMORY
    try:
        return re2.compile(source, options)
    except re2.error as error:
        reason = error.args[0] if error.args else "invalid"
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise PatternError(f"it is not a valid RE2 pattern: {text}") from error


class _PatternReader:
    """Reads a pattern that RE2 has accepted."""

    def __init__(self, source: str) -> None:
        self._source, self._at, self._depth = source, 0, 0

    def read(self) -> _PatternNode:
        node = self._alternatives()
        if self._at < len(self._source):
            raise PatternError("its groups cannot be read")
        return node

    def _peek(self, text: str) -> bool:
        return self._source.startswith(text, self._at)

    def _alternatives(self) -> _PatternNode:
        branches = [self._sequence()]
        while self._peek("|"):
            self._at += 1
            branches.append(self._sequence())
        return branches[0] if len(branches) == 1 else _any_of(branches)

    def _sequence(self) -> _PatternNode:
        items: list[_PatternNode] = []
        while self._at < len(self._source) and not self._peek("|") and not self._peek(")"):
            item = self._item()
            items.append(self._repeated(item))
        return _in_order(items)

    def _item(self) -> _PatternNode:
        char = self._source[self._at]
        if char == "(":
            return self._group()
        if char in "^$":
            self._at += 1
            return _PatternNode(char, None, 0, 0)
        if char == "[":
            return self._character(self._class_end())
        if char == "\\":
            return self._escape()
        return self._character(self._at + 1)

    def _character(self, end: int) -> _PatternNode:
        source, self._at = self._source[self._at : end], end
        return _PatternNode(source, source, 1, 1)

    def _escape(self) -> _PatternNode:
        source, at = self._source, self._at
        kind = source[at + 1 : at + 2]
        if kind in ("b", "B", "A", "z"):
            self._at += 2
            return _PatternNode(f"\\{kind}", None, 0, 0)
        if kind in ("Q", "C"):
            raise PatternError(f"\\{kind} cannot be used here")
        if kind in ("p", "P", "x") and source[at + 2 : at + 3] == "{":
            return self._character(source.index("}", at) + 1)
        if kind in ("p", "P"):
            return self._character(at + 3)
        if kind == "x":
            return self._character(at + 4)
        if kind in "01234567":
            end = at + 2
            while end < min(at + 4, len(source)) and source[end] in "01234567":
                end += 1
            return self._character(end)
        return self._character(at + 2)

    def _class_end(self) -> int:
        source, at = self._source, self._at + 1
        at += 1 if source.startswith("^", at) else 0
        at += 1 if source.startswith("]", at) else 0
        while not source.startswith("]", at):
            if source.startswith("[:", at):
                at = source.index(":]", at) + 2
            elif source.startswith("\\", at):
                at += 2
            else:
                at += 1
        return at + 1

    def _group(self) -> _PatternNode:
        self._depth += 1
        if self._depth > _MAX_NESTING:
            raise PatternError(f"its groups are nested more than {_MAX_NESTING} deep")
        source, flags = self._source, ""
        self._at += 1
        if self._peek("?P<") or self._peek("?<"):
            self._at = source.index(">", self._at) + 1
        elif self._peek("?"):
            end = self._at + 1
            while source[end] not in ":)":
                end += 1
            flags, self._at = source[self._at + 1 : end], end + 1
            if source[end] == ")":
                # Holds for the rest of the group around it.
                self._depth -= 1
                rest = self._alternatives()
                return _flagged(flags, rest)
        inner = self._alternatives()
        if not self._peek(")"):
            raise PatternError("its groups cannot be read")
        self._at += 1
        self._depth -= 1
        return _flagged(flags, inner)

    def _repeated(self, item: _PatternNode) -> _PatternNode:
        bounds = self._bounds()
        while bounds is not None:
            item = _repeat(item, *bounds)
            bounds = self._bounds()
        return item

    def _bounds(self) -> tuple[int, int | None, str] | None:
        """How often at least and at most, and whether as seldom as possible (`?`)."""
        char = self._source[self._at : self._at + 1]
        if char in ("*", "+", "?"):
            low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}[char]
            self._at += 1
        elif char == "{" and (found := _COUNT.match(self._source[self._at :])) is not None:
            low = int(found.group(1))
            high = low if found.group(2) is None else (int(found.group(3)) if found.group(3) else None)
            self._at += len(found.group())
        else:
            return None
        lazy = "?" if self._peek("?") else ""
        self._at += len(lazy)
        return low, high, lazy


_COUNT: Final = re2.compile(r"^\{([0-9]+)(,([0-9]*))?\}")


def _any_of(branches: list[_PatternNode]) -> _PatternNode:
    openings = [branch.opening for branch in branches if branch.opening is not None]
    lengths = [branch.longest for branch in branches]
    return _PatternNode(
        f"(?:{'|'.join(branch.source for branch in branches)})",
        f"(?:{'|'.join(openings)})" if openings else None,
        None if None in lengths else max(length for length in lengths if length is not None),
        min(branch.shortest for branch in branches),
    )


def _in_order(items: list[_PatternNode]) -> _PatternNode:
    """A match begins with what its first part begins with, or with all of that part and so on."""
    if not items:
        return _EMPTY
    opening: str | None = None
    for item in reversed(items):
        if opening is None:
            opening = item.opening
        elif item.opening is None:
            opening = f"{item.source}{opening}"
        else:
            opening = f"(?:{item.source}{opening}|{item.opening})"
    lengths = [item.longest for item in items]
    longest = None if None in lengths else sum(length for length in lengths if length is not None)
    shortest = sum(item.shortest for item in items)
    return _PatternNode("".join(item.source for item in items), opening, longest, shortest)


def _repeat(item: _PatternNode, low: int, high: int | None, lazy: str) -> _PatternNode:
    inner = f"(?:{item.source})"
    times = f"{{{low},{'' if high is None else high}}}{lazy}"
    if (high or low) > _MAX_REPEAT:
        raise PatternError(f"a repetition of more than {_MAX_REPEAT} is not allowed")
    opening = None
    if item.opening is not None and high != 0:
        before = f"{inner}*" if high is None else (f"{inner}{{0,{high - 1}}}" if high > 1 else "")
        opening = f"{before}(?:{item.opening})"
    longest = 0 if item.longest == 0 else (None if high is None or item.longest is None else item.longest * high)
    return _PatternNode(inner + times, opening, longest, item.shortest * low)


def _flagged(flags: str, inner: _PatternNode) -> _PatternNode:
    opening = None if inner.opening is None else f"(?{flags}:{inner.opening})"
    return _PatternNode(f"(?{flags}:{inner.source})", opening, inner.longest, inner.shortest)

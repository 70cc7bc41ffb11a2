"""A text that arrives in pieces, held back just far enough that nothing leaves which a scanner would find in the whole.

Text leaves at once unless its end could begin a find. A quick look at a piece, by one set of patterns for all
scanners, decides whether any of them has to be asked. Leaves to others: what follows from a find.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import field
from typing import Any, Final, Protocol

import re2

from app.core.value import mutable
from app.policy.guardrails.contract import Match, Scanner
from app.policy.guardrails.patterns import PatternError, compiled

CONTEXT: Final = 8
"""Characters before the text that decide whether it begins a word, or follows an escape."""

MAX_OPENING: Final = 4096
"""Characters that are held of what may become a find without a longest length; no real one takes as many to tell."""
_SET_PROGRAM: Final = 20_000
"""Instructions of one set of patterns. Within this its states always fit into the memory below: a set that runs out of
memory would find nothing."""
_SET_MEMORY: Final = 64 * 1024 * 1024


GOES_ON: Final = -1
CHUNK: Final = 4096
"""Characters that are looked at together: a search costs as much as the text that it is given is long."""


class OpenEnded(Protocol):
    """How a find goes on that has no longest length: whatever belongs to it is taken away as it comes."""

    def taken(self, before: str, text: str) -> tuple[int, bool]:
        """How many characters of the text still belong to it, and whether it may go on after them."""
        ...


class EndlessScanner(ABC):
    """A scanner whose finds may have any length: from the shortest one on it is certain what they are."""

    @property
    @abstractmethod
    def sources(self) -> tuple[str, ...]: ...

    @abstractmethod
    def search(self, text: str, start: int) -> Match | None: ...

    @abstractmethod
    def opening(self, text: str, start: int) -> int: ...

    @abstractmethod
    def rest(self, text: str, match: Match) -> OpenEnded | None:
        """How a find that reaches the end of the text goes on; None if more has to come before it is certain."""


@mutable(slots=True)
class Released:
    """What may leave, and what was found in it: places are those in the text as it came."""

    text: str
    """As it came; whoever redacts replaces the finds."""
    start: int
    """Of the text, in the whole."""
    finds: list[tuple[int, Match]] = field(default_factory=list)
    """The scanner's number and the find, in order. `GOES_ON` is more of one that was found before."""

    def add(self, more: "Released") -> None:
        self.text += more.text
        self.finds += more.finds


class ScannerSet:
    """Scanners, with the quick look for all of them. Made once, used by every stream."""

    def __init__(self, scanners: Sequence[Scanner]) -> None:
        self.scanners = tuple(scanners)
        self.quick: list[tuple[Any, list[int]]] = []
        """Sets of patterns, each with the scanner that a pattern belongs to."""
        size = _SET_PROGRAM
        for number, scanner in enumerate(self.scanners):
            for source in scanner.sources:
                program = compiled(source).programsize
                if program > _SET_PROGRAM:
                    raise PatternError(f"its program has {program} instructions; at most {_SET_PROGRAM} are allowed")
                if size + program > _SET_PROGRAM:
                    self.quick.append((re2.Set.SearchSet(_options()), []))
                    size = 0
                size += program
                patterns, owners = self.quick[-1]
                patterns.Add(source)
                owners.append(number)
        for patterns, _ in self.quick:
            patterns.Compile()

    def suspects(self, text: str) -> set[int]:
        """The scanners that may find something in the text, or at its end."""
        return self.suspects_encoded(text.encode("utf-8", "surrogatepass"))

    def suspects_encoded(self, encoded: bytes) -> set[int]:
        return {owners[number] for patterns, owners in self.quick for number in patterns.Match(encoded) or ()}


def _options() -> Any:
    options = re2.Options()
    options.max_mem, options.log_errors = _SET_MEMORY, False
    return options


@mutable(slots=True)
class _OpenFind:
    """A find that goes on: what belongs to it is not seen again, however long it is."""

    rest: OpenEnded
    before: str


class StreamWindow:
    """One text on its way through."""

    __slots__ = ("_before", "_held", "_open", "_open_to", "_set", "done")

    def __init__(self, scanners: ScannerSet, before: str = "") -> None:
        self._set = scanners
        self._before = before[-CONTEXT:]
        """The end of what has left."""
        self._held = ""
        self._open: dict[int, _OpenFind] = {}
        """By the number of the scanner."""
        self._open_to = 0
        """How far open finds are known to go; nothing before that leaves."""
        self.done = 0
        """Characters that have left, or were taken away."""

    @property
    def idle(self) -> bool:
        """Whether nothing is held and nothing is open: the next text may be looked at by itself."""
        return not self._held and not self._open and self._open_to <= self.done

    @property
    def before(self) -> str:
        return self._before

    def take(self, text: str) -> Released:
        released = self._settle(text[:CHUNK], final=False)
        for at in range(CHUNK, len(text), CHUNK):
            released.add(self._settle(text[at : at + CHUNK], final=False))
        return released

    def end(self) -> Released:
        """Nothing follows: what was held is decided now."""
        return self._settle("", final=True)

    def _settle(self, text: str, *, final: bool) -> Released:
        if self._open:
            self._go_on(text)
        start, base = self.done, len(self._before)
        moved = start - base
        whole = self._before + self._held + text
        finds: list[tuple[int, Match]] = []
        opened: list[tuple[int, Match, OpenEnded]] = []
        hold = len(whole)
        for number in sorted(self._set.suspects(whole)):
            found, begun, rest = _scan(self._set.scanners[number], whole, base, final=final)
            finds += [(number, match) for match in found]
            hold = min(hold, begun)
            if rest is not None:
                opened.append((number, found[-1], rest))
        hold = _before_finds(hold, finds)
        for number, match, rest in opened:
            if match.start < hold:  # else something began before it: looked at again when that is decided
                self._open[number] = _OpenFind(rest, whole[match.start :][-_REST_CONTEXT:])
        self._held = whole[hold:]
        self._before = whole[max(0, hold - CONTEXT) : hold]
        self.done = hold + moved
        released = Released(whole[base:hold], start)
        if self._open_to > start:
            released.finds.append((GOES_ON, Match(start, min(self._open_to, self.done), "")))
        kept = [(number, match) for number, match in finds if match.end <= hold]
        kept.sort(key=lambda one: (one[1].start, -one[1].end))
        released.finds += [(number, Match(m.start + moved, m.end + moved, m.label)) for number, m in kept]
        return released

    def _go_on(self, text: str) -> None:
        at = self.done + len(self._held)
        for number, find in list(self._open.items()):
            count, goes_on = find.rest.taken(find.before, text)
            find.before = (find.before + text[:count])[-_REST_CONTEXT:]
            self._open_to = max(self._open_to, at + count)
            if not goes_on:
                del self._open[number]


_REST_CONTEXT: Final = 64
"""Characters of an open find that are kept, for an end mark that arrives in pieces."""


def _scan(scanner: Scanner, text: str, start: int, *, final: bool) -> tuple[list[Match], int, OpenEnded | None]:
    """What is certain, where what is not yet certain begins, and how the last find goes on."""
    found: list[Match] = []
    endless = scanner if isinstance(scanner, EndlessScanner) else None
    opening = len(text) if final else scanner.opening(text, start)
    while True:
        match = scanner.search(text, start)
        if opening < start:
            opening = scanner.opening(text, start)
        begun = opening
        if endless is not None:
            begun = max(begun, len(text) - MAX_OPENING)
        if match is None:
            return found, begun, None
        if endless is not None and not final and match.end == len(text) and begun >= match.start:
            rest = endless.rest(text, match)
            if rest is not None:
                return [*found, match], len(text), rest
        if begun <= match.start:
            return found, begun, None
        found.append(match)
        start = match.end


def _before_finds(hold: int, finds: list[tuple[int, Any]]) -> int:
    """What is held begins before any find that it would cut in two."""
    while True:
        cut = min((match.start for _, match in finds if match.start < hold < match.end), default=hold)
        if cut == hold:
            return hold
        hold = cut

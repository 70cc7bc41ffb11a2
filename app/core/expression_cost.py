"""What an expression may cost: how much data it may look at, by what it does with it.

The library counts loop turns (10,000 in all), not the work inside a turn, and cannot be interrupted: searching a large
value in each turn, or a pattern made from an argument, takes a minute. So the values are bounded by what the source
does, and patterns are literal and small.
"""

import re
from collections.abc import Iterable
from typing import Final

import re2

from app.core.value import value

MAX_PATTERN_SIZE: Final = 1_000
"""Instructions of a compiled pattern; matching costs at most this for each character."""
MAX_PATTERN_SIZE_IN_LOOP: Final = 100

_LOOP: Final = re.compile(r"\.\s*(all|exists|exists_one|existsOne|map|filter)\s*\(")
_TEXT: Final = r"""[rR]?(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
_MATCHES: Final = re.compile(rf"\bmatches\s*\(\s*({_TEXT})\s*\)")
_STRINGS: Final = re.compile(_TEXT)


MAX_NODES: Final = 100_000
MAX_TEXT: Final = 1024 * 1024
MAX_NODES_IN_LOOP: Final = 10_000
MAX_TEXT_IN_LOOP: Final = 64 * 1024
# Of the product of a loop's turns, what a turn may look at, and how often the source looks at it.
MAX_TURNS: Final = 10_000
MAX_WORK_ON_NODES: Final = 20_000_000  # comparing one takes about 50 ns
MAX_WORK_ON_TEXT: Final = 400_000_000  # searching or joining a character takes about 2 ns
MAX_KEPT_NODES: Final = 2_000_000  # what a turn makes is kept: 16 bytes a node
MAX_KEPT_TEXT: Final = 32_000_000
_MATCHING_NODES_IN_LOOP: Final = 500
_MATCHING_TEXT_IN_LOOP: Final = 4 * 1024
MAX_MATCHING_WORK: Final = 64 * 1024 * 1024  # characters times the size of the pattern

_USE: Final = re.compile(r"[(+\[]|==|!=|[<>]|\bin\b")


@value(frozen=True, slots=True)
class Work:
    """What the loops of a source may cost, as far as its text shows; where that is unclear, the costlier reading."""

    loops: int
    keeps: bool
    """Has a `map`, a `filter` or a `+`: what each turn makes is held until the end."""
    uses: int
    """How often a turn looks at values."""
    looks_back: bool
    """A turn looks at more than its own element."""

    @classmethod
    def of(cls, source: str, names: Iterable[str]) -> "Work":
        loops = _LOOP.findall(source)
        named = sum(len(re.findall(rf"\b{re.escape(name)}\b", source)) for name in names)
        keeps = "map" in loops or "filter" in loops or "+" in source
        return cls(len(loops), keeps, 1 + len(_USE.findall(source)), named > 1 or len(loops) > 1)

    def too_much(self, nodes: int, text: int) -> bool:
        if not self.loops:
            return False
        turns = 1 if not self.looks_back else nodes if self.loops == 1 else min(MAX_TURNS, nodes**self.loops)
        on_nodes, on_text = turns * nodes * self.uses, turns * text * self.uses
        if on_nodes > MAX_WORK_ON_NODES or on_text > MAX_WORK_ON_TEXT:
            return True
        return self.keeps and (on_nodes > MAX_KEPT_NODES or on_text > MAX_KEPT_TEXT)


@value(frozen=True, slots=True)
class Allowance:
    """How many values and characters an expression may work through."""

    nodes: int
    text: int
    work: Work

    def covers(self, nodes: int, text: int) -> bool:
        return nodes <= self.nodes and text <= self.text and not self.work.too_much(nodes, text)


def allowance(source: str, names: Iterable[str]) -> Allowance | str:
    """What an expression of this source may look at; a text says why it may not be used at all."""
    work = Work.of(source, names)
    loops = work.loops
    # Emptied, so that a text which contains the word is not taken for a call.
    emptied = _STRINGS.sub("''", source)
    calls = len(re.findall(r"\bmatches\s*\(", emptied))
    most_nodes, most_text = (MAX_NODES_IN_LOOP, MAX_TEXT_IN_LOOP) if loops else (MAX_NODES, MAX_TEXT)
    if not calls:
        return Allowance(most_nodes, most_text, work)
    if loops > 1:
        return "`matches` cannot be used in an expression with more than one loop"
    if len(re.findall(r"\bmatches\s*\(\s*''\s*\)", emptied)) < calls:
        return "the pattern of `matches` must be a literal text, as in `args.path.matches('^/data/')`"
    size = max(map(_size, _MATCHES.findall(source)), default=0)
    most = MAX_PATTERN_SIZE_IN_LOOP if loops else MAX_PATTERN_SIZE
    if size > most:
        return f"a pattern is too costly; with fewer repetitions and alternatives it has at most {most} steps"
    if loops:
        return Allowance(_MATCHING_NODES_IN_LOOP, _MATCHING_TEXT_IN_LOOP, work)
    return Allowance(most_nodes, min(most_text, MAX_MATCHING_WORK // max(1, size * calls)), work)


def _size(literal: str) -> int:
    """Of the pattern as the library would compile it; one that cannot be compiled is the library's to refuse."""
    raw = literal[0] in "rR"
    text = literal[2:-1] if raw else literal[1:-1].replace("\\\\", "\\")
    try:
        size: int = re2.compile(text).programsize
    except re2.error:
        return 0
    return size

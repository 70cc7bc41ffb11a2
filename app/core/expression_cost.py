"""What an expression may cost: how much data it may look at, by what it does with it (S25).

The library counts loop turns (10,000 in all), not the work inside a turn, and cannot be interrupted: searching a large
value in each turn, or a pattern made from an argument, takes a minute. So the values are bounded by what the source
does, and patterns are literal and small.
"""

import re
from dataclasses import dataclass
from typing import Final

import re2

MAX_PATTERN_SIZE: Final = 1_000
"""Instructions of a compiled pattern; matching costs at most this for each character."""
MAX_PATTERN_SIZE_IN_LOOP: Final = 100

_LOOP: Final = re.compile(r"\.\s*(all|exists|exists_one|existsOne|map|filter)\s*\(")
_TEXT: Final = r"""[rR]?(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
_MATCHES: Final = re.compile(rf"\bmatches\s*\(\s*({_TEXT})\s*\)")
_STRINGS: Final = re.compile(_TEXT)


@dataclass(frozen=True, slots=True)
class Allowance:
    """How many values and characters an expression may work through."""

    nodes: int
    text: int


PLAIN: Final = Allowance(100_000, 1024 * 1024)
LOOPING: Final = Allowance(10_000, 64 * 1024)
MATCHING: Final = Allowance(100_000, 64 * 1024)
MATCHING_IN_LOOP: Final = Allowance(500, 4 * 1024)


def allowance(source: str) -> Allowance | str:
    """What an expression of this source may look at; a text says why it may not be used at all."""
    loops = len(_LOOP.findall(source))
    # Emptied, so that a text which contains the word is no call.
    emptied = _STRINGS.sub("''", source)
    calls = len(re.findall(r"\bmatches\s*\(", emptied))
    if not calls:
        return LOOPING if loops else PLAIN
    if loops > 1:
        return "`matches` cannot be used in an expression with more than one loop"
    if len(re.findall(r"\bmatches\s*\(\s*''\s*\)", emptied)) < calls:
        return "the pattern of `matches` must be a literal text, as in `args.path.matches('^/data/')`"
    most = MAX_PATTERN_SIZE_IN_LOOP if loops else MAX_PATTERN_SIZE
    if any(_size(literal) > most for literal in _MATCHES.findall(source)):
        return f"a pattern is too costly; with fewer repetitions and alternatives it has at most {most} steps"
    return MATCHING_IN_LOOP if loops else MATCHING


def _size(literal: str) -> int:
    """Of the pattern as the library would compile it; one that cannot be compiled is the library's to refuse."""
    raw = literal[0] in "rR"
    text = literal[2:-1] if raw else literal[1:-1].replace("\\\\", "\\")
    try:
        size: int = re2.compile(text).programsize
    except re2.error:
        return 0
    return size

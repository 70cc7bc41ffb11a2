"""Names that documents refer to: patterns of them, and the nearest valid one for a misspelt one."""

from collections.abc import Iterable
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Final

# Comparing costs microseconds a candidate; where everything is misspelt, it must not take minutes.
_BUDGET: Final = 200_000


class Suggester:
    def __init__(self) -> None:
        self._left = _BUDGET

    def nearest(self, name: str, candidates: Iterable[str]) -> str | None:
        """The most similar candidate, if one is similar enough to be meant."""
        known = [other for other in candidates if abs(len(other) - len(name)) <= max(3, len(name) // 2)]
        self._left -= len(known)
        if self._left < 0 or len(name) > 100:
            return None
        folded: dict[str, str] = {}
        for other in sorted(known):
            folded.setdefault(other.casefold(), other)
        close = get_close_matches(name.casefold(), folded, n=1, cutoff=0.6)
        return folded[close[0]] if close else None


def did_you_mean(name: str | None) -> str | None:
    return f'did you mean "{name}"?' if name is not None else None


def is_pattern(name: str) -> bool:
    return "*" in name or "?" in name


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether one of the names or patterns fits; `*` stands for any text, `?` for one character."""
    return any(name == one or (is_pattern(one) and fnmatchcase(name, one)) for one in patterns)

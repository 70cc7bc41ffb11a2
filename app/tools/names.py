"""Which tool a misspelt name means, if there is exactly one answer. Never a choice between two."""

from collections.abc import Iterable
from typing import Final

_SEPARATORS: Final = str.maketrans("", "", "_-. /:")
# A short name is one edit away from too many words that mean something else (get, set, sum, sub).
_SHORTEST_FOR_EDIT: Final = 5


def same_but_spelling(name: str, known: Iterable[str]) -> list[str]:
    """The names that differ from `name` only by case or separators."""
    plain = _plain(name)
    return [candidate for candidate in known if _plain(candidate) == plain]


def one_edit_away(name: str, known: Iterable[str]) -> list[str]:
    """The names that one inserted, dropped, changed or swapped letter turns `name` into.

    A digit is never a slip: `search_v1` is not a misspelling of `search_v2`.
    """
    if len(name) < _SHORTEST_FOR_EDIT:
        return []
    return [candidate for candidate in known if _is_one_edit(name, candidate)]


def _plain(name: str) -> str:
    return name.translate(_SEPARATORS).casefold()


def _is_one_edit(a: str, b: str) -> bool:
    if abs(len(a) - len(b)) > 1 or a == b:
        return False
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    end = 0
    while end < min(len(a), len(b)) - start and a[-1 - end] == b[-1 - end]:
        end += 1
    left, right = a[start : len(a) - end], b[start : len(b) - end]
    if any(character.isdigit() for character in left + right):
        return False
    return (len(left) <= 1 and len(right) <= 1) or (len(left) == 2 and left == right[::-1])

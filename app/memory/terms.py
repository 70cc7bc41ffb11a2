"""The terms of a text, for searching: the same on every database, in every script.

NFKC and case folding first; then words, and pairs of characters in scripts that are written without spaces. Leaves to
others: what is searched (`contract`) and how it is ranked (`ranking`).
"""

import itertools
import re
import unicodedata
from collections import Counter
from functools import cache
from hashlib import sha256
from typing import Final

MAX_TEXT: Final = 8_000
"""Characters of one record, and of one query."""
MAX_TERMS: Final = 2_000
"""Different terms of one text."""
_MAX_TERM: Final = 64

# Written without spaces between words, or with endings that run into the word: pairs of characters find them all.
_PAIRED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3040-\u30ff\u31f0-\u31ff"  # kana
    "\u1100-\u11ff\uac00-\ud7af"  # Hangul
)
_HAN: Final = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_RUNS: Final = rf"[{_PAIRED}{_HAN}]+|[^\W_{_PAIRED}{_HAN}]+(?:['\u2019][^\W_{_PAIRED}{_HAN}]+)*"
_STARTS_PAIRED: Final = rf"[{_PAIRED}{_HAN}]"
_IS_HAN: Final = rf"[{_HAN}]"
_APOSTROPHES: Final = str.maketrans("", "", "'\u2019")
_MARK: Final = "M"

_pattern = cache(re.compile)
"""Compiled when first used: tables of so many characters take several milliseconds of a start, and most servers never
search."""


def folded(text: str) -> str:
    """What does not matter for finding is the same: width, case, and marks that are written on top of letters."""
    text = unicodedata.normalize("NFKC", text[:MAX_TEXT]).casefold()
    if text.isascii():
        return text
    # Combining marks are no letters to the pattern below, and would split words; composed letters keep theirs.
    apart = (char for char in text if unicodedata.category(char)[0] != _MARK or _pattern(_STARTS_PAIRED).match(char))
    return "".join(apart)


def has_terms(text: str) -> bool:
    return _pattern(_RUNS).search(folded(text)) is not None


def terms(text: str) -> Counter[str]:
    """Each term with how often it occurs."""
    found: Counter[str] = Counter()
    for run in _pattern(_RUNS).findall(folded(text)):
        if _pattern(_STARTS_PAIRED).match(run):
            _pair(run, found)
        else:
            found[run.translate(_APOSTROPHES)[:_MAX_TERM]] += 1
        if len(found) >= MAX_TERMS:
            break
    return found


def _pair(run: str, found: Counter[str]) -> None:
    if len(run) == 1:
        found[run] += 1
        return
    for first, second in itertools.pairwise(run):
        found[first + second] += 1
        if _pattern(_IS_HAN).match(first):
            found[first] += 1  # a single character is a word of its own
    if _pattern(_IS_HAN).match(run[-1]):
        found[run[-1]] += 1


def fingerprint(text: str) -> str:
    """Equal for texts that differ only in case, width, punctuation and spaces. Kept in the index alone, which forgets
    it with the record: a hash of a short text could be guessed."""
    return sha256("\x00".join(_pattern(_RUNS).findall(folded(text))).encode()).hexdigest()

"""Finds the skills whose trigger words occur in a text: literally, on word borders, in one pass.

Never regular expressions: a trigger is what a person would read in the text. Who picks one skill of
several is decided by `best`: the longest trigger wins, then the name.
"""

from collections.abc import Collection, Mapping
from typing import Final

from ahocorasick_rs import AhoCorasick

from app.core.value import value

MAX_TRIGGER: Final = 100  # characters


@value(frozen=True, slots=True)
class TriggerHit:
    skill: str
    trigger: str


class TriggerMatcher:
    """Built once for a workspace; immutable."""

    def __init__(self, triggers: Mapping[str, Collection[str]]) -> None:
        owners: dict[str, set[str]] = {}
        for skill, phrases in triggers.items():
            for phrase in phrases:
                folded = _fold(phrase)
                if folded and len(folded) <= MAX_TRIGGER:
                    owners.setdefault(folded, set()).add(skill)
        self._phrases = sorted(owners)
        self._owners = [tuple(sorted(owners[phrase])) for phrase in self._phrases]
        self._automaton = AhoCorasick(self._phrases) if self._phrases else None

    def match(self, text: str) -> tuple[TriggerHit, ...]:
        """Every skill with its longest trigger in the text; the best one first."""
        if self._automaton is None:
            return ()
        folded = _fold(text)
        found: set[int] = set()
        for number, start, end in self._automaton.find_matches_as_indexes(folded, overlapping=True):
            if number not in found and _on_borders(folded, start, end):
                found.add(number)
        longest: dict[str, str] = {}
        for number in found:
            phrase = self._phrases[number]
            for skill in self._owners[number]:
                if len(phrase) > len(longest.get(skill, "")):
                    longest[skill] = phrase
        hits = [TriggerHit(skill, phrase) for skill, phrase in longest.items()]
        return tuple(sorted(hits, key=lambda hit: (-len(hit.trigger), hit.skill)))

    def best(self, text: str, allowed: Collection[str]) -> TriggerHit | None:
        return next((hit for hit in self.match(text) if hit.skill in allowed), None)


def _fold(text: str) -> str:
    return " ".join(text.casefold().split())


def _on_borders(text: str, start: int, end: int) -> bool:
    before = start == 0 or not (_is_word(text[start - 1]) and _is_word(text[start]))
    after = end == len(text) or not (_is_word(text[end - 1]) and _is_word(text[end]))
    return before and after


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"

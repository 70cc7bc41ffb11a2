"""Lists of terms: what must not be talked about, and what may be although it contains such a term.

A term is found as a word of its own, in any script and either case; where a script has no spaces between words, also
within them. Of several terms at one place the longest counts, so that an allowed phrase hides a denied word in it.
"""

from typing import Annotated, Final, Self

import re2
from pydantic import Field, model_validator

from app.policy.guardrails.contract import DEFAULT_WINDOW, MAX_WINDOW, Match
from app.policy.guardrails.kind import GuardrailDeps, GuardrailKind, Made, config_of
from app.policy.guardrails.patterns import BoundedPattern, PatternError
from app.policy.guardrails.pii import joins
from app.workspace.compiled import CompiledWorkspace, Named
from app.workspace.specs.base import Spec, Text
from app.workspace.specs.others import GuardrailSpec

_GAP: Final = r"[\s\x{a0}_-]{1,4}"
_IN_ONE: Final = 50  # terms in one pattern
Terms = tuple[Annotated[Text, Field(max_length=120)], ...]


class TopicConfig(Spec):
    deny: Annotated[Terms, Field(min_length=1, max_length=1000, description="Terms that trigger the rule.")]
    allow: Annotated[Terms, Field(max_length=1000, description="Phrases in which a denied term does not count.")] = ()
    window: Annotated[int, Field(ge=1, le=MAX_WINDOW, description="Characters that may be held back of a stream.")] = (
        DEFAULT_WINDOW
    )

    @model_validator(mode="after")
    def _can_be_followed(self) -> Self:
        try:
            TermScanner(self.deny, self.allow, self.window)
        except PatternError as error:
            raise ValueError(f"the terms cannot be used: {error}") from error
        return self


class TermScanner:
    def __init__(self, deny: tuple[str, ...], allow: tuple[str, ...], window: int) -> None:
        sources = [_source(term) for term in sorted({*deny, *allow}, key=len, reverse=True)]
        self._patterns = [
            BoundedPattern("|".join(sources[at : at + _IN_ONE]), limit=window, ignore_case=True, max_source=100_000)
            for at in range(0, len(sources), _IN_ONE)
        ]
        self._allowed = re2.compile("(?i)" + "|".join(map(_source, allow))) if allow else None
        pairs = ((pattern.source, pattern.opening_source) for pattern in self._patterns)
        self._sources = tuple(source for pair in pairs for source in pair if source is not None)

    @property
    def sources(self) -> tuple[str, ...]:
        return self._sources

    def search(self, text: str, start: int) -> Match | None:
        while True:
            found = [match for pattern in self._patterns if (match := self._word(pattern, text, start)) is not None]
            if not found:
                return None
            first = min(found, key=lambda match: (match.start, -match.end))
            if self._allowed is None or self._allowed.fullmatch(text[first.start : first.end]) is None:
                return first
            start = first.end

    def opening(self, text: str, start: int) -> int:
        return min(self._word_opening(pattern, text, start) for pattern in self._patterns)

    def _word(self, pattern: BoundedPattern, text: str, start: int) -> Match | None:
        found = pattern.search(text, start)
        while found is not None:
            if _is_edge(text, found.start()) and _is_edge(text, found.end()):
                return Match(found.start(), found.end(), "topic")
            found = pattern.search(text, found.start() + 1)
        return None

    def _word_opening(self, pattern: BoundedPattern, text: str, start: int) -> int:
        at = pattern.opening(text, start)
        while at < len(text) and not _is_edge(text, at):
            at = pattern.opening(text, at + 1)
        return at


def _source(term: str) -> str:
    words = term.split()
    if not words:
        raise PatternError("a term has no letters")
    return _GAP.join(re2.escape(word) for word in words)


def _is_edge(text: str, at: int) -> bool:
    return at == 0 or at == len(text) or not (joins(text[at - 1]) and joins(text[at]))


def make(declared: Named[GuardrailSpec], _workspace: CompiledWorkspace, _deps: GuardrailDeps) -> Made:
    config = config_of(declared, TopicConfig)
    return (TermScanner(config.deny, config.allow, config.window),)


KIND: Final = GuardrailKind(name="topic", config=TopicConfig, make=make)

"""Patterns in RE2 syntax, of which no match may be longer than the window: an unbounded one does not compile."""

from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from app.policy.guardrails.contract import DEFAULT_WINDOW, MAX_WINDOW, Match
from app.policy.guardrails.kind import GuardrailDeps, GuardrailKind, Made, config_of
from app.policy.guardrails.patterns import BoundedPattern, PatternError
from app.workspace.compiled import CompiledWorkspace, Named
from app.workspace.specs.base import Spec, Text
from app.workspace.specs.others import GuardrailSpec


class RegexRuleConfig(Spec):
    patterns: Annotated[
        tuple[Text, ...],
        Field(min_length=1, max_length=100, description="Patterns in RE2 syntax; one match is enough."),
    ]
    label: Annotated[
        str, Field(pattern=r"^[a-z0-9_]{1,40}$", description="What a match is called: `[REDACTED:label]`.")
    ] = "pattern"
    ignore_case: Annotated[bool, Field(description="Whether upper and lower case are the same.")] = False
    window: Annotated[int, Field(ge=1, le=MAX_WINDOW, description="Characters that may be held back of a stream.")] = (
        DEFAULT_WINDOW
    )

    @model_validator(mode="after")
    def _can_be_followed(self) -> Self:
        for number, pattern in enumerate(self.patterns, 1):
            try:
                PatternScanner(self.label, BoundedPattern(pattern, limit=self.window, ignore_case=self.ignore_case))
            except PatternError as error:
                raise ValueError(f"pattern {number} cannot be used: {error}") from error
        return self


class PatternScanner:
    def __init__(self, label: str, pattern: BoundedPattern) -> None:
        if pattern.opening_source is None:
            raise PatternError("it matches no character")
        self._label, self._pattern = label, pattern
        self._sources = (pattern.source, pattern.opening_source)

    @property
    def sources(self) -> tuple[str, ...]:
        return self._sources

    def search(self, text: str, start: int) -> Match | None:
        found = self._pattern.search(text, start)
        # A match of no characters hides nothing: the next one counts.
        while found is not None and found.start() == found.end():
            found = self._pattern.search(text, found.end() + 1) if found.end() < len(text) else None
        return None if found is None else Match(found.start(), found.end(), self._label)

    def opening(self, text: str, start: int) -> int:
        return self._pattern.opening(text, start)


def make(declared: Named[GuardrailSpec], _workspace: CompiledWorkspace, _deps: GuardrailDeps) -> Made:
    config = config_of(declared, RegexRuleConfig)
    patterns = (
        BoundedPattern(source, limit=config.window, ignore_case=config.ignore_case) for source in config.patterns
    )
    return tuple(PatternScanner(config.label, pattern) for pattern in patterns)


KIND: Final = GuardrailKind(name="regex", config=RegexRuleConfig, make=make)

"""Scores 1 if the output matches a pattern, else 0. Patterns are those of re2, so that matching takes linear time."""

from typing import Annotated, Any, Final

import re2
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from app.evals.kind import EvaluatorDeps, EvaluatorKind, read_config
from app.evals.texts import text_of
from app.policy.evaluator import AskJudge, Score
from app.views.run_record import RunRecord
from app.workspace.compiled import CompiledWorkspace, Named
from app.workspace.specs.base import Spec
from app.workspace.specs.others import EvaluatorSpec

_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = 8 * 1024 * 1024


def compiled(pattern: str) -> Any:
    return re2.compile(pattern, _OPTIONS)


def _readable(pattern: str) -> str:
    try:
        compiled(pattern)
    except re2.error:
        raise PydanticCustomError("pattern_invalid", "a regular expression that re2 can read") from None
    return pattern


Pattern = Annotated[str, Field(min_length=1, max_length=2000), AfterValidator(_readable)]


class RegexConfig(Spec):
    pattern: Pattern
    full: bool = False
    """Whether the whole output must match, not only a part of it."""
    absent: bool = False
    """Whether the output must not match."""


class RegexEvaluator:
    def __init__(self, config: RegexConfig) -> None:
        self._config, self._pattern = config, compiled(config.pattern)

    async def score(self, record: RunRecord, ask: AskJudge) -> Score:
        text = text_of(record.output)
        matches = self._pattern.fullmatch(text) if self._config.full else self._pattern.search(text)
        ok = (matches is None) == self._config.absent
        return Score(1.0 if ok else 0.0, "the output matches" if matches is not None else "the output does not match")


def make(declared: Named[EvaluatorSpec], workspace: CompiledWorkspace, deps: EvaluatorDeps) -> RegexEvaluator:
    return RegexEvaluator(read_config(RegexConfig, declared))


KIND: Final = EvaluatorKind(name="regex", make=make, config=RegexConfig)

"""Scores the share of texts that the output contains, or does not contain."""

from typing import Final, Self

from pydantic import Field, model_validator

from app.evals.kind import EvaluatorDeps, EvaluatorKind, read_config
from app.evals.texts import text_of
from app.policy.evaluator import AskJudge, NotEvaluated, Score
from app.views.run_record import RunRecord
from app.workspace.compiled import CompiledWorkspace, Named
from app.workspace.specs.base import Spec, Text
from app.workspace.specs.others import EvaluatorSpec


class ContainsConfig(Spec):
    texts: tuple[Text, ...] = Field((), max_length=100)
    """Without them and without `absent`: the text that the dataset's case expects."""
    absent: tuple[Text, ...] = Field((), max_length=100)
    ignore_case: bool = True

    @model_validator(mode="after")
    def _not_both(self) -> Self:
        if set(self.texts) & set(self.absent):
            raise ValueError("a text cannot be both in `texts` and in `absent`")
        return self


class ContainsEvaluator:
    def __init__(self, config: ContainsConfig) -> None:
        self._config = config

    async def score(self, record: RunRecord, ask: AskJudge) -> Score:
        config, texts = self._config, self._config.texts
        if not texts and not config.absent:
            if not isinstance(record.expected, str) or not record.expected:
                raise NotEvaluated("there is nothing to look for: neither `config.texts` nor an expected text")
            texts = (record.expected,)
        output = self._normal(text_of(record.output))
        missing = [text for text in texts if self._normal(text) not in output]
        found = [text for text in config.absent if self._normal(text) in output]
        total = len(texts) + len(config.absent)
        reasons = [f"missing: {', '.join(missing)}"] if missing else []
        reasons += [f"not allowed: {', '.join(found)}"] if found else []
        return Score((total - len(missing) - len(found)) / total, "; ".join(reasons) or "all as required")

    def _normal(self, text: str) -> str:
        return text.casefold() if self._config.ignore_case else text


def make(declared: Named[EvaluatorSpec], workspace: CompiledWorkspace, deps: EvaluatorDeps) -> ContainsEvaluator:
    return ContainsEvaluator(read_config(ContainsConfig, declared))


KIND: Final = EvaluatorKind(name="contains", make=make, config=ContainsConfig)

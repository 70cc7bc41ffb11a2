"""Scores 1 if the output equals the expected value, else 0."""

from typing import Any, Final

from app.evals.kind import EvaluatorDeps, EvaluatorKind, read_config
from app.evals.texts import NotJson, json_of, same, text_of
from app.policy.evaluator import AskJudge, NotEvaluated, Score
from app.views.run_record import RunRecord
from app.workspace.compiled import CompiledWorkspace, Named
from app.workspace.specs.base import Spec
from app.workspace.specs.others import EvaluatorSpec


class EqualsConfig(Spec):
    value: Any = None
    """What the output should be; without it, what the dataset's case expects."""
    ignore_case: bool = False
    trim: bool = True


class EqualsEvaluator:
    def __init__(self, config: EqualsConfig) -> None:
        self._config = config

    async def score(self, record: RunRecord, ask: AskJudge) -> Score:
        wanted = self._config.value if self._config.value is not None else record.expected
        if wanted is None:
            raise NotEvaluated("there is nothing to compare with: neither `config.value` nor an expected output")
        if isinstance(wanted, str):
            ok = self._normal(text_of(record.output)) == self._normal(wanted)
        else:
            try:
                ok = same(json_of(record.output), wanted)
            except NotJson:
                return Score(0.0, "the output is not JSON")
        return Score(1.0 if ok else 0.0, "equal" if ok else "the output is not the expected one")

    def _normal(self, text: str) -> str:
        text = text.strip() if self._config.trim else text
        return text.casefold() if self._config.ignore_case else text


def make(declared: Named[EvaluatorSpec], workspace: CompiledWorkspace, deps: EvaluatorDeps) -> EqualsEvaluator:
    return EqualsEvaluator(read_config(EqualsConfig, declared))


KIND: Final = EvaluatorKind(name="equals", make=make, config=EqualsConfig)

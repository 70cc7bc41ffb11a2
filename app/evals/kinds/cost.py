"""Scores what the model calls of a run and of its subagents cost."""

from typing import Final, Self

from pydantic import model_validator

from app.evals.kind import EvaluatorDeps, EvaluatorKind, read_config
from app.evals.limits import below
from app.policy.evaluator import AskJudge, Score
from app.views.run_record import RunRecord
from app.workspace.compiled import CompiledWorkspace, Named
from app.workspace.specs.base import Money, Spec
from app.workspace.specs.others import EvaluatorSpec


class CostConfig(Spec):
    max_usd: Money
    zero_usd: Money | None = None
    """Where the score reaches 0; without it, right after `maxUsd`."""

    @model_validator(mode="after")
    def _falls(self) -> Self:
        if self.zero_usd is not None and self.zero_usd <= self.max_usd:
            raise ValueError("`zeroUsd` must be more than `maxUsd`")
        return self


class CostEvaluator:
    def __init__(self, config: CostConfig) -> None:
        self._config = config

    async def score(self, record: RunRecord, ask: AskJudge) -> Score:
        return below(record.cost_usd, self._config.max_usd, self._config.zero_usd, "USD")


def make(declared: Named[EvaluatorSpec], workspace: CompiledWorkspace, deps: EvaluatorDeps) -> CostEvaluator:
    return CostEvaluator(read_config(CostConfig, declared))


KIND: Final = EvaluatorKind(name="cost", make=make, config=CostConfig)

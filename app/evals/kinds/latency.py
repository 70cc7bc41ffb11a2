"""Scores how long a run took to its answer."""

from typing import Final, Self

from pydantic import model_validator

from app.evals.kind import EvaluatorDeps, EvaluatorKind, read_config
from app.evals.limits import below
from app.policy.evaluator import AskJudge, Score
from app.views.run_record import RunRecord
from app.workspace.compiled import CompiledWorkspace, Named
from app.workspace.specs.base import Seconds, Spec
from app.workspace.specs.others import EvaluatorSpec


class LatencyConfig(Spec):
    max_seconds: Seconds
    zero_seconds: Seconds | None = None
    """Where the score reaches 0; without it, right after `maxSeconds`."""

    @model_validator(mode="after")
    def _falls(self) -> Self:
        if self.zero_seconds is not None and self.zero_seconds <= self.max_seconds:
            raise ValueError("`zeroSeconds` must be more than `maxSeconds`")
        return self


class LatencyEvaluator:
    def __init__(self, config: LatencyConfig) -> None:
        self._config = config

    async def score(self, record: RunRecord, ask: AskJudge) -> Score:
        return below(record.latency_ms / 1000, self._config.max_seconds, self._config.zero_seconds, "s")


def make(declared: Named[EvaluatorSpec], workspace: CompiledWorkspace, deps: EvaluatorDeps) -> LatencyEvaluator:
    return LatencyEvaluator(read_config(LatencyConfig, declared))


KIND: Final = EvaluatorKind(name="latency", make=make, config=LatencyConfig)

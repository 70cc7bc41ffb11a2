"""Scores 1 if the run called a tool as often as it should, with the arguments that it should, else 0."""

from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from app.evals.kind import EvaluatorDeps, EvaluatorKind, read_config
from app.evals.texts import includes
from app.policy.evaluator import AskJudge, Score
from app.views.run_record import RunRecord
from app.workspace.compiled import CompiledWorkspace, Named
from app.workspace.specs.base import JsonMap, Spec, Text
from app.workspace.specs.others import EvaluatorSpec


class ToolCalledConfig(Spec):
    tool: Text
    arguments: JsonMap = Field(default_factory=dict)
    """Only calls with at least these arguments count."""
    ok: bool | None = None
    """Only calls that succeeded, or only those that failed."""
    min: Annotated[int, Field(ge=0)] = 1
    max: Annotated[int, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.max is not None and self.max < self.min:
            raise ValueError("`max` is less than `min`")
        return self


class ToolCalledEvaluator:
    def __init__(self, config: ToolCalledConfig) -> None:
        self._config = config

    async def score(self, record: RunRecord, ask: AskJudge) -> Score:
        config = self._config
        count = sum(
            call.name == config.tool
            and (config.ok is None or call.ok is config.ok)
            and includes(call.arguments or {}, dict(config.arguments))
            for call in record.tool_calls
        )
        ok = count >= config.min and (config.max is None or count <= config.max)
        return Score(1.0 if ok else 0.0, f"{count} such calls of {config.tool}")


def make(declared: Named[EvaluatorSpec], workspace: CompiledWorkspace, deps: EvaluatorDeps) -> ToolCalledEvaluator:
    return ToolCalledEvaluator(read_config(ToolCalledConfig, declared))


KIND: Final = EvaluatorKind(name="tool_called", make=make, config=ToolCalledConfig)

"""Scores 1 if a CEL expression over the run is true, else 0.

input, output, expected     as they are; an output that is JSON text is given as its value in `json`
toolCalls                   a list of {tool, arguments, ok}
latencyMs, costUsd, inputTokens, outputTokens, status, labels, models
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from app.core.errors import Failure
from app.core.expressions import Expression, ExpressionProblem, VariableType, compile_expression
from app.evals.kind import EvaluatorDeps, EvaluatorKind, read_config
from app.evals.texts import NotJson, json_of
from app.policy.evaluator import AskJudge, NotEvaluated, Score
from app.views.run_record import RunRecord
from app.workspace.compiled import CompiledWorkspace, Named
from app.workspace.specs.base import Cel, Spec
from app.workspace.specs.others import EvaluatorSpec

_VARIABLES: Final[Mapping[str, VariableType]] = {
    "input": "any",
    "output": "any",
    "expected": "any",
    "json": "any",
    "toolCalls": "list",
    "latencyMs": "int",
    "costUsd": "any",
    "inputTokens": "int",
    "outputTokens": "int",
    "status": "string",
    "labels": "map",
    "models": "list",
}


def _readable(source: str) -> str:
    problem = compile_expression(source, _VARIABLES)
    if isinstance(problem, ExpressionProblem):
        raise PydanticCustomError("expression_invalid", "a CEL expression: {problem}", {"problem": problem.message})
    return source


class CelConfig(Spec):
    expression: Annotated[Cel, AfterValidator(_readable)]


class CelEvaluator:
    def __init__(self, expression: Expression) -> None:
        self._expression = expression

    async def score(self, record: RunRecord, ask: AskJudge) -> Score:
        known: dict[str, Any] = record.to_json()
        try:
            known["json"] = json_of(record.output)
        except NotJson:
            known["json"] = None
        answer = self._expression.evaluate({name: known[name] for name in _VARIABLES})
        if isinstance(answer, Failure):
            raise NotEvaluated(answer.message)
        return Score(1.0 if answer else 0.0, f"the expression is {str(answer).lower()}")


def make(declared: Named[EvaluatorSpec], workspace: CompiledWorkspace, deps: EvaluatorDeps) -> CelEvaluator | Failure:
    config = read_config(CelConfig, declared)
    expression = compile_expression(config.expression, _VARIABLES)
    if isinstance(expression, ExpressionProblem):
        return Failure("EVALUATOR_INVALID", f"{declared.name}: {expression.message}")
    return CelEvaluator(expression)


KIND: Final = EvaluatorKind(name="cel", make=make, config=CelConfig)

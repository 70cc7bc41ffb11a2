"""A CEL expression about a content: the rule applies where it is true. What cannot be evaluated blocks."""

from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from app.core.errors import Failure
from app.core.expressions import Expression, ExpressionProblem, VariableType, compile_expression
from app.policy.guardrails.contract import Found, Judgement, Passed, Subject
from app.policy.guardrails.kind import GuardrailDeps, GuardrailKind, Made, config_of
from app.policy.points import text_of
from app.workspace.compiled import CompiledWorkspace, Named
from app.workspace.specs.base import Cel, Spec
from app.workspace.specs.others import GuardrailSpec

_VARIABLES: Final[dict[str, VariableType]] = {
    "text": "string",
    "content": "any",
    "stage": "string",
    "tool": "string",
}


class NeitherTrueNorFalse(Exception):
    """An expression that gave neither true nor false."""


class CelRuleConfig(Spec):
    when: Annotated[
        Cel,
        Field(description="A CEL expression over `text`, `content`, `stage` and `tool`; true means that it applies."),
    ]

    @model_validator(mode="after")
    def _compiles(self) -> Self:
        compiled = compile_expression(self.when, _VARIABLES)
        if isinstance(compiled, ExpressionProblem):
            raise ValueError(f"`when` is not a valid expression: {compiled.message[:300]}")
        return self


class CelJudge:
    def __init__(self, expression: Expression) -> None:
        self._expression = expression

    async def judge(self, subject: Subject) -> Judgement:
        content = subject.content
        message = subject.stage == "output" and isinstance(content, dict)
        values = {
            "text": content.get("text", "") if message else text_of(content),
            "content": subject.content,
            "stage": subject.stage,
            "tool": subject.tool or "",
        }
        answer = self._expression.evaluate(values)
        if isinstance(answer, Failure):
            raise NeitherTrueNorFalse(answer.code)
        return Found(reason="the expression is true") if answer else Passed()


def make(declared: Named[GuardrailSpec], _workspace: CompiledWorkspace, _deps: GuardrailDeps) -> Made:
    compiled = compile_expression(config_of(declared, CelRuleConfig).when, _VARIABLES)
    if isinstance(compiled, ExpressionProblem):
        return Failure("GUARDRAIL_INVALID", f"{declared.name}: `when` is not a valid expression")
    return CelJudge(compiled)


KIND: Final = GuardrailKind(name="cel", config=CelRuleConfig, make=make, redacts=False)

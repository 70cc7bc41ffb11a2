"""A JSON Schema that a content must satisfy. Text is read as JSON, unless the schema is one of a text.

Of an output it is the answer: a message that calls tools is not judged.
"""

from typing import Annotated, Any, Final, Self

from pydantic import Field, model_validator

from app.core import json
from app.core.schemas import SchemaInvalid, Validator
from app.policy.guardrails.contract import Found, Judgement, Passed, Subject
from app.policy.guardrails.kind import GuardrailDeps, GuardrailKind, Made, config_of
from app.workspace.compiled import CompiledWorkspace, Named
from app.workspace.specs.base import JsonMap, Spec
from app.workspace.specs.others import GuardrailSpec


class SchemaRuleConfig(Spec):
    json_schema: Annotated[JsonMap, Field(alias="schema", description="The JSON Schema of what may pass.")]

    @model_validator(mode="after")
    def _is_schema(self) -> Self:
        try:
            Validator(self.json_schema)
        except SchemaInvalid as error:
            raise ValueError(f"`schema` cannot be used: {error.failure.message}") from error
        return self


class SchemaJudge:
    def __init__(self, schema: JsonMap) -> None:
        self._validator = Validator(schema)
        self._of_text = schema.get("type") == "string"

    async def judge(self, subject: Subject) -> Judgement:
        value: Any = subject.content
        if subject.stage == "output" and isinstance(value, dict):
            if value.get("toolCalls"):
                return Passed()  # not the answer yet
            value = value.get("text", "")
        if isinstance(value, str) and not self._of_text:
            try:
                value = json.loads(value)
            except json.JsonError:
                return Found(reason="the content is not JSON")
        issues = self._validator.issues(value)
        if not issues:
            return Passed()
        where = ", ".join(sorted({issue.path or "/" for issue in issues})[:5])
        return Found(reason=f"the content breaks the schema at {where}")


def make(declared: Named[GuardrailSpec], _workspace: CompiledWorkspace, _deps: GuardrailDeps) -> Made:
    return SchemaJudge(config_of(declared, SchemaRuleConfig).json_schema)


KIND: Final = GuardrailKind(name="schema", config=SchemaRuleConfig, make=make, redacts=False)

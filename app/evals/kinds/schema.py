"""Scores 1 if the output is JSON that is valid by a JSON Schema, else 0."""

from typing import Annotated, Final

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from app.core.schemas import SchemaInvalid, Validator
from app.evals.kind import EvaluatorDeps, EvaluatorKind, read_config
from app.evals.texts import NotJson, json_of
from app.policy.evaluator import AskJudge, Score
from app.views.run_record import RunRecord
from app.workspace.compiled import CompiledWorkspace, Named
from app.workspace.specs.base import JsonMap, Spec
from app.workspace.specs.others import EvaluatorSpec


def _usable(schema: JsonMap) -> JsonMap:
    try:
        Validator(schema)
    except SchemaInvalid:
        raise PydanticCustomError("schema_invalid", "a JSON Schema that can be used") from None
    return schema


class SchemaConfig(Spec):
    document: Annotated[JsonMap, AfterValidator(_usable)] = Field(alias="schema")


class SchemaEvaluator:
    def __init__(self, config: SchemaConfig) -> None:
        self._validator = Validator(config.document)

    async def score(self, record: RunRecord, ask: AskJudge) -> Score:
        try:
            value = json_of(record.output)
        except NotJson:
            return Score(0.0, "the output is not JSON")
        issues = self._validator.issues(value)
        if not issues:
            return Score(1.0, "valid")
        return Score(0.0, "; ".join(f"{issue.path or '/'}: {issue.message}" for issue in issues[:5]))


def make(declared: Named[EvaluatorSpec], workspace: CompiledWorkspace, deps: EvaluatorDeps) -> SchemaEvaluator:
    return SchemaEvaluator(read_config(SchemaConfig, declared))


KIND: Final = EvaluatorKind(name="schema", make=make, config=SchemaConfig)

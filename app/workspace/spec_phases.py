"""Compiles the phases of spec-driven work: the schemas, the rule, the evaluator and the agent that check an artifact.

A schema is written out, or named: a published one by its id, one of the workspace by the path of its JSON file. Leaves
to `workflows`: what a phase runs.
"""

from collections.abc import Mapping
from typing import Any, Final

from app.core import json
from app.core.expressions import Expression, ExpressionProblem, compile_expression
from app.core.schemas import SchemaRegistry, Validator
from app.workspace.compiled import CompiledSpecPhase
from app.workspace.diagnostics import DocPath
from app.workspace.names import did_you_mean
from app.workspace.report import DocumentPlace
from app.workspace.resolve import Resolver
from app.workspace.specs.workflow import PhaseVerification, SpecPhase
from app.workspace.tools import MakeValidator, compile_schema

_SUFFIX: Final = ".json"


class SpecPhaseCompiler:
    def __init__(self, resolver: Resolver, schemas: SchemaRegistry, validator: MakeValidator) -> None:
        self._index, self._report, self._files = resolver.index, resolver.report, resolver.files
        self._schemas, self._validator = schemas, validator

    def phase(self, phase: SpecPhase, number: int, place: DocumentPlace) -> CompiledSpecPhase:
        path: DocPath = ("spec", "phases", number)
        verify = phase.verify or PhaseVerification.model_construct()
        if verify.agent is not None:
            self._index.refers("Agent", verify.agent, place, (*path, "verify", "agent"), self._report)
        if verify.evaluator is not None:
            self._index.refers("Evaluator", verify.evaluator, place, (*path, "verify", "evaluator"), self._report)
        schema = phase.artifact.schema_ if phase.artifact is not None else None
        return CompiledSpecPhase(
            phase,
            self._schema(schema, (*path, "artifact", "schema"), place),
            self._schema(verify.schema_, (*path, "verify", "schema"), place),
            self._rule(verify, (*path, "verify", "rule"), place),
        )

    def _rule(self, verify: PhaseVerification, path: DocPath, place: DocumentPlace) -> Expression | None:
        if verify.rule is None:
            return None
        made = compile_expression(verify.rule, {"artifact": "any", "output": "any", "input": "any"})
        if isinstance(made, ExpressionProblem):
            hint = "compare `artifact`, `output` or `input`, such as `artifact.tests.size() > 0`"
            self._report.error("EXPRESSION_INVALID", place, path, made.message[:300], hint=hint)
            return None
        return made

    def _schema(self, given: Mapping[str, Any] | str | None, path: DocPath, place: DocumentPlace) -> Validator | None:
        if not isinstance(given, str):
            return compile_schema(given, path, place, self._report, self._validator)
        if not given.endswith(_SUFFIX):
            return self._published(given, path, place)
        file = self._files.files.get(given)
        if file is None:
            self._unknown(given, [name for name in self._files.files if name.endswith(_SUFFIX)], path, place)
            return None
        try:
            schema = json.loads_strict(file.content)
        except json.JsonError as error:
            message = f"the file {given} is not JSON: {error}"
            self._report.error("SCHEMA_INVALID", place, path, message[:300], expected="a JSON Schema")
            return None
        if not isinstance(schema, dict):
            message = f"the file {given} is no JSON object"
            self._report.error("SCHEMA_INVALID", place, path, message, expected="a JSON Schema")
            return None
        return compile_schema(schema, path, place, self._report, self._validator)

    def _published(self, name: str, path: DocPath, place: DocumentPlace) -> Validator | None:
        known = self._schemas.contracts()
        if name in known:
            return self._schemas.validator(name)
        self._unknown(name, known, path, place)
        return None

    def _unknown(self, name: str, known: "list[str] | tuple[str, ...]", path: DocPath, place: DocumentPlace) -> None:
        hint = did_you_mean(self._report.suggest.nearest(name, known))
        expected = "a JSON Schema, the id of a published one, or the path of a JSON file of the workspace"
        message = f"there is no schema {name!r}"
        self._report.error("SCHEMA_UNKNOWN", place, path, message, expected=expected, hint=hint)

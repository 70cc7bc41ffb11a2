"""Compiles what a Tool document says on its own: schemas, expressions, templates, examples.

Whether what it refers to exists is checked later, against the whole workspace.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from app.core import json
from app.core.expressions import Expression, ExpressionProblem, compile_expression
from app.core.schemas import SchemaInvalid, Validator
from app.workspace.compiled import CompiledRule, CompiledTool
from app.workspace.diagnostics import DocPath, dotted
from app.workspace.names import did_you_mean
from app.workspace.report import DocumentPlace, Report
from app.workspace.schema_errors import KEYWORDS, explain, nearest_type, unknown_keywords
from app.workspace.specs.tool import CompensationSpec, ToolDocument, ToolSpec
from app.workspace.templates import Template, TemplateProblem, compile_template

MakeValidator = Callable[[Mapping[str, Any]], Validator]

_REFERENCES: Final = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
_DRAFTS: Final = ("http://json-schema.org/", "https://json-schema.org/")


def compile_tool(
    document: ToolDocument, place: DocumentPlace, report: Report, validator: MakeValidator
) -> CompiledTool:
    spec = document.spec
    input_validator = compile_schema(spec.input, ("spec", "input"), place, report, validator)
    output_validator = compile_schema(spec.output, ("spec", "output"), place, report, validator)
    _check_input(spec, input_validator, place, report)
    return CompiledTool(
        name=document.metadata.name,
        description=document.metadata.description or "",
        labels=MappingProxyType(dict(document.metadata.labels)),
        spec=spec,
        input_validator=input_validator,
        output_validator=output_validator,
        approval=_approval(spec.asks_when, place, report),
        rules=tuple(_rules(spec, place, report)),
        templates=MappingProxyType(dict(_templates(spec, place, report))),
        compensation=MappingProxyType(dict(_compensation(spec.compensation, place, report))),
    )


def compile_schema(
    schema: Mapping[str, Any] | None, path: DocPath, place: DocumentPlace, report: Report, validator: MakeValidator
) -> Validator | None:
    if schema is None:
        return None
    remote = next(_remote_references(schema, ()), None)
    if remote is not None:
        # Refused before the library sees it: it would fetch the reference from the net or the disk.
        message = "the schema refers to something outside of itself"
        report.error("SCHEMA_REMOTE_REF", place, path + remote, message, expected="a reference that begins with #")
        return None
    try:
        compiled = validator(schema)
    except SchemaInvalid as error:
        if error.code == "SCHEMA_TOO_COMPLEX":
            report.error(error.code, place, path, error.failure.message, expected="a simpler JSON Schema")
        else:
            _invalid_schema(schema, (*path, *error.path), path, place, report)
        return None
    except json.JsonError:
        report.error("SCHEMA_INVALID", place, path, "the schema is not valid", expected="a JSON Schema")
        return None
    for where, key in unknown_keywords(schema):
        near = report.suggest.nearest(key, KEYWORDS)
        if near is not None:
            message = f"JSON Schema has no keyword `{key}`, so it has no effect"
            report.warning("SCHEMA_KEYWORD_UNKNOWN", place, path + where, message, hint=did_you_mean(near))
    return compiled


def _invalid_schema(
    schema: Mapping[str, Any], found: DocPath, path: DocPath, place: DocumentPlace, report: Report
) -> None:
    """`found` is where the validator that is used at run time gave up."""
    problem = explain(schema)
    if problem is None:
        message = f"`{dotted(found)}` is not a valid JSON Schema"
        report.error("SCHEMA_INVALID", place, found, message, expected="a JSON Schema")
        return
    where = path + problem.path
    expected = f"one of: {', '.join(sorted(problem.allowed))}" if problem.allowed else "a JSON Schema"
    near = None
    if problem.given is not None:
        near = nearest_type(problem.given) or report.suggest.nearest(problem.given, problem.allowed)
    message = f"`{dotted(where)}` is not a valid JSON Schema: {problem.message}"
    report.error("SCHEMA_INVALID", place, where, message, expected=expected, hint=did_you_mean(near))


def _remote_references(schema: Any, path: DocPath) -> Iterator[DocPath]:
    if isinstance(schema, Mapping):
        for key, value in schema.items():
            foreign = key in _REFERENCES and isinstance(value, str) and not value.startswith("#")
            dialect = key == "$schema" and isinstance(value, str) and not value.startswith(_DRAFTS)
            if foreign or dialect:
                yield (*path, key)
            else:
                yield from _remote_references(value, (*path, key))
    elif isinstance(schema, list):
        for number, item in enumerate(schema):
            yield from _remote_references(item, (*path, number))


def _check_input(spec: ToolSpec, validator: Validator | None, place: DocumentPlace, report: Report) -> None:
    if spec.input is None:
        if spec.kind in ("http", "subprocess"):
            message = f"a tool of kind {spec.kind} needs an input schema"
            report.error("FIELD_MISSING", place, ("spec", "input"), message, expected="`spec.input`")
        return
    if spec.input.get("type") != "object":
        report.error(
            "SCHEMA_NOT_OBJECT",
            place,
            ("spec", "input"),
            "a tool's input is an object",
            expected="`type: object`",
        )
        return
    if spec.output is None:
        message = "the tool declares what goes in and not what comes out, so its results are not checked"
        report.warning("OUTPUT_SCHEMA_MISSING", place, ("spec", "input"), message)
    _check_arguments(spec, validator, place, report)


def _check_arguments(spec: ToolSpec, validator: Validator | None, place: DocumentPlace, report: Report) -> None:
    properties = (spec.input or {}).get("properties")
    if isinstance(properties, Mapping):
        for number, name in enumerate(spec.paths):
            if name.removeprefix("/").split("/")[0] not in properties:
                hint = did_you_mean(report.suggest.nearest(name, properties))
                message = f"the tool has no argument `{name}`"
                report.error("ARGUMENT_UNKNOWN", place, ("spec", "paths", number), message, hint=hint)
    for number, example in enumerate(spec.examples):
        if validator is not None and not validator.accepts(dict(example)):
            issue = validator.issues(dict(example), show_keys=True)[0]
            message = f"the example breaks the input schema at `{issue.path or '/'}`"
            report.error("EXAMPLE_INVALID", place, ("spec", "examples", number), message, expected=issue.message)


def _approval(rule: str, place: DocumentPlace, report: Report) -> Any:
    if rule == "never" or rule == "always":
        return rule
    compiled = _expression(rule, ("spec", "approval"), place, report, words=("never", "always"))
    return compiled if compiled is not None else "always"


def _rules(spec: ToolSpec, place: DocumentPlace, report: Report) -> Iterator[CompiledRule]:
    for number, rule in enumerate(spec.rules):
        check = _expression(rule.check, ("spec", "rules", number, "check"), place, report)
        if check is not None:
            yield CompiledRule(check, rule.message, rule.example)


def _expression(
    source: str, path: DocPath, place: DocumentPlace, report: Report, words: tuple[str, ...] = ()
) -> Expression | None:
    compiled = compile_expression(source, {"args": "map"})
    if isinstance(compiled, ExpressionProblem):
        near = report.suggest.nearest(source, words)
        hint = did_you_mean(near) or "write a comparison on `args`, such as `args.amount > 100`"
        where = f" (line {compiled.line}, column {compiled.column} of the expression)"
        message = compiled.message[:300] + where
        report.error(
            "EXPRESSION_INVALID",
            place,
            path,
            message,
            expected="a CEL expression that gives a bool",
            hint=hint,
        )
        return None
    return compiled


def _templates(spec: ToolSpec, place: DocumentPlace, report: Report) -> Iterator[tuple[str, Template]]:
    texts: list[tuple[DocPath, Any]] = []
    if spec.http is not None:
        texts += [(("http", "url"), spec.http.url), (("http", "text"), spec.http.text)]
        texts += [(("http", "headers", name), text) for name, text in spec.http.headers.items()]
        texts += [(("http", "query", name), text) for name, text in spec.http.query.items()]
        texts += list(_texts(spec.http.json_, ("http", "json")))
    if spec.subprocess is not None:
        texts += [(("subprocess", "command", n), text) for n, text in enumerate(spec.subprocess.command)]
    for path, text in texts:
        if text is not None:
            template = _template(text, ("args",), ("spec", *path), place, report)
            if template is not None:
                yield ".".join(map(str, path)), template


def _compensation(spec: CompensationSpec | None, place: DocumentPlace, report: Report) -> Iterator[tuple[str, Any]]:
    for name, value in spec.arguments.items() if spec is not None else ():
        yield name, _with_templates(value, ("spec", "compensation", "arguments", name), place, report)


def _with_templates(value: Any, path: DocPath, place: DocumentPlace, report: Report) -> Any:
    """The value with its texts as templates, at any depth."""
    if isinstance(value, str):
        return _template(value, ("args", "result"), path, place, report)
    if isinstance(value, Mapping):
        return {key: _with_templates(item, (*path, key), place, report) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_templates(item, (*path, number), place, report) for number, item in enumerate(value)]
    return value


def _template(
    text: str, roots: tuple[str, ...], path: DocPath, place: DocumentPlace, report: Report
) -> Template | None:
    compiled = compile_template(text, roots)
    if isinstance(compiled, TemplateProblem):
        report.error("TEMPLATE_INVALID", place, path, f"`{dotted(path)}`: {compiled.message}")
        return None
    return compiled


def _texts(value: Any, path: DocPath) -> Iterator[tuple[DocPath, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(item, (*path, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _texts(item, (*path, number))

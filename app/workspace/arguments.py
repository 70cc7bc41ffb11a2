"""Checks that what a tool says about its arguments fits the arguments it has: rules, templates, a function's signature.

A misspelt argument would only be noticed when the tool is called: a rule that always fails, a URL with a hole.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from app.core.expressions import Expression
from app.workspace.compiled import CompiledTool
from app.workspace.diagnostics import DocPath, dotted
from app.workspace.entries import Signature
from app.workspace.names import did_you_mean
from app.workspace.report import DocumentPlace, Report
from app.workspace.templates import Template

_ROOT: Final = "args"
_CONTEXT: Final = "ctx"
"""A parameter of this name gets the context of the call and is not an argument."""
_TOKEN: Final = re.compile(
    r"""//[^\n]*|[rRbB]{0,2}(?P<text>\"\"\"(?s:.*?)\"\"\"|'''(?s:.*?)'''|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
    r"""|(?P<name>[A-Za-z_]\w*)|(?P<other>[^\s\w])"""
)
_BRACES: Final = re.compile(r"\$?(?<!\{)\{\s*(args\.[^{}\s]*)\s*\}(?!\})")
_URL_BRACES: Final = re.compile(r"\$?(?<!\{)\{\s*([A-Za-z_][\w.]*)\s*\}(?!\})")
_BRANCHES: Final = ("allOf", "anyOf", "oneOf")
_MAX_SCHEMAS: Final = 200
_TYPES: Final = {
    "str": {"string"},
    "int": {"integer"},
    "float": {"number", "integer"},
    "bool": {"boolean"},
    "list": {"array"},
    "dict": {"object"},
}


class Arguments:
    """The arguments of a tool by name, as far as its schema or its function says that there are no others."""

    def __init__(self, schema: Mapping[str, Any] | None, signature: Signature | None = None) -> None:
        self._schema = schema
        self._signature = signature

    def unknown(self, path: tuple[str, ...]) -> tuple[str, frozenset[str]] | None:
        """The first step of a path below `args` that cannot be there, and what could; None where it may be there."""
        if self._schema is None:
            known = None if self._signature is None else self._signature.accepts()
            return (path[0], known) if path and known is not None and path[0] not in known else None
        at: list[Any] = [self._schema]
        for number, step in enumerate(path):
            names, below = self._properties(at)
            if names is None:
                return None
            if step not in names:
                return ".".join(path[: number + 1]), frozenset(names)
            at = below[step]
        return None

    def _properties(self, schemas: list[Any]) -> tuple[set[str] | None, dict[str, list[Any]]]:
        """The declared properties of these schemas together; None if there may be others."""
        below: dict[str, list[Any]] = {}
        todo, seen = list(schemas), 0
        while todo:
            schema, seen = todo.pop(), seen + 1
            if not isinstance(schema, Mapping) or seen > _MAX_SCHEMAS:
                return None, {}
            if schema.get("additionalProperties", False) is not False or "patternProperties" in schema:
                return None, {}
            if any(key in schema for key in ("items", "prefixItems", "$dynamicRef", "dependentSchemas", "if")):
                return None, {}
            for name, item in (schema.get("properties") or {}).items():
                below.setdefault(name, []).append(item)
            for union in _BRANCHES:
                todo += schema.get(union) or ()
            if "$ref" in schema:
                todo.append(self._resolved(schema["$ref"]))
        return (set(below), below) if below else (None, {})

    def _resolved(self, reference: Any) -> Any:
        place: Any = self._schema
        for step in str(reference).removeprefix("#").split("/")[1:]:
            place = place.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(place, Mapping) else None
        return place


def check_uses(tool: CompiledTool, arguments: Arguments, place: DocumentPlace, report: Report) -> None:
    """Each argument that a rule or a template of the tool uses must be one of its arguments."""
    if isinstance(tool.approval, Expression):
        check_expression(tool.approval.source, arguments, ("spec", "approval"), place, report)
    for number, rule in enumerate(tool.spec.rules):
        check_expression(rule.check, arguments, ("spec", "rules", number, "check"), place, report)
    for name, template in tool.templates.items():
        _check_template(name, template, arguments, place, report)


def check_expression(source: str, arguments: Arguments, path: DocPath, place: DocumentPlace, report: Report) -> None:
    """Report each argument that a CEL expression uses and the tool does not have."""
    for used in sorted(set(arguments_used(source))):
        _report_unknown(used, arguments, path, place, report, "the expression uses")


def arguments_used(source: str) -> Iterator[tuple[str, ...]]:
    """The paths below `args` that a CEL expression names, such as `args.a.b` and `args["a"]`."""
    tokens = [found for found in _TOKEN.finditer(source) if found.lastgroup is not None]
    for number, token in enumerate(tokens):
        before = tokens[number - 1][0] if number else ""
        if token["name"] == _ROOT and before != ".":
            path = tuple(_steps(tokens[number + 1 :]))
            if path:
                yield path


def _steps(tokens: list[re.Match[str]]) -> Iterator[str]:
    at = 0
    while at + 1 < len(tokens):
        called = at + 2 < len(tokens) and tokens[at + 2][0] == "("
        if tokens[at][0] == "." and tokens[at + 1]["name"] and not called:
            yield tokens[at + 1][0]
            at += 2
        elif tokens[at][0] == "[" and tokens[at + 1]["text"] and "\\" not in tokens[at + 1][0]:
            yield tokens[at + 1]["text"].strip("\"'")
            at += 3
        else:
            return


def _check_template(name: str, template: Template, arguments: Arguments, place: DocumentPlace, report: Report) -> None:
    path: DocPath = ("spec", *(int(step) if step.isdecimal() else step for step in name.split(".")))
    for used in sorted(set(template.places)):
        if used[0] == _ROOT and len(used) > 1:
            _report_unknown(used[1:], arguments, path, place, report, "the template uses")
    pattern = _URL_BRACES if name == "http.url" else _BRACES
    for literal in template.literals:
        for found in pattern.finditer(literal):
            wanted = found[1] if found[1].startswith("args.") else f"args.{found[1]}"
            message = f"`{found[0]}` stays as it is: a place for an argument has two braces"
            report.error("TEMPLATE_BRACES", place, path, message, hint=f"write `{{{{ {wanted} }}}}`")


def _report_unknown(
    used: tuple[str, ...], arguments: Arguments, path: DocPath, place: DocumentPlace, report: Report, what: str
) -> None:
    unknown = arguments.unknown(used)
    if unknown is None:
        return
    name, known = unknown
    parent, _, last = name.rpartition(".")
    near = report.suggest.nearest(last, known)
    hint = did_you_mean(f"args.{parent + '.' if parent else ''}{near}" if near else None)
    expected = f"one of: {', '.join(sorted(known)[:20])}" if known else "a tool with arguments"
    message = f"{what} `args.{name}`, and the tool has no such argument"
    report.error("ARGUMENT_UNKNOWN", place, path, message, expected=expected, hint=hint)


def check_signature(
    schema: Mapping[str, Any] | None, function: str, signature: Signature, place: DocumentPlace, report: Report
) -> None:
    """A function is called with the arguments of the schema, by name."""
    properties = (schema or {}).get("properties")
    if schema is None or not isinstance(properties, Mapping) or any(key in schema for key in (*_BRANCHES, "$ref")):
        return
    required = schema.get("required") or ()
    for parameter in signature.parameters.values():
        name = parameter.name
        if name == _CONTEXT:
            continue
        at: DocPath = ("spec", "input", "properties", name)
        if parameter.positional_only:
            _differs(
                f"`{name}` of {function}() cannot be passed by name; remove the `/`", ("spec", "entry"), place, report
            )
        elif name not in properties and not parameter.has_default:
            near = did_you_mean(report.suggest.nearest(name, properties))
            message = f"{function}() needs `{name}`, which the input schema does not have"
            _differs(message, ("spec", "input"), place, report, near)
        elif name in properties and name not in required and not parameter.has_default:
            message = f"{function}() needs `{name}`, which the input schema does not require"
            _differs(message, at, place, report, f"add `{name}` to `required`, or give the parameter a default")
        elif name in properties and not _fits(parameter.annotation, properties[name]):
            message = f"`{name}` is {parameter.annotation} in {function}() and {properties[name]['type']} in the schema"
            _differs(message, at, place, report)
    accepted = signature.accepts()
    for name in properties:
        if accepted is not None and name not in accepted:
            near = did_you_mean(report.suggest.nearest(name, accepted))
            message = f"the input schema has `{name}`, which {function}() does not take"
            _differs(message, ("spec", "input", "properties", name), place, report, near)


def _differs(message: str, path: DocPath, place: DocumentPlace, report: Report, hint: str | None = None) -> None:
    report.error("SIGNATURE_DIFFERS", place, path, message, hint=hint, key=dotted(path).count(".") > 1)


def _fits(annotation: str | None, schema: Any) -> bool:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    allowed = _TYPES.get(annotation or "")
    return allowed is None or not isinstance(kind, str) or kind in allowed

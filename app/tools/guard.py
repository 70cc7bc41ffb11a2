"""The guard of one tool: its schemas compiled once, its arguments checked on every call.

It finds what is wrong and says so; it changes nothing. Repair and refusal are decided by `repair` and the
gateway. A schema that cannot be compiled, or that refers outside itself, is an error here and now: a tool
without a working guard is not registered.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import jsonschema_rs

from app.core import json
from app.core.errors import Failure, HoldfastError
from app.core.schema_bounds import Bounds
from app.core.schemas import PATTERN_OPTIONS, UNLISTED, SchemaInvalid, bounded, json_pointer
from app.core.value import value
from app.events.catalog.tool import Finding
from app.tools.closed_schema import close
from app.tools.contract import ToolDefinition
from app.tools.findings import MAX_FINDINGS, findings_of
from app.tools.paths import problem_with


class ToolInvalid(HoldfastError):
    """A definition that cannot work; its tool is not registered."""

    def __init__(self, tool: str, message: str, code: str = "TOOL_INVALID") -> None:
        super().__init__(code, f"{tool}: {message}", tool=tool)


@value(frozen=True, slots=True)
class GuardProblem:
    """One schema violation as repair needs it. `in_union` ones belong to a branch that may not be meant."""

    keyword: str
    where: tuple[str | int, ...]
    detail: Any
    in_union: bool


_MAX_STEPS: Final = 16  # of the way to a path; deeper arguments name none
_UNLISTED: Final = Finding(kind="constraint", path="", message=UNLISTED)
_REPAIRABLE: Final = frozenset({"type", "enum", "const", "required", "dependentRequired"})


class Guard:
    def __init__(self, definition: ToolDefinition, root: Path | None = None) -> None:
        """`root` is the folder that the tool's paths are beneath, when there is one to look into."""
        self.definition = definition
        self._root = root
        written = dict(definition.input)
        bounds = self._bound("input", written)
        self.schema = close(written) if definition.closed else written
        self._bounds = self._bound("input", self.schema) if definition.closed else bounds
        self._compiled = self._compile("input", self.schema)
        # Closing a nested object can make another branch of a `oneOf` the matching one, so that a value the
        # author's schema refuses would pass. Asking both costs half a microsecond.
        self._written = self._compile("input", written) if definition.closed else self._compiled
        self._accepts = self._compiled.is_valid
        self._accepts_written = self._written.is_valid
        self._plain = not definition.rules and not definition.paths
        self._paths = tuple(_steps(path) for path in definition.paths)
        self._output = self._compile("output", dict(definition.output)) if definition.output else None
        self._output_bounds = self._bound("output", dict(definition.output or {}))

    def accepts(self, arguments: Any) -> bool:
        """The quick answer, for the call that is right."""
        if not self._bounds.plain and not self._bounds.allow_verdict(arguments):
            return False
        try:
            if not (self._accepts(arguments) and self._accepts_written(arguments)):
                return False
        except (ValueError, TypeError, RecursionError):
            return False  # no JSON at all: nested without end, or a type that JSON does not have
        if not is_json(arguments):
            return False
        return self._plain or not (self._bad_paths(arguments) or self._broken_rules(arguments))

    def check(self, arguments: Any) -> tuple[Finding, ...]:
        """Everything that is wrong, nothing for a good call. Rules are asked about well-formed ones only."""
        if not isinstance(arguments, dict):
            message = "the arguments must be one JSON object"
            return (Finding(kind="wrong_type", path="", message=message),)
        if not is_json(arguments):
            message = "the arguments must be JSON: numbers of 64 bits, no NaN, text that can be encoded"
            return (Finding(kind="unparsable_arguments", path="", message=message),)
        if not self._bounds.plain and not self._bounds.allow_verdict(arguments):
            return (_UNLISTED,)
        if not self._accepts(arguments):
            if not self._bounds.allow_list(arguments):
                return (_UNLISTED,)
            return self._explained(findings_of(self._compiled.iter_errors(arguments), self.schema), arguments)
        if not self._accepts_written(arguments):
            if not self._bounds.allow_list(arguments):
                return (_UNLISTED,)
            return findings_of(self._written.iter_errors(arguments), self.definition.input)
        return self._bad_paths(arguments) or self._broken_rules(arguments)

    def problems(self, arguments: Any) -> Iterator[GuardProblem]:
        """The violations that a change of form might mend."""
        if not self._bounds.allow_list(arguments):
            return iter(())
        return _problems(self._compiled.iter_errors(arguments), False)

    def is_path(self, where: Sequence[str | int]) -> bool:
        """Whether the tool names this place among its paths. (`format: path` is seen in the schema.)"""
        plain = tuple(str(step) for step in where if not isinstance(step, int))
        return any(tuple(s for s in steps if s != "*") == plain for steps in self._paths)

    def named_paths(self, arguments: Mapping[str, Any]) -> list[str]:
        """Every path that valid arguments name: at the places that the tool lists, and by `format: path`."""
        places = {*self._paths, *_path_places(self.definition.input, self.definition.input)}
        return [text for steps in places for _, text in _strings(arguments, steps, "")]

    def output_issues(self, output: Any) -> list[tuple[str, str]]:
        """Where and how an output breaks the declared schema."""
        if self._output is None:
            return []
        bounds = self._output_bounds
        if (bounds.plain or bounds.allow_verdict(output)) and self._output.is_valid(output):
            return []
        if not bounds.allow_list(output):
            return [("", UNLISTED)]
        errors = [(json_pointer(e.instance_path), e.message) for e in self._output.iter_errors(output)]
        return errors[:MAX_FINDINGS]

    def _bound(self, which: str, schema: dict[str, Any]) -> Bounds:
        try:
            return bounded(schema)
        except SchemaInvalid as error:
            message = f"its {which} schema cannot be used: {error.failure.message}"
            code = error.code if error.code == "SCHEMA_TOO_COMPLEX" else "TOOL_INVALID"
            raise ToolInvalid(self.definition.name, message, code) from error

    def _compile(self, which: str, schema: dict[str, Any]) -> jsonschema_rs.Draft202012Validator:
        kind = jsonschema_rs.Draft202012Validator if self.definition.closed else jsonschema_rs.validator_for
        try:
            compiled: Any = kind(
                schema,
                formats={"path": lambda path: problem_with(path, self._root) is None},
                validate_formats=True,
                mask="value",
                pattern_options=PATTERN_OPTIONS,
                offline=True,  # a reference to elsewhere is no way to make the server fetch or read something
            )
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
            reason = str(error).partition("\n")[0][:300]
            raise ToolInvalid(self.definition.name, f"its {which} schema cannot be used: {reason}") from error
        return compiled  # type: ignore[no-any-return]  # both constructors give a validator

    def _explained(self, findings: tuple[Finding, ...], arguments: Any) -> tuple[Finding, ...]:
        return tuple(
            self._bad_path(f.path, _value_at(arguments, f.path)) if f.kind == "bad_path" else f for f in findings
        )

    def _bad_path(self, where: str, value: Any) -> Finding:
        wrong = problem_with(value, self._root) if isinstance(value, str) else None
        message = (
            f"`{where}` {wrong or 'is not a path beneath the folder'}. Allowed: a relative path beneath the "
            'folder, without "..". Example: "notes/today.md"'
        )
        return Finding(kind="bad_path", path=where, message=message)

    def _bad_paths(self, arguments: Any) -> tuple[Finding, ...]:
        if not self._paths:
            return ()
        found = [item for steps in self._paths for item in _strings(arguments, steps, "")]
        return tuple(self._bad_path(where, text) for where, text in found if problem_with(text, self._root))

    def _broken_rules(self, arguments: dict[str, Any]) -> tuple[Finding, ...]:
        findings = []
        for rule in self.definition.rules:
            answer = rule.condition.evaluate({"args": arguments})
            if answer is True:
                continue
            # A rule that cannot be evaluated has not been kept: the call is refused all the same.
            why = " (the rule could not be evaluated)" if isinstance(answer, Failure) else ""
            where = f"`{rule.path}`: " if rule.path else ""
            findings.append(Finding(kind="semantic", path=rule.path, message=f"{where}{rule.message}{why}"))
        return tuple(findings)


def is_json(value: Any) -> bool:
    try:
        json.canonical(value)
    except (json.JsonError, RecursionError):
        return False
    return True


def _problems(errors: Iterable[jsonschema_rs.ValidationError], in_union: bool) -> Iterator[GuardProblem]:
    for error in errors:
        keyword, detail = error.kind.name, error.kind.value
        if keyword in _REPAIRABLE:
            yield GuardProblem(keyword, tuple(error.instance_path), detail, in_union)
        elif keyword in ("anyOf", "oneOf") and isinstance(detail, list):
            for branch in detail:
                yield from _problems(branch if isinstance(branch, list) else [], True)


def _steps(path: str) -> tuple[str, ...]:
    if not path.startswith("/"):
        return (path,)
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in path[1:].split("/"))


def _strings(value: Any, steps: tuple[str, ...], where: str) -> list[tuple[str, str]]:
    """The texts at a place; a list there means each of its items, `*` any step."""
    if isinstance(value, list):
        rest = steps[1:] if steps and steps[0] == "*" else steps
        return [found for i, item in enumerate(value) for found in _strings(item, rest, f"{where}/{i}")]
    if not steps:
        return [(where, value)] if isinstance(value, str) else []
    if isinstance(value, Mapping):
        names = list(value) if steps[0] == "*" else [steps[0]] if steps[0] in value else []
        return [found for name in names for found in _strings(value[name], steps[1:], f"{where}/{name}")]
    return []


def _path_places(schema: Any, root: Mapping[str, Any], steps: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Where a schema says `format: path`; `*` stands for whatever key or index is there."""
    if not isinstance(schema, Mapping) or len(steps) > _MAX_STEPS:
        return
    if schema.get("format") == "path":
        yield steps
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/"):
        # Counted as a step, so that a schema which refers to itself ends.
        yield from (found[: len(steps)] + found[len(steps) + 1 :] for found in _referred(reference, root, steps))
    for name, below in (schema.get("properties") or {}).items():
        yield from _path_places(below, root, (*steps, name))
    for keyword in ("items", "additionalProperties"):
        yield from _path_places(schema.get(keyword), root, (*steps, "*"))
    for below in schema.get("prefixItems") or ():
        yield from _path_places(below, root, (*steps, "*"))
    for keyword in ("anyOf", "oneOf", "allOf"):
        for below in schema.get(keyword) or ():
            yield from _path_places(below, root, steps)


def _referred(reference: str, root: Mapping[str, Any], steps: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    return _path_places(_value_at(root, reference[1:]), root, (*steps, reference))


def _value_at(value: Any, pointer: str) -> Any:
    for step in _steps(pointer) if pointer else ():
        if isinstance(value, Mapping) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value

"""From a validator's errors to findings that a model can act on: where, what is wrong, what is allowed.

The messages name types, names and limits; never the submitted value, which may be a secret.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final, Literal, TypeAlias

import jsonschema_rs

from app.core import json
from app.core.schemas import PATTERN_OPTIONS, json_pointer
from app.events.catalog.tool import Finding
from app.tools.closed_schema import opened, resolve
from app.tools.examples import example_of

MAX_FINDINGS: Final = 20
_MAX_LOOKED_AT: Final = 200
"""Errors of which findings are made; hostile schemas repeat the same one."""
_SHOWN_OPTIONS: Final = 20
_SHOWN_EXAMPLE: Final = 200  # characters; a larger one hides what the message says

Kind: TypeAlias = Literal["missing_required", "wrong_type", "bad_enum", "extra_argument", "bad_path", "constraint"]
_KINDS: Final[dict[str, Kind]] = {
    "type": "wrong_type",
    "required": "missing_required",
    "dependentRequired": "missing_required",
    "enum": "bad_enum",
    "const": "bad_enum",
    "additionalProperties": "extra_argument",
    "unevaluatedProperties": "extra_argument",
    "propertyNames": "extra_argument",
}
_UNIONS: Final = ("anyOf", "oneOf")


def findings_of(errors: Iterable[jsonschema_rs.ValidationError], document: Mapping[str, Any]) -> tuple[Finding, ...]:
    found: dict[tuple[str, str, str], Finding] = {}
    # An argument that is declared, but in a branch that failed, counts as unevaluated. It is only worth
    # useful when nothing else is wrong, that is, when it belongs to another branch than the one chosen.
    consequences: dict[tuple[str, str, str], Finding] = {}
    for error in islice(_flattened(errors), _MAX_LOOKED_AT):
        declared = _properties(_at(document, error.schema_path[:-1]), document)
        for finding in _findings(error, document):
            follows = error.kind.name == "unevaluatedProperties" and finding.path.rpartition("/")[2] in declared
            kept = consequences if follows else found
            kept.setdefault((finding.kind, finding.path, finding.message), finding)
        if len(found) >= MAX_FINDINGS:
            break
    return tuple((found or consequences).values())[:MAX_FINDINGS]


def _flattened(errors: Iterable[jsonschema_rs.ValidationError]) -> Iterable[jsonschema_rs.ValidationError]:
    """A union's error says nothing by itself; the branch that came closest says what to correct."""
    for error in errors:
        branches = error.kind.value if error.kind.name in _UNIONS else None
        if isinstance(branches, list) and branches and all(isinstance(b, list) for b in branches):
            closest = min(branches, key=lambda branch: _distance(branch, error))
            if not _is_only_type(closest, error):
                yield from _flattened(closest)
                continue
        yield error


def _distance(branch: list[jsonschema_rs.ValidationError], union: jsonschema_rs.ValidationError) -> tuple[int, int]:
    return (1 if _is_only_type(branch, union) else 0, len(branch))


def _is_only_type(branch: list[jsonschema_rs.ValidationError], union: jsonschema_rs.ValidationError) -> bool:
    return any(e.kind.name == "type" and e.instance_path == union.instance_path for e in branch)


def _findings(error: jsonschema_rs.ValidationError, document: Mapping[str, Any]) -> Iterable[Finding]:
    keyword = error.kind.name
    where = json_pointer(error.instance_path)
    schema = _at(document, error.schema_path[:-1])
    if _KINDS.get(keyword) == "extra_argument":
        names = error.kind.value if isinstance(error.kind.value, list) else []
        allowed = ", ".join(sorted(_properties(schema, document))) or "none"
        for name in names:
            message = f"`{where}/{name}` is not an argument of this tool. Allowed here: {allowed}."
            yield Finding(kind="extra_argument", path=f"{where}/{name}", message=message)
        if names:
            return
    if keyword in ("required", "dependentRequired"):
        name = str(error.kind.value)
        place = f"{where}/{name}"
        wanted = _properties(schema, document).get(name)
        yield Finding(kind="missing_required", path=place, message=_missing(place, wanted, document))
        return
    kind = "bad_path" if keyword == "format" and error.kind.value == "path" else _kind(error)
    message = f"`{where or '/'}` {_wrong(error)}.{_allowed(schema, document)}{_example(schema, document)}"
    yield Finding(kind=kind, path=where, message=message)


def _kind(error: jsonschema_rs.ValidationError) -> Kind:
    keyword = error.kind.name
    if keyword in _UNIONS:
        return "wrong_type"
    return _KINDS.get(keyword, "constraint")


def _missing(place: str, wanted: Any, document: Mapping[str, Any]) -> str:
    return f"`{place}` is required and missing.{_allowed(wanted, document)}{_example(wanted, document)}"


def _wrong(error: jsonschema_rs.ValidationError) -> str:
    match error.kind.name:
        case "type":
            return f"must be {_either(error.kind.value)}, got {type_name(error.instance)}"
        case "enum" | "const":
            return "is not one of the allowed values"
        case "format":
            return f"is not a valid {error.kind.value}"
        case "pattern":
            return f"does not match the pattern {error.kind.value}"
        case "anyOf" | "oneOf":
            return f"fits none of the allowed forms, got {type_name(error.instance)}"
        case _:
            return error.message.removeprefix("value ")


def _allowed(schema: Any, document: Mapping[str, Any]) -> str:
    if not isinstance(schema, Mapping):
        return ""
    target = resolve(document, schema.get("$ref"))
    if isinstance(target, Mapping):
        schema = {**target, **schema}
    said = _options(schema)
    if not said:
        limits = [f"{name} {schema[name]}" for name in _LIMITS if name in schema]
        said = ", ".join([*(_either(t) for t in [schema.get("type")] if t), *limits])
    return f" Allowed: {said}." if said else ""


_LIMITS: Final = (
    "format",
    "pattern",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
)


def _options(schema: Mapping[str, Any]) -> str:
    options = [schema["const"]] if "const" in schema else schema.get("enum")
    if not isinstance(options, list):
        return ""
    shown = ", ".join(json.dumps(option).decode() for option in options[:_SHOWN_OPTIONS])
    return shown + (f" and {len(options) - _SHOWN_OPTIONS} more" if len(options) > _SHOWN_OPTIONS else "")


def _example(schema: Any, document: Mapping[str, Any]) -> str:
    example = example_of(schema, document)
    if example is None:
        return ""
    text = json.dumps(example).decode()
    return f" Example: {text}" if len(text) <= _SHOWN_EXAMPLE and _is_valid(example, schema, document) else ""


def _is_valid(example: Any, schema: Mapping[str, Any], document: Mapping[str, Any]) -> bool:
    """An example that does not fit would teach the model the next mistake."""
    definitions = {key: document[key] for key in ("$defs", "definitions") if key in document}
    try:
        validator = jsonschema_rs.Draft202012Validator(
            {**schema, **definitions}, offline=True, pattern_options=PATTERN_OPTIONS
        )
        return validator.is_valid(example)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError):
        return False


def _either(types: Any) -> str:
    names = types if isinstance(types, list) else [types]
    return " or ".join(str(name) for name in names)


def type_name(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _properties(schema: Any, document: Any) -> dict[str, Any]:
    """Every property that is declared for a place, through references and combinations."""
    found: dict[str, Any] = {}
    for item in opened(schema, document):
        for name, wanted in (item.get("properties") or {}).items():
            found.setdefault(name, wanted)
    return found


def _at(document: Any, path: list[str | int]) -> Any:
    place = document
    for step in path:
        try:
            place = place[step]
        except (KeyError, IndexError, TypeError):
            return None
    return place

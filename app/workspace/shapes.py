"""Checks a document against the model of its kind and says each mistake in the words of the file.

The models decide; this module translates what they found: which field, what was expected, the nearest name.
"""

from collections.abc import Iterator
from typing import Any, Final, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from app.core import json
from app.workspace.diagnostics import DocPath, dotted
from app.workspace.names import did_you_mean
from app.workspace.report import DocumentPlace, Report
from app.workspace.specs.base import Document

_EXPECTED: Final = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
_PATTERNS: Final = {
    "role:": "anyone, other, or role:<name>",
    "{0,63}": "letters, digits and `_ . -`, at most 64 characters, beginning with a letter or digit",
    "(https?": "an address that begins with http:// or https://",
    "(agents|": "agents.<name>, tools.<name>, skills.<name> or workflows.<name>",
    "[0-9a-f]{64}": "64 hexadecimal digits",
    "{0,127}": "the name of an environment variable",
}
# Each is looked up in the file again; a document with more mistakes than this has one that was copied.
_MAX_ERRORS: Final = 100


ModelT = TypeVar("ModelT", bound=BaseModel)


def check_shape(value: Any, model: type[Document], place: DocumentPlace, report: Report) -> Document | None:
    return check_section(value, model, place, (), report)


def check_section(value: Any, model: type[ModelT], place: DocumentPlace, at: DocPath, report: Report) -> ModelT | None:
    """A part of a document, at the path `at`, by a model of its own."""
    try:
        return model.model_validate_json(json.dumps(value))
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False)
        for found in errors[:_MAX_ERRORS]:
            # A list whose element is refused counts as too short as well; the element says it better.
            depth = len(found["loc"])
            if found["type"] == "too_short" and any(e["loc"][:depth] == found["loc"] != e["loc"] for e in errors):
                continue
            _translate(found, value, model, place, at, report)
        if len(errors) > _MAX_ERRORS:
            message = f"{len(errors) - _MAX_ERRORS} more mistakes of this document are not listed"
            report.error("VALUE_INVALID", place, at, message, expected="a document of its kind")
    except json.JsonError:
        report.error("VALUE_INVALID", place, at, "the document holds a value that JSON cannot")
    return None


def _translate(
    found: Any, value: Any, model: type[BaseModel], place: DocumentPlace, at: DocPath, report: Report
) -> None:
    kind: str = found["type"]
    inner = _document_path(found["loc"], value, missing=kind == "missing")
    path: DocPath = (*at, *inner)
    field = str(path[-1]) if path else ""
    if kind == "missing":
        report.error("FIELD_MISSING", place, path, f"the field `{field}` is missing", expected=f"`{dotted(path)}`")
    elif kind == "extra_forbidden":
        names = sorted(_fields_at(model, inner[:-1]))
        hint = did_you_mean(report.suggest.nearest(field, names))
        expected = f"one of: {', '.join(names)}" if 0 < len(names) <= 30 else None
        message = f"there is no field `{field}`"
        report.error("FIELD_UNKNOWN", place, path, message, expected=expected, hint=hint, key=True)
    elif kind in ("literal_error", "enum"):
        _not_allowed(found, _value_at(value, inner), path, place, report)
    elif kind == "value_error":
        message = str(found["ctx"]["error"])
        report.error("FIELD_CONFLICT", place, path, message, key=True)
    elif kind == "string_pattern_mismatch":
        _pattern(found, path, place, report)
    else:
        expected = _EXPECTED.get(kind) or _lower_first(found["msg"].removeprefix("Input should be "))
        message = (
            f"`{dotted(path)}` is not {_EXPECTED[kind]}" if kind in _EXPECTED else f"`{dotted(path)}` is not valid"
        )
        report.error("VALUE_INVALID", place, path, message, expected=expected)


def _not_allowed(found: Any, given: Any, path: DocPath, place: DocumentPlace, report: Report) -> None:
    allowed = [word.strip("'") for word in found["ctx"]["expected"].replace(" or ", ", ").split(", ")]
    hint = did_you_mean(report.suggest.nearest(given, allowed)) if isinstance(given, str) else None
    message = f"`{dotted(path)}` has a value that is not allowed"
    report.error("VALUE_NOT_ALLOWED", place, path, message, expected=f"one of: {', '.join(allowed)}", hint=hint)


def _pattern(found: Any, path: DocPath, place: DocumentPlace, report: Report) -> None:
    pattern: str = found["ctx"]["pattern"]
    if "env:" in pattern and path and path[-1] == "apiKey":
        report.error("SECRET_LITERAL", place, path, "a secret must not be written in a file", expected="`${env:NAME}`")
        return
    expected = next((text for mark, text in _PATTERNS.items() if mark in pattern), f"text that matches {pattern}")
    report.error("VALUE_INVALID", place, path, f"`{dotted(path)}` does not have the right form", expected=expected)


def _document_path(loc: tuple[str | int, ...], value: Any, *, missing: bool) -> DocPath:
    """The validator's path without the steps it adds for unions and keys, which are not in the file."""
    path: list[str | int] = []
    for position, step in enumerate(loc):
        if isinstance(value, dict) and str(step) in value:
            value = value[str(step)]
            path.append(str(step))
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
            path.append(step)
        elif missing and position == len(loc) - 1:
            path.append(step)
    return tuple(path)


def _value_at(value: Any, path: DocPath) -> Any:
    for step in path:
        value = value[step]
    return value


def _fields_at(model: type[BaseModel], path: DocPath) -> set[str]:
    """The fields that are known at a path, by following the models; any of a union's members counts."""
    models = {model}
    for step in path:
        below: set[type[BaseModel]] = set()
        for owner in models:
            for name, info in owner.model_fields.items():
                if (info.alias or name) == step:
                    below |= set(_models_in(info.annotation))
        # A list's index or a mapping's key stays with the models of its elements.
        models = below or models
    return {info.alias or name for owner in models for name, info in owner.model_fields.items()}


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]

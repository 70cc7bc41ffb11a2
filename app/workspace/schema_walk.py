"""Follows a path through a JSON Schema and compares types, as far as the schema says something.

Only what is plainly said counts: `type`, `properties`, `items` and local references. Where schemas are combined, or
leave something open, nothing is known, and nothing is objected to.
"""

from collections.abc import Mapping
from typing import Any, Final

from app.core.value import value

_COMBINED: Final = frozenset({"anyOf", "oneOf", "allOf", "if", "not", "$dynamicRef", "$recursiveRef"})
_MAX_REFERENCES: Final = 16
_NAMES: Final = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


@value(frozen=True, slots=True)
class SchemaDeadEnd:
    """A step of a path that the schema excludes."""

    step: str
    depth: int
    """How many steps came before it."""
    kind: str
    """What the schema has there, in words."""
    names: frozenset[str] = frozenset()
    """What it could have been."""


def walk(schema: Mapping[str, Any] | None, steps: tuple[str, ...]) -> Mapping[str, Any] | SchemaDeadEnd | None:
    """The schema at the end of the path; None where it says nothing."""
    root, at = schema, _resolved(schema, schema)
    for depth, step in enumerate(steps):
        if at is None or not at or _COMBINED & at.keys():
            return None
        kinds = _types(at)
        properties = at.get("properties")
        if kinds == {"array"}:
            if not step.isdecimal():
                return SchemaDeadEnd(step, depth, "a list")
            items = at.get("items")
            at = _resolved(items if isinstance(items, Mapping) else None, root)
        elif kinds <= {"object"} and isinstance(properties, Mapping):
            below = properties.get(step)
            if below is None:
                is_open = at.get("additionalProperties") not in (None, False) or "patternProperties" in at
                return None if is_open else SchemaDeadEnd(step, depth, "an object", frozenset(properties))
            at = _resolved(below if isinstance(below, Mapping) else None, root)
        elif kinds and not kinds & {"object", "array"}:
            return SchemaDeadEnd(step, depth, type_name(at))
        else:
            return None
    return at


def fits(actual: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """False only if no value of the one can be a value of the other, by their types."""
    if _COMBINED & actual.keys() or _COMBINED & wanted.keys():
        return True
    given, allowed = _types(actual), _types(wanted)
    if not given or not allowed:
        return True
    if "number" in allowed:
        allowed = allowed | {"integer"}
    if "integer" in allowed and "number" in given:
        return True  # a number may be a whole one
    return bool(given & allowed)


def type_name(schema: Mapping[str, Any]) -> str:
    return " or ".join(_NAMES.get(kind, kind) for kind in sorted(_types(schema))) or "something else"


def _types(schema: Mapping[str, Any]) -> set[str]:
    kind = schema.get("type")
    if isinstance(kind, str):
        return {kind}
    return set(kind) if isinstance(kind, list | tuple) else set()


def _resolved(schema: Mapping[str, Any] | None, root: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    for _ in range(_MAX_REFERENCES):
        reference = schema.get("$ref") if schema is not None else None
        if not isinstance(reference, str):
            return schema
        if not reference.startswith("#/"):
            return None
        found: Any = root
        for part in reference.removeprefix("#/").split("/"):
            found = found.get(part) if isinstance(found, Mapping) else None
        schema = found if isinstance(found, Mapping) else None
    return None

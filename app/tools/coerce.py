"""Turns a value into the one its schema can only have meant, without losing or inventing anything.

`"3"` becomes 3 where an integer is required, `"Kelvin"` becomes `kelvin` where exactly one allowed value
differs only by case, a required property's key gets its declared spelling. Where two readings would be valid
there is no repair. The result is always checked by the guard again; paths are left alone.
"""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from app.core import json
from app.core.schemas import json_pointer
from app.events.catalog.tool import Repair
from app.tools.closed_schema import opened
from app.tools.names import same_but_spelling

_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,18})\Z")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?\Z")
_WORDS: Final = {"true": True, "false": False}


class Coercion:
    """Repairs of one call's arguments; `document` is the schema they are for."""

    def __init__(self, document: Mapping[str, Any], *, types: bool = True, enums: bool = True) -> None:
        self._document, self._types, self._enums = document, types, enums

    def key(self, arguments: Any, where: list[str | int], required: str) -> Repair | None:
        """A missing required property that stands there in another spelling, undeclared under that one."""
        place = _at(arguments, where)
        if not self._types or not isinstance(place, dict) or required in place:
            return None
        declared = self.declared(where)
        misspelt = [key for key in same_but_spelling(required, place) if key not in declared]
        if len(misspelt) != 1 or len(same_but_spelling(required, declared)) != 1:
            return None
        entries = [(required if key == misspelt[0] else key, value) for key, value in place.items()]
        place.clear()
        place.update(entries)
        path = json_pointer([*where, required])
        return Repair(kind="argument_name", path=path, before=misspelt[0], after=required)

    def value(self, arguments: Any, where: list[str | int]) -> Repair | None:
        """The value at a place, when exactly one of the readings its schemas offer differs from it."""
        parent, before = _at(arguments, where[:-1]), _at(arguments, where)
        if not where or not isinstance(parent, dict | list):
            return None
        found: list[tuple[str, Any]] = []
        for schema in self._schemas(where):
            for kind, after in _readings(before, schema):
                if not any(_same(after, known) for _, known in found):
                    found.append((kind, after))
        if len(found) != 1:
            return None
        kind, after = found[0]
        if not (self._enums if kind == "enum_case" else self._types):
            return None
        parent[where[-1]] = after  # type: ignore[index]  # a key of a dict or an index of a list
        return Repair(kind=kind, path=json_pointer(where), before=before, after=after)

    def declared(self, where: list[str | int]) -> set[str]:
        """Every property that some schema declares at a place."""
        return {str(name) for schema in self._schemas(where) for name in schema.get("properties") or {}}

    def _schemas(self, where: list[str | int]) -> list[Mapping[str, Any]]:
        """Every schema that may apply at a place of the instance, unions and references opened."""
        level = opened(self._document, self._document)
        for step in where:
            below = [item for schema in level for item in _below(schema, step)]
            level = opened({"anyOf": below}, self._document)[1:]
        return level


def _below(schema: Mapping[str, Any], step: str | int) -> list[Any]:
    if isinstance(step, int):
        prefix = schema.get("prefixItems") or []
        return [prefix[step]] if step < len(prefix) else [schema.get("items")]
    properties = schema.get("properties") or {}
    if step in properties:
        return [properties[step]]
    # Patterns are not evaluated here: a foreign one could take Python's engine forever.
    return [] if "patternProperties" in schema else [schema.get("additionalProperties")]


def _readings(value: Any, schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    if "const" in schema or "enum" in schema:
        options = [schema["const"]] if "const" in schema else schema["enum"]
        yield from _options(value, options)
        return
    if not isinstance(value, str) or schema.get("format") == "path":
        return
    kinds = schema.get("type")
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        yield from _of_type(value, kind)


def _options(value: Any, options: list[Any]) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, str):
        return
    plain = value.strip().casefold()
    for option in options:
        if isinstance(option, str) and option.strip().casefold() == plain:
            yield "enum_case", option
        elif isinstance(option, bool | int | float) and _text(option) == plain:
            yield "text_to_value", option


def _of_type(text: str, kind: Any) -> Iterator[tuple[str, Any]]:
    stripped = text.strip()
    match kind:
        case "integer":
            if _INTEGER.match(stripped):
                yield "text_to_integer", int(stripped)
        case "number":
            if _NUMBER.match(stripped) and (number := _number(stripped)) is not None:
                yield "text_to_number", number
        case "boolean":
            if stripped.lower() in _WORDS:
                yield "text_to_boolean", _WORDS[stripped.lower()]
        case "null":
            if stripped == "null":
                yield "text_to_null", None
        case "array" | "object":
            wanted = list if kind == "array" else dict
            try:
                parsed = json.loads_strict(text.encode())
            except (json.JsonError, UnicodeEncodeError):
                return
            if isinstance(parsed, wanted):
                yield f"text_to_{kind}", parsed


def _number(text: str) -> int | float | None:
    if _INTEGER.match(text):
        return int(text)
    try:
        number = float(text)
        return number if Decimal(text) == Decimal(repr(number)) else None
    except (InvalidOperation, OverflowError):
        return None


def _text(option: bool | int | float) -> str:
    return json.dumps(option).decode()


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and json.canonical(a) == json.canonical(b)


def _at(value: Any, where: list[str | int]) -> Any:
    for step in where:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value

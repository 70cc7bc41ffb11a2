"""A valid example of a value that a schema describes, for the guard's messages. None where none was found.

Never a value that is used: an example only shows a model the shape.
"""

from collections.abc import Mapping
from typing import Any, Final

from app.tools.closed_schema import resolve

_FORMATS: Final[dict[str, str]] = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T09:30:00Z",
    "time": "09:30:00Z",
    "email": "ada@example.org",
    "uri": "https://example.org/",
    "uuid": "123e4567-e89b-42d3-a456-426614174000",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "hostname": "example.org",
    "path": "notes/today.md",
    "duration": "PT15M",
}
_DEPTH: Final = 6
_MOST: Final = 100  # schemas looked at for one example; what needs more would not be shown anyway


def example_of(schema: Any, document: Any) -> Any:
    return _Making(document).example(schema, _DEPTH)


class _Making:
    def __init__(self, document: Any) -> None:
        self._document = document
        self._left = _MOST

    def example(self, schema: Any, depth: int) -> Any:
        self._left -= 1
        if not isinstance(schema, Mapping) or depth == 0 or self._left < 0:
            return None
        for given in ("default", "const"):
            if given in schema:
                return schema[given]
        for listed in ("examples", "enum"):
            if isinstance(schema.get(listed), list) and schema[listed]:
                return schema[listed][0]
        target = resolve(self._document, schema.get("$ref"))
        if target is not None:
            return self.example(target, depth - 1)
        for union in ("anyOf", "oneOf", "allOf"):
            if isinstance(schema.get(union), list) and "properties" not in schema and schema[union]:
                return self.example(schema[union][0], depth - 1)
        return self._by_type(schema, depth)

    def _by_type(self, schema: Mapping[str, Any], depth: int) -> Any:
        kind = schema.get("type", "object" if "properties" in schema else None)
        kind = kind[0] if isinstance(kind, list) and kind else kind
        match kind:
            case "string":
                return _text(schema)
            case "integer" | "number":
                return _number(schema)
            case "boolean":
                return True
            case "array":
                item = self.example(schema.get("items"), depth - 1)
                return [item] * max(1, min(int(schema.get("minItems", 1)), 3)) if item is not None else []
            case "object":
                properties = schema.get("properties") or {}
                wanted = [name for name in schema.get("required") or [] if name in properties]
                return {name: self.example(properties[name], depth - 1) for name in wanted}
        return None


def _text(schema: Mapping[str, Any]) -> str | None:
    if schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]]
    if "pattern" in schema:
        return None
    return "text".ljust(min(int(schema.get("minLength", 0)), 200), "x")[: int(schema.get("maxLength", 200))]


def _number(schema: Mapping[str, Any]) -> Any:
    step = schema.get("multipleOf", 1)
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    if low is None:
        high = schema.get("maximum", schema.get("exclusiveMaximum"))
        return step if high is None or high > step else high - step
    value = -(-low // step) * step
    return value if "minimum" in schema else value + step

"""Explains what is wrong with a JSON Schema that an author wrote, and finds keywords that are misspelt.

The `jsonschema` package explains, because it names the part that does not fit; it is imported when there is something
to explain. Leaves to `core.schemas`: whether a schema is valid, and checking values against it.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from app.core.value import contract_value
from app.workspace.diagnostics import DocPath

_TYPES: Final = {
    "int": "integer",
    "long": "integer",
    "float": "number",
    "double": "number",
    "decimal": "number",
    "str": "string",
    "text": "string",
    "date": "string",
    "bool": "boolean",
    "dict": "object",
    "map": "object",
    "mapping": "object",
    "list": "array",
    "tuple": "array",
    "none": "null",
}
"""What other languages call the types."""

_ONE: Final = frozenset(
    {
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
_LIST: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_MAP: Final = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
_VALUES: Final = frozenset(
    {
        "$anchor",
        "$comment",
        "$dynamicAnchor",
        "$dynamicRef",
        "$id",
        "$ref",
        "$schema",
        "$vocabulary",
        "const",
        "contentEncoding",
        "contentMediaType",
        "default",
        "dependentRequired",
        "deprecated",
        "description",
        "enum",
        "examples",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "format",
        "maxContains",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minContains",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
        "pattern",
        "readOnly",
        "required",
        "title",
        "type",
        "uniqueItems",
        "writeOnly",
    }
)
KEYWORDS: Final = _ONE | _LIST | _MAP | _VALUES
_ELSEWHERE: Final = frozenset({"additionalItems", "dependencies", "example", "externalDocs", "id", "nullable", "xml"})
"""Keywords of other drafts and of OpenAPI, which their authors mean as they write them."""


@contract_value(frozen=True, slots=True)
class SchemaProblem:
    path: DocPath
    message: str
    allowed: tuple[str, ...] = ()
    given: str | None = None


def explain(schema: Mapping[str, Any]) -> SchemaProblem | None:
    """The mistake that explains most, or None where the package finds nothing wrong."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match
    from jsonschema.validators import validator_for

    try:
        chosen = validator_for(schema, default=Draft202012Validator)
        error = best_match(chosen(chosen.META_SCHEMA).iter_errors(schema))
    except Exception:  # a schema that no validator can walk through has no better explanation
        return None
    if error is None:
        return None
    # A type is one name or a list of names; nearly everybody means one.
    error = next((branch for branch in error.context or () if branch.validator == "enum"), error)
    path = tuple(error.absolute_path)
    given = error.instance if isinstance(error.instance, str) and len(error.instance) <= 100 else None
    if error.validator == "enum" and path and "type" in path[-2:]:
        return SchemaProblem(path, "there is no such type in JSON Schema", tuple(error.validator_value), given)
    return SchemaProblem(path, _said(error.validator, error.validator_value))


def nearest_type(given: str) -> str | None:
    return _TYPES.get(given.casefold())


def _said(keyword: str, expected: Any) -> str:
    """What was expected there, without the value that was found."""
    if keyword == "type":
        names = expected if isinstance(expected, list) else [expected]
        return f"the value must be of the type {' or '.join(names)}"
    if keyword in ("minimum", "exclusiveMinimum"):
        return f"the value must be {'at least' if keyword == 'minimum' else 'greater than'} {expected}"
    if keyword == "uniqueItems":
        return "the list names something twice"
    if keyword == "minItems":
        return "the list is empty"
    if keyword == "format" or keyword == "pattern":
        return f"the text is not a {expected}" if keyword == "format" else "the text does not have the right form"
    return f"the value breaks the rule `{keyword}` of JSON Schema"


def unknown_keywords(schema: Any, path: DocPath = ()) -> Iterator[tuple[DocPath, str]]:
    """Keys of a schema, and of the schemas in it, that are no keyword."""
    if not isinstance(schema, Mapping):
        return
    for key, value in schema.items():
        if key in _ONE:
            yield from unknown_keywords(value, (*path, key))
        elif key in _LIST and isinstance(value, list):
            for number, item in enumerate(value):
                yield from unknown_keywords(item, (*path, key, number))
        elif key in _MAP and isinstance(value, Mapping):
            for name, item in value.items():
                yield from unknown_keywords(item, (*path, key, name))
        elif key not in KEYWORDS and key not in _ELSEWHERE and not key.startswith("x-"):
            yield (*path, key), key

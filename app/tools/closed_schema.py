"""Closes a JSON Schema: what it does not declare is refused, at every level where properties are declared.

Uses `unevaluatedProperties`, which sees through allOf, anyOf, `$ref` and the like, at the outermost schema of
each place in the instance. Maps (no `properties`, or `additionalProperties` given) stay as written, and so do
predicates (`not`, `if`, `contains`), whose meaning closing would change.
"""

from collections.abc import Mapping
from typing import Any, Final

_IN_PLACE_LISTS: Final = ("allOf", "anyOf", "oneOf")
_IN_PLACE: Final = ("then", "else")
_BELOW: Final = ("items", "additionalProperties", "unevaluatedProperties", "unevaluatedItems")
_BELOW_LISTS: Final = ("prefixItems",)
_BELOW_MAPS: Final = ("properties", "patternProperties")
_DEFINITIONS: Final = ("$defs", "definitions")
_MAX_REFS: Final = 32


def close(schema: Mapping[str, Any]) -> dict[str, Any]:
    closed: dict[str, Any] = _Closer(schema).close(schema, outermost=True)
    return closed


def resolve(document: Any, reference: Any) -> Any:
    """The schema a local reference names, None for any other kind of reference."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return None
    place = document
    for step in reference[2:].split("/") if reference != "#" else []:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(place, Mapping) and step in place:
            place = place[step]
        elif isinstance(place, list) and step.isdigit() and int(step) < len(place):
            place = place[int(step)]
        else:
            return None
    return place


def opened(schema: Any, document: Any) -> list[Mapping[str, Any]]:
    """Every schema that may apply at the same place: itself, what it refers to, its branches. Each one once, so
    that a foreign schema which refers to itself in many ways costs no more than its size."""
    found: dict[int, Mapping[str, Any]] = {}
    todo = [schema]
    while todo:
        item = todo.pop()
        if not isinstance(item, Mapping) or id(item) in found:
            continue
        found[id(item)] = item
        inner = [resolve(document, item.get("$ref")), item.get("then"), item.get("else")]
        for union in ("allOf", "anyOf", "oneOf"):
            inner += _listed(item, union)
        todo += reversed(inner)
    return list(found.values())


class _Closer:
    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self._declaring: dict[int, bool] = {}

    def close(self, schema: Any, *, outermost: bool) -> Any:
        if not isinstance(schema, Mapping):
            return schema
        made = dict(schema)
        for key in _BELOW:
            if key in made:
                made[key] = self.close(made[key], outermost=True)
        for key in _BELOW_LISTS:
            if isinstance(made.get(key), list):
                made[key] = [self.close(item, outermost=True) for item in made[key]]
        for key in _BELOW_MAPS:
            if isinstance(made.get(key), Mapping):
                made[key] = {name: self.close(item, outermost=True) for name, item in made[key].items()}
        self._in_place(made, outermost and not self.declares(schema))
        if outermost and self.declares(schema) and not _says_itself(schema):
            made["unevaluatedProperties"] = False
        return made

    def _in_place(self, made: dict[str, Any], branches_alone: bool) -> None:
        """Branches of a union that also has an open object are closed one by one, or not at all."""
        for key in _IN_PLACE_LISTS:
            if isinstance(made.get(key), list):
                alone = branches_alone and key != "allOf"
                made[key] = [self.close(item, outermost=alone) for item in made[key]]
        for key in _IN_PLACE:
            if key in made:
                made[key] = self.close(made[key], outermost=False)
        for key in (*_DEFINITIONS, "dependentSchemas"):
            if isinstance(made.get(key), Mapping):
                made[key] = {name: self.close(item, outermost=False) for name, item in made[key].items()}

    def declares(self, schema: Any, refs: int = 0) -> bool:
        """Whether properties are declared for this place, with no branch that leaves them open."""
        if not isinstance(schema, Mapping) or refs > _MAX_REFS:
            return False
        known = self._declaring.get(id(schema))
        if known is None:
            self._declaring[id(schema)] = False  # a schema that refers to itself adds nothing by doing so
            known = self._declaring[id(schema)] = self._declares(schema, refs)
        return known

    def _declares(self, schema: Mapping[str, Any], refs: int) -> bool:
        if isinstance(schema.get("properties"), Mapping):
            return True
        inner = [resolve(self._document, schema.get("$ref")), *(schema.get(key) for key in _IN_PLACE)]
        inner += _listed(schema, "allOf") + list((schema.get("dependentSchemas") or {}).values())
        if any(self.declares(item, refs + 1) for item in inner):
            return True
        branches = _listed(schema, "anyOf") + _listed(schema, "oneOf")
        declared = any(self.declares(branch, refs + 1) for branch in branches)
        return declared and not any(self._open(branch, refs + 1) for branch in branches)

    def _open(self, schema: Any, refs: int) -> bool:
        """Whether a branch takes objects without saying which properties."""
        if schema is True:
            return True
        if not isinstance(schema, Mapping) or refs > _MAX_REFS:
            return False
        target = resolve(self._document, schema.get("$ref"))
        if target is not None and not self._open(target, refs + 1):
            return False
        kinds = schema.get("type", "object")
        takes_objects = "object" in (kinds if isinstance(kinds, list) else [kinds])
        fixed = "enum" in schema or "const" in schema
        return takes_objects and not fixed and not _says_itself(schema) and not self.declares(schema, refs)


def _says_itself(schema: Mapping[str, Any]) -> bool:
    return "additionalProperties" in schema or "unevaluatedProperties" in schema


def _listed(schema: Mapping[str, Any], key: str) -> list[Any]:
    found = schema.get(key)
    return list(found) if isinstance(found, list) else []

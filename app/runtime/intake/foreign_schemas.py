"""Checks the JSON Schemas that come with a request, before the run is accepted: its answer's and its client's tools'.

Clients send the same schemas with every request, so the last verdicts are kept. Leaves to `core`: what a schema may
cost and how values are checked.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from cachetools import LRUCache

from app.core import json
from app.core.errors import Failure
from app.core.schemas import SchemaInvalid, Validator

_MAX_KEPT: Final = 1_000
_kept: LRUCache[bytes, Failure | None] = LRUCache(_MAX_KEPT)


def check_schema(document: Any) -> Failure | None:
    """Why values cannot be checked against the document, if they cannot."""
    if not isinstance(document, Mapping):
        return Failure("SCHEMA_INVALID", "A JSON Schema is an object.")
    try:
        key = sha256(json.canonical(dict(document))).digest()
    except json.JsonError:
        return Failure("SCHEMA_INVALID", "The JSON Schema cannot be written as JSON.")
    if key not in _kept:
        _kept[key] = _compiled(document)
    return _kept[key]


def _compiled(document: Mapping[str, Any]) -> Failure | None:
    try:
        Validator(document)
    except SchemaInvalid as error:
        return error.failure
    return None

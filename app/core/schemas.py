"""The registry of JSON Schemas: every boundary payload validates against a versioned id.

Validators are compiled when first used. jsonschema-rs does the checking at run time; the tests hold it
against the jsonschema package. Leaves to others: where a value comes from and what a violation means.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import jsonschema_rs

from app.core import json
from app.core.errors import HoldfastError
from app.core.resources import shipped

# The folders of `schemas/` whose files are registered under their file name; editors use the others.
REGISTERED: Final = ("contracts", "events")
_MAX_ISSUES: Final = 20


class SchemaNotFound(HoldfastError):
    def __init__(self, schema_id: str) -> None:
        super().__init__("SCHEMA_NOT_FOUND", f"there is no schema {schema_id!r}", schema=schema_id)


@dataclass(frozen=True, slots=True)
class Issue:
    """One violation: where, and what was expected. Never the offending value."""

    path: str
    message: str


class Validator:
    """A compiled schema."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        # mask= keeps the submitted value out of the message: errors are shown and logged.
        self._compiled = jsonschema_rs.validator_for(dict(schema), mask="value", validate_formats=True)
        self.accepts = self._compiled.is_valid

    def issues(self, value: Any) -> list[Issue]:
        found = []
        for error in self._compiled.iter_errors(value):
            found.append(Issue(json_pointer(error.instance_path), error.message))
            if len(found) == _MAX_ISSUES:
                break
        return found


class SchemaRegistry:
    def __init__(self, root: Path | None = None) -> None:
        self._root = root or shipped("schemas")
        self._validators: dict[str, Validator] = {}

    @cached_property
    def _files(self) -> dict[str, Path]:
        return {
            path.name.removesuffix(".json"): path
            for folder in REGISTERED
            for path in sorted((self._root / folder).glob("*.json"))
        }

    def ids(self) -> list[str]:
        return sorted(self._files)

    def document(self, schema_id: str) -> dict[str, Any]:
        path = self._files.get(schema_id)
        if path is None:
            raise SchemaNotFound(schema_id)
        document: dict[str, Any] = json.loads(path.read_bytes())
        return document

    def validator(self, schema_id: str) -> Validator:
        found = self._validators.get(schema_id)
        if found is None:
            found = self._validators[schema_id] = Validator(self.document(schema_id))
        return found

    def validate(self, schema_id: str, value: Any) -> list[Issue]:
        """The violations, none if the value is good; an unknown id is an exception (fail closed)."""
        validator = self.validator(schema_id)
        return [] if validator.accepts(value) else validator.issues(value)


def json_pointer(path: list[str | int]) -> str:
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)

"""The registry of JSON Schemas: every boundary payload validates against a versioned id.

Validators are compiled when first used. jsonschema-rs does the checking at run time; the tests hold it
against the jsonschema package. Leaves to others: where a value comes from and what a violation means.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

import jsonschema_rs

from app.core import json
from app.core.errors import Failure, HoldfastError
from app.core.resources import shipped
from app.core.schema_bounds import BACKTRACK_LIMIT, REGEX_BYTES, Bounds, bounds_of
from app.core.value import value

# The folders of `schemas/` whose files are registered under their file name; editors use the others.
REGISTERED: Final = ("contracts", "events", "hooks")
_MAX_ISSUES: Final = 20
PATTERN_OPTIONS: Final = jsonschema_rs.FancyRegexOptions(
    backtrack_limit=BACKTRACK_LIMIT, size_limit=REGEX_BYTES, dfa_size_limit=REGEX_BYTES
)
UNLISTED: Final = "the value breaks the schema; it is too large, or the schema too complex, to list where"

# mask= leaves keys alone, so what the library says of them is said again without them.
_KEYLESS: Final = {
    "AdditionalProperties": "a property is not allowed here",
    "UnevaluatedProperties": "a property is not allowed here",
    "PropertyNames": "the name of a property is not allowed here",
}


class SchemaNotFound(HoldfastError):
    def __init__(self, schema_id: str) -> None:
        super().__init__("SCHEMA_NOT_FOUND", f"there is no schema {schema_id!r}", schema=schema_id)


class SchemaInvalid(HoldfastError, ValueError):
    """A document that is not a JSON Schema, or that refers to one outside itself; `path` leads to the fault."""

    def __init__(self, path: Sequence[str | int] = (), failure: Failure | None = None) -> None:
        code = failure.code if failure else "SCHEMA_INVALID"
        super().__init__(
            code, failure.message if failure else "the document is not a JSON Schema that stands on its own"
        )
        self.path = tuple(path)


class SchemaTooComplex(SchemaInvalid):
    """A schema that is refused because checking values against it could cost too much."""


@value(frozen=True, slots=True)
class Issue:
    """One violation: where, and what was expected. Never the offending value."""

    path: str
    message: str


class Validator:
    """A compiled schema."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        document = dict(schema)
        self.bounds = bounded(document)
        try:
            # mask= keeps the submitted value out of the message: errors are shown and logged.
            self._compiled = jsonschema_rs.validator_for(
                document,
                mask="value",
                validate_formats=True,
                retriever=_refuse_reference,
                pattern_options=PATTERN_OPTIONS,
            )
        except jsonschema_rs.ValidationError as error:
            raise SchemaInvalid(error.instance_path) from error
        except (ValueError, RecursionError) as error:
            raise SchemaInvalid from error
        self._names = frozenset(_declared_names(document))
        self.accepts = self._compiled.is_valid if self.bounds.plain else self._accepts_bounded

    def _accepts_bounded(self, value: Any) -> bool:
        """A value that would take too long to check is not valid: nothing passes unchecked."""
        return self.bounds.allow_verdict(value) and self._compiled.is_valid(value)

    def issues(self, value: Any, *, show_keys: bool = False) -> list[Issue]:
        """The violations of a value. Keys that the schema does not name are the sender's text as well:
        they show as `*`, unless the one who reads the issues is who wrote the value (`show_keys`).

        The library makes every error before it hands out the first, each with a copy of its part of the value.
        So the verdict comes first, and the errors are only asked for where they are known to be few.
        """
        if self.accepts(value):
            return []
        if not self.bounds.allow_list(value):
            return [Issue("", UNLISTED)]
        found = []
        for error in self._compiled.iter_errors(value):
            path, message = error.instance_path, error.message
            if not show_keys:
                path = [step if isinstance(step, int) or step in self._names else "*" for step in path]
                message = _KEYLESS.get(type(error.kind).__name__, message)
            found.append(Issue(json_pointer(path), message))
            if len(found) == _MAX_ISSUES:
                break
        return found


def _files_in(root: Path) -> dict[str, Path]:
    return {
        path.name.removesuffix(".json"): path
        for folder in REGISTERED
        for path in sorted((root / folder).glob("*.json"))
    }


_SHIPPED: Final[dict[str, Validator]] = {}
"""Of the schemas that ship, which never change: a server has six registries of them."""


@cache
def _shipped_files() -> dict[str, Path]:
    return _files_in(shipped("schemas"))


class SchemaRegistry:
    def __init__(self, root: Path | None = None) -> None:
        self._root = root
        self._validators = _SHIPPED if root is None else {}

    @cached_property
    def _files(self) -> dict[str, Path]:
        return _shipped_files() if self._root is None else _files_in(self._root)

    def ids(self) -> list[str]:
        return sorted(self._files)

    def contracts(self) -> list[str]:
        """The published ones, which documents of a workspace may name."""
        return sorted(name for name, path in self._files.items() if path.parent.name == "contracts")

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

    def validate(self, schema_id: str, value: Any, *, show_keys: bool = False) -> list[Issue]:
        """The violations, none if the value is good; an unknown id is an exception (fail closed)."""
        validator = self.validator(schema_id)
        return [] if validator.accepts(value) else validator.issues(value, show_keys=show_keys)


def bounded(document: Mapping[str, Any]) -> Bounds:
    """What checking against a schema may cost; raises for one that could cost too much."""
    bounds = bounds_of(document)
    if isinstance(bounds, Failure):
        raise (SchemaTooComplex if bounds.code == "SCHEMA_TOO_COMPLEX" else SchemaInvalid)(failure=bounds)
    return bounds


def json_pointer(path: Sequence[str | int]) -> str:
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def _refuse_reference(uri: str) -> Any:
    # The library would fetch it: over HTTP, or from this machine's files.
    raise LookupError("a schema refers only to itself")


def _declared_names(schema: Any) -> Iterator[str]:
    """Every property name that a schema spells out, at any depth."""
    if isinstance(schema, Mapping):
        for key, value in schema.items():
            if key in ("properties", "dependentSchemas") and isinstance(value, Mapping):
                yield from value
            yield from _declared_names(value)
    elif isinstance(schema, list | tuple):
        for item in schema:
            yield from _declared_names(item)

"""What the format knows and this version does not carry out yet: one table, and the check against it.

A part of a workspace that nothing enforces is an error, so that nobody relies on a rule that is not applied. Whoever
builds a part removes its lines here. Only what the author wrote counts: a default is never an error.
"""

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, Final

from pydantic import BaseModel

from app.core.value import contract_value
from app.workspace.diagnostics import DocPath, dotted
from app.workspace.parse import ParsedDocument
from app.workspace.report import Report

EACH: Final = "*"
"""Stands for every element of a list and every value of a mapping."""


@contract_value(frozen=True, slots=True)
class Unserved:
    """A field by its path below `spec`; with `values`, only these values of it are not served."""

    path: DocPath
    remedy: str
    values: frozenset[str] | None = None


@contract_value(frozen=True, slots=True)
class UnservedParts:
    """By kind: whole documents, with the remedy, and fields."""

    kinds: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, tuple[Unserved, ...]] = field(default_factory=dict)


UNSERVED: Final = UnservedParts(
    fields={
        "Runtime": (Unserved(("trust", "publishers"), "list the digests of the extensions in `trust.digests`"),),
    },
)


def check_document(document: ParsedDocument, unserved: UnservedParts, report: Report) -> None:
    """Says each part of a document that is not served, at its place."""
    remedy = unserved.kinds.get(document.kind)
    if remedy is not None:
        message = f"documents of the kind {document.kind} are not served by this version; it would have no effect"
        report.error("NOT_SERVED", document.place, ("kind",), message, hint=remedy)
    if document.model is None:
        return
    for part in unserved.fields.get(document.kind, ()):
        for path, value in _written(document.model.spec, part.path, ("spec",)):  # type: ignore[attr-defined]  # each kind of document has a spec
            if part.values is None or value in part.values:
                what = f"`{dotted(path)}`" if part.values is None else f"`{value}` in `{dotted(path[:-1])}`"
                message = f"{what} is not served by this version; it would have no effect"
                report.error("NOT_SERVED", document.place, path, message, hint=part.remedy, key=part.values is None)


def _written(value: Any, path: DocPath, at: DocPath) -> Iterator[tuple[DocPath, Any]]:
    """Where the author wrote something at this path; an empty list or mapping asks for nothing."""
    if not path:
        if not _is_empty(value):
            yield at, value
        return
    step, rest = path[0], path[1:]
    if isinstance(value, BaseModel):
        for name, info in type(value).model_fields.items():
            alias = info.alias or name
            if step == alias and name in value.model_fields_set:
                yield from _written(getattr(value, name), rest, (*at, alias))
    elif step == EACH and isinstance(value, Mapping):
        for key, item in value.items():
            yield from _written(item, rest, (*at, key))
    elif step == EACH and isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _written(item, rest, (*at, number))


def _is_empty(value: Any) -> bool:
    if isinstance(value, BaseModel):
        return all(_is_empty(getattr(value, name)) for name in value.model_fields_set)
    return value is None or (isinstance(value, Mapping | list | tuple) and not value)

"""All documents of a workspace by kind and name, and the check of one reference.

A name that a file with a syntax error mentions is not reported as missing: it is probably declared there, and the
syntax error says what to do.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import field
from typing import Final

from app.core.value import value
from app.workspace.diagnostics import DocPath
from app.workspace.documents import MAX_DOCUMENTS
from app.workspace.names import did_you_mean
from app.workspace.parse import ParsedDocument, ParsedFile, ParsedMarkdown
from app.workspace.report import DocumentPlace, Report
from app.workspace.specs import KINDS

_CODE: Final = {
    "Agent": "AGENT_UNKNOWN",
    "Model": "MODEL_UNKNOWN",
    "Tool": "TOOL_UNKNOWN",
    "Memory": "MEMORY_UNKNOWN",
    "Hook": "HOOK_UNKNOWN",
    "Guardrail": "GUARDRAIL_UNKNOWN",
    "Evaluator": "EVALUATOR_UNKNOWN",
    "Workflow": "WORKFLOW_UNKNOWN",
    "McpServer": "MCP_SERVER_UNKNOWN",
    "Profile": "PROFILE_UNKNOWN",
}


@value(frozen=True, slots=True)
class Index:
    documents: dict[str, dict[str, ParsedDocument]] = field(default_factory=lambda: {k: {} for k in KINDS})
    units: dict[str, dict[str, ParsedMarkdown]] = field(default_factory=dict)
    ambiguous_skills: set[str] = field(default_factory=set)
    """Names that two skills have: nothing says which one is meant."""
    unread: tuple[str, ...] = ()
    """The texts of files that could not be read as documents."""

    def good(self, kind: str) -> Iterator[ParsedDocument]:
        """The documents of a kind that have no mistake of their own."""
        return (document for document in self.documents[kind].values() if document.model is not None)

    def good_one(self, kind: str, name: str) -> ParsedDocument | None:
        """The document of that name, if there is one and it has no mistake of its own."""
        document = self.documents[kind].get(name)
        return document if document is not None and document.model is not None else None

    def may_be_unread(self, name: str) -> bool:
        """Whether a file that could not be read mentions the name."""
        if not self.unread:
            return False
        word = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
        return any(word.search(text) for text in self.unread)

    def refers(self, kind: str, name: str, place: DocumentPlace, path: DocPath, report: Report) -> bool:
        """Whether the name exists; says so if not. One with mistakes has been reported already."""
        known = self.documents[kind]
        if name in known or (kind == "Workflow" and name in self.units.get("cycles", {})):
            return True
        if self.may_be_unread(name):
            return False
        article = "an" if kind[0] in "AE" else "a"
        hint = did_you_mean(report.suggest.nearest(name, known))
        message = f"there is no {kind} named {name!r}"
        report.error(_CODE[kind], place, path, message, expected=f"the name of {article} {kind}", hint=hint)
        return False

    def refers_all(
        self, kind: str, names: Collection[str], place: DocumentPlace, path: DocPath, report: Report
    ) -> None:
        known = self.documents[kind]
        for number, name in enumerate(names):
            if name not in known:
                self.refers(kind, name, place, (*path, number), report)
        check_repeats(names, place, path, report)


def check_repeats(names: Collection[str], place: DocumentPlace, path: DocPath, report: Report) -> None:
    if len(set(names)) == len(names):
        return
    seen: set[str] = set()
    for number, name in enumerate(names):
        if name in seen:
            report.error("REFERENCE_DUPLICATE", place, (*path, number), f"{name!r} is listed twice")
        seen.add(name)


def build_index(parsed: Iterable[ParsedFile], report: Report, unread: Iterable[str] = ()) -> Index:
    index = Index(unread=tuple(unread))
    count = 0
    for file in parsed:
        count += file.count
        for document in file.documents:
            _add_document(index, document, report)
        if file.markdown is not None:
            _add_unit(index, file.markdown, report)
    if count > MAX_DOCUMENTS and not any(item.code == "TOO_MANY_DOCUMENTS" for item in report.items):
        report.at("TOO_MANY_DOCUMENTS", "", f"the workspace has {count} documents; the limit is {MAX_DOCUMENTS}")
    return index


def _add_document(index: Index, document: ParsedDocument, report: Report) -> None:
    known = index.documents[document.kind]
    first = known.get(document.name)
    if first is not None:
        where = f"{first.place.source.file}:{first.line}"
        message = f"there is another {document.kind} named {document.name!r} in {where}"
        report.error("NAME_DUPLICATE", document.place, ("metadata", "name"), message)
        return
    if document.kind == "Runtime" and known:
        other = next(iter(known.values()))
        message = f"there is another Runtime in {other.place.source.file}:{other.line}"
        report.error("RUNTIME_DUPLICATE", document.place, ("kind",), message)
        return
    known[document.name] = document


def _add_unit(index: Index, unit: ParsedMarkdown, report: Report) -> None:
    known = index.units.setdefault(unit.category, {})
    first = known.get(unit.id)
    if first is None:
        known[unit.id] = unit
        return
    message = f"{unit.id!r} is already defined in {first.place.source.file}"
    if unit.category == "skill":
        index.ambiguous_skills.add(unit.id)
    field_name = "name" if unit.category in ("skill", "personas") else "id"
    say = report.warning if unit.category == "skill" else report.error
    say("NAME_DUPLICATE", unit.place, (field_name,), message)

"""Checks a Guardrail document: that its kind can be used, that the fields fit the kind, and that some agent asks it."""

from collections.abc import Iterator
from typing import cast

from app.workspace.catalog import Kinds, RuleKind
from app.workspace.index import Index
from app.workspace.kind_checks import check_config, check_kind
from app.workspace.parse import ParsedDocument
from app.workspace.report import Report
from app.workspace.specs.agent import AgentDocument
from app.workspace.specs.model import ModelDocument
from app.workspace.specs.others import GuardrailSpec
from app.workspace.specs.workflow import WorkflowDocument

_WORD = "kind of guardrail"
_Listing = AgentDocument | WorkflowDocument | ModelDocument
_LISTING = ("Agent", "Workflow", "Model")


def check_guardrail(
    document: ParsedDocument, spec: GuardrailSpec, index: Index, known: Kinds[RuleKind], report: Report
) -> None:
    place = document.place
    if document.name not in _listed(index) and not index.may_be_unread(document.name):
        message = "no Agent, Workflow or Model lists this guardrail, so it is never asked"
        report.error("GUARDRAIL_NOT_LISTED", place, ("metadata", "name"), message)
    if not check_kind("GUARDRAIL_KIND_UNKNOWN", known, spec.kind, place, ("spec", "kind"), _WORD, report):
        return
    check_config(known, spec.kind, spec.config, place, ("spec", "config"), _WORD, report)
    kind = known.usable(spec.kind)
    assert kind is not None, "it was checked above"
    for field, given, needed in (("entry", spec.entry, kind.needs_entry), ("model", spec.model, kind.needs_model)):
        if needed and given is None:
            message = f"a guardrail of kind {spec.kind} needs `{field}`"
            report.error("FIELD_MISSING", place, ("spec",), message, expected=f"`{field}`", key=True)
        elif given is not None and not needed:
            message = f"`{field}` has no effect on a guardrail of kind {spec.kind}"
            report.error("NOT_SERVED", place, ("spec", field), message, hint="remove it", key=True)
    if spec.action == "redact" and not kind.redacts:
        message = f"a guardrail of kind {spec.kind} does not say where it found something, so it cannot redact"
        report.error("VALUE_NOT_ALLOWED", place, ("spec", "action"), message, expected="one of: block, ask, flag")


def _listed(index: Index) -> Iterator[str]:
    """What agents, workflows and models list; one with mistakes may yet turn out to list anything."""
    for document in (document for kind in _LISTING for document in index.documents[kind].values()):
        if document.model is None:
            yield from index.documents["Guardrail"]
        else:
            for names in cast(_Listing, document.model).spec.guardrails.stages.values():
                yield from names

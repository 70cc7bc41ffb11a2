"""Compiles Memory documents: their kind, the template of their namespace, and the rules of their policy."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from app.core.expressions import ExpressionProblem, VariableType, compile_expression
from app.workspace.compiled import CompiledMemory, MemoryRule
from app.workspace.kind_checks import check_config, check_kind
from app.workspace.namespaces import template_problem
from app.workspace.parse import ParsedDocument
from app.workspace.report import Report
from app.workspace.resolve import Resolver, spec_of
from app.workspace.specs.others import MemorySpec

_VALUES: Final[Mapping[str, VariableType]] = {
    "source": "string",
    "confidence": "any",
    "kind": "string",
    "namespace": "string",
}
"""What a rule may look at."""


def compile_memories(resolver: Resolver) -> Mapping[str, CompiledMemory]:
    return MappingProxyType({document.name: _memory(document, resolver) for document in resolver.index.good("Memory")})


def _memory(document: ParsedDocument, resolver: Resolver) -> CompiledMemory:
    spec, place, report = spec_of(document, MemorySpec), document.place, resolver.report
    kinds = resolver.catalog.memories
    if check_kind("MEMORY_KIND_UNKNOWN", kinds, spec.kind, place, ("spec", "kind"), "kind of memory", report):
        check_config(kinds, spec.kind, spec.config, place, ("spec", "config"), "kind of memory", report)
        kind = kinds.usable(spec.kind)
        if kind is not None and kind.needs_model and spec.embedding is None:
            message = f"a memory of the kind {spec.kind!r} needs a model that makes embeddings"
            report.error("MEMORY_EMBEDDING", place, ("spec", "kind"), message, hint="write `embedding: <Model>`")
        elif kind is not None and not kind.needs_model and spec.embedding is not None:
            message = f"a memory of the kind {spec.kind!r} makes no embeddings, so this has no effect"
            report.error("MEMORY_EMBEDDING", place, ("spec", "embedding"), message, hint="write `kind: vector`")
    if spec.embedding is not None:
        resolver.index.refers("Model", spec.embedding, place, ("spec", "embedding"), report)
    problem = template_problem(spec.namespace) if spec.namespace is not None else None
    if problem is not None:
        report.error("NAMESPACE_INVALID", place, ("spec", "namespace"), problem, expected="{tenant}/{agent}/{user}")
    metadata = document.model.metadata  # type: ignore[union-attr]  # asked of good documents only
    labels = MappingProxyType(dict(metadata.labels))
    rules = _rules(spec, document, report)
    return CompiledMemory(document.name, metadata.description or "", labels, spec, rules)


def _rules(spec: MemorySpec, document: ParsedDocument, report: Report) -> tuple[MemoryRule, ...]:
    made: list[MemoryRule] = []
    for number, rule in enumerate(spec.policy):
        when = compile_expression(rule.when, _VALUES)
        if isinstance(when, ExpressionProblem):
            hint = 'compare source, confidence, kind or namespace, such as `source == "user"`'
            expected = "a CEL expression that gives a bool"
            path = ("spec", "policy", number, "when")
            report.error("EXPRESSION_INVALID", document.place, path, when.message[:300], expected=expected, hint=hint)
        else:
            made.append(MemoryRule(when, rule.then))
    return tuple(made)

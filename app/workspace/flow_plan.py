"""What a workflow would do with an input, without running anything: its steps in order, and what each would need."""

from collections.abc import Mapping
from typing import Any, Final

from app.core.errors import Failure
from app.core.json import JsonObject, present
from app.workspace.compiled import CompiledNode, CompiledWorkflow
from app.workspace.flow_graph import START

_MAX_ISSUES: Final = 20


def plan_json(flow: CompiledWorkflow, given: Any, *, available: bool) -> JsonObject:
    validator = flow.input_validator
    issues = list(validator.issues(given))[:_MAX_ISSUES] if validator is not None else []
    values = {"input": given}
    return {
        "workflow": flow.name,
        "adapter": flow.spec.adapter,
        "available": available,
        "input": {
            "valid": not issues,
            "issues": [{"path": issue.path, "message": issue.message} for issue in issues],
        },
        "begins": [edge.target for edge in flow.graph.outgoing.get(START, ())],
        "steps": [_step(flow, node, values) for node in flow.nodes.values()],
        "maxVisits": flow.graph.max_visits,
        "limits": flow.spec.limits.model_dump(mode="json", by_alias=True, exclude_none=True),
        "asksPeople": [node.id for node in flow.nodes.values() if node.kind == "ask"],
        "unsafe": [node.id for node in flow.nodes.values() if node.unsafe],
    }


def _step(flow: CompiledWorkflow, node: CompiledNode, values: Mapping[str, Any]) -> JsonObject:
    after = list(dict.fromkeys(edge.source for edge in flow.graph.incoming.get(node.id, ())))
    leads = [present({"to": edge.target, "condition": edge.label}) for edge in flow.graph.outgoing.get(node.id, ())]
    # What depends on other steps is not known yet.
    filled = node.given.fill(values) if node.given is not None else None
    given = {} if filled is None or isinstance(filled, Failure) else {"given": filled}
    shown = {
        "id": node.id,
        "kind": node.kind,
        "ref": node.spec.ref,
        "after": after,
        "then": leads,
        "unsafe": node.unsafe or None,
    }
    return {**present(shown), **given}

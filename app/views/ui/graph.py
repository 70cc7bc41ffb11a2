"""The graph of what is being executed, and the view of a team on it, folded from UI events.

A parent is only what an event names. What should name one and does not becomes a diagnostic; nothing is guessed.
"""

from typing import Any, Final

from app.views.ui.fields import UiFields, present
from app.views.ui.standard import DELTA_CLASSES

Node = dict[str, Any]

_IDENTITY: Final = (
    ("subagentId", "subagent"),
    ("toolCallId", "tool"),
    ("actionId", "action"),
    ("stepId", "step"),
    ("attemptId", "attempt"),
    ("runId", "run"),
    ("taskId", "task"),
    ("turnId", "turn"),
)
_NEEDS: Final = {
    "task": (("taskId",),),
    "subagent": (("subagentId",), ("taskId",)),
    "worker": (("subagentId", "workerId"),),
    "handoff": (("handoffId",),),
    "review": (("reviewId",),),
}
"""What an event of a team must name, each time one of these."""
_WORK: Final = frozenset({"task", "job", "run", "attempt"})


class ExecutionGraph:
    def __init__(self, nodes: list[Node] | None = None) -> None:
        self.nodes: list[Node] = nodes or []
        self._by_id = {node["nodeId"]: node for node in self.nodes}

    def apply(self, event: UiFields) -> None:
        own = next(((node_id, kind) for name, kind in _IDENTITY if (node_id := event.text(name)) is not None), None)
        if own is None:
            return
        node_id, kind = own
        node = self._by_id.get(node_id)
        if node is None:
            node = {"nodeId": node_id, "nodeType": kind, "status": event.status, "title": event.title}
            node |= {"refs": [], "sourceEventIds": []} | present(createdAt=event.created_at)
            self.nodes.append(node)
            self._by_id[node_id] = node
        parent = _parent(event, kind)
        if parent is not None and parent != node_id:
            node.setdefault("parentId", parent)
        node["status"] = event.status
        if refs := event.all_refs:
            node["refs"] = list(dict.fromkeys((*node["refs"], *refs)))
        if event.name not in DELTA_CLASSES:
            node["sourceEventIds"].append(event.id)
        if (completed := event.text("completedAt")) is not None:
            node["completedAt"] = completed

    def of_type(self, *kinds: str) -> list[Node]:
        return [node for node in self.nodes if node["nodeType"] in kinds]


def _parent(event: UiFields, kind: str) -> str | None:
    match kind:
        case "subagent":
            return event.text("taskId")
        case "tool" | "action":
            return event.text("stepId") or event.text("runId")
        case "step":
            return event.text("runId")
        case "run":
            return event.text("taskId") or event.text("turnId")
        case _:
            return event.scope("parentTaskId") if kind == "task" else None


def missing_lineage(event: UiFields) -> str | None:
    """What an event of a team should have named, if it did not."""
    for names in _NEEDS.get(event.name.partition(".")[0], ()):
        if all(event.scope(name) is None for name in names):
            return " or ".join(names)
    return None


class Team:
    """Handoffs and reviews; the roster and the work are nodes of the graph."""

    def __init__(self, handoffs: list[dict[str, Any]] | None = None, reviews: list[dict[str, Any]] | None = None):
        self.handoffs, self.reviews = handoffs or [], reviews or []

    def apply(self, event: UiFields, view: dict[str, Any]) -> None:
        if event.is_of("handoff"):
            self.handoffs.append(view)
        elif event.is_of("review"):
            self.reviews.append(view)

    def workbench(self, graph: ExecutionGraph) -> dict[str, Any]:
        roster, work = graph.of_type("subagent"), graph.of_type(*_WORK)
        tasks = [node for node in work if node["nodeType"] != "run"]
        return {
            "hasTeamSurface": bool(roster or tasks or self.handoffs or self.reviews),
            "rosterNodes": roster,
            "workItems": work,
            "handoffEvents": self.handoffs,
            "reviewEvents": self.reviews,
            "laneEvents": [*self.handoffs, *self.reviews],
        }

    def subagents(self, graph: ExecutionGraph) -> dict[str, Any]:
        threads = graph.of_type("subagent")

        def with_status(*statuses: str) -> list[str]:
            return [node["nodeId"] for node in threads if node["status"] in statuses]

        return {
            "hasSubagents": bool(threads),
            "threads": threads,
            "delegationCalls": [node["parentId"] for node in threads if "parentId" in node],
            "activities": [*self.handoffs, *self.reviews],
            "activeThreadIds": with_status("running", "pending"),
            "completedThreadIds": with_status("completed"),
            "failedThreadIds": with_status("failed", "blocked", "canceled"),
        }

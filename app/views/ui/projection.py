"""The state of an agent's user interface, folded from UI events, ours or foreign ones.

Events are taken in the order of their `sequence`; one whose id was seen is ignored. A missing number makes the state
stale until a `snapshot.updated` repairs it, which completes no tool and no action. A state can be taken up again:
`Projection(state)` goes on where that one stopped. Leaves to others: whether events are valid (`validation`).
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from app.views.ui import standard
from app.views.ui.calls import ToolCallLane
from app.views.ui.fields import UiFields, present
from app.views.ui.graph import ExecutionGraph, Team, missing_lineage
from app.views.ui.messages import Messages, is_diagnostic

State = dict[str, Any]

LANES: Final = (
    "runtime",
    "messages",
    "timeline",
    "graph",
    "tools",
    "toolCalls",
    "mcp",
    "actions",
    "artifacts",
    "evidence",
    "diagnostics",
    "subagents",
    "teamWorkbench",
    "readModel",
    "hydration",
)
VISIBLE: Final = 8
"""Events of the read model that are shown without scrolling."""
MAX_PREVIEW: Final = 280

_TIMELINE_KINDS: Final = (
    ("action", "action"),
    ("tool", "tool"),
    ("artifact", "artifact"),
    ("evidence", "evidence"),
    ("review", "evidence"),
    ("reasoning", "reasoning"),
    ("model", "message"),
    ("task", "task"),
    ("subagent", "task"),
    ("worker", "task"),
    ("handoff", "task"),
)
_SURFACES: Final = {
    "action": "human-action",
    "tool": "tool",
    "permission": "permission",
    "sandbox": "permission",
    "draft": "artifact",
    "evidence": "evidence",
    "context": "context",
    "source": "context",
    "model": "message",
}
_TURN_STATUS: Final = {
    "turn.submitted": "waiting",
    "turn.started": "running",
    "turn.completed": "completed",
    "turn.failed": "failed",
    "turn.canceled": "canceled",
}


class Projection:
    def __init__(self, state: State | None = None) -> None:
        known: State = state or {}
        team: State = known.get("teamWorkbench", {})
        read: State = known.get("readModel", {})
        hydration: State = known.get("hydration", {})
        runtime: State = known.get("runtime", {})
        self._messages = Messages(known.get("messages"))
        self._calls = ToolCallLane(known.get("toolCalls", {}).get("calls"))
        self._graph = ExecutionGraph(known.get("graph"))
        self._team = Team(team.get("handoffEvents"), team.get("reviewEvents"))
        self._timeline: list[State] = known.get("timeline", [])
        self._tools: list[State] = known.get("tools", [])
        self._actions: dict[str, State] = {action["actionId"]: action for action in known.get("actions", [])}
        self._artifacts: dict[str, State] = {one["id"]: one for one in known.get("artifacts", [])}
        self._evidence: dict[str, State] = {one["id"]: one for one in known.get("evidence", [])}
        self._diagnostics: list[State] = known.get("diagnostics", [])
        self._events: list[State] = read.get("events", [])
        self._sources: int = read.get("sourceCount", 0)
        self._tasks: dict[str, str] = hydration.get("tasks", {})
        self._count: int = hydration.get("eventCount", 0)
        self._gaps: list[list[int]] = hydration.get("gaps", [])
        self._latest: int | None = runtime.get("latestSequence")
        self._latest_id: str | None = runtime.get("latestEventId")
        self._turn: str | None = runtime.get("activeTurnId")
        self._run: str | None = runtime.get("activeRunId")
        self._turn_status: str = hydration.get("turnStatus", "idle")
        self._ids: set[str] = set()

    def apply(self, event: Any) -> None:
        """One more event. A number that is not beyond the newest one has been counted, or is repaired by a snapshot."""
        if not isinstance(event, Mapping):
            return
        number = event.get("sequence")
        after = 0 if self._latest is None else self._latest
        if type(number) is not int:
            number = after + 1
        elif self._latest is not None and number <= self._latest:
            return
        elif self._latest is not None and number > after + 1:
            self._gaps.append([after + 1, number - 1])
        seen = UiFields(event, number)
        if seen.id in self._ids:
            self._latest = number
            return
        self._ids.add(seen.id)
        self._fold(seen)

    def _fold(self, event: UiFields) -> None:
        self._latest, self._latest_id = event.sequence, event.id
        self._count += 1
        view = _view(event)
        self._note_turn(event)
        self._messages.apply(event)
        self._calls.apply(event)
        self._graph.apply(event)
        self._team.apply(event, view)
        if event.name == "snapshot.updated":
            self._repair(event)
        if event.is_of("action"):
            self._act(event, view)
        if event.is_of("tool"):
            self._tools.append(view)
        if event.kind == "source":
            self._sources += 1
        if event.name not in standard.DELTA_CLASSES:
            self._timeline.append(_timeline_entry(event))
            self._events.append(view)
        self._refer(event)
        self._diagnose(event)

    # -- lanes ---------------------------------------------------------------------------------------

    def _note_turn(self, event: UiFields) -> None:
        status = _TURN_STATUS.get(event.name)
        if status is not None:
            self._turn_status = status
            ended = event.name in standard.TURN_ENDS
            self._turn = None if ended else event.text("turnId")
            self._run = None if ended else event.text("runId") or self._run
        elif self._turn_status == "waiting" and self._turn is not None and event.name == "run.status":
            self._turn_status = "running"
        task = event.scope("taskId")
        if task is not None and event.is_of("task"):
            self._tasks[task] = event.status

    def _act(self, event: UiFields, view: State) -> None:
        action = event.text("actionId")
        if action is None:
            return
        known = self._actions.get(action)
        if event.name == "action.required":
            if known is None:
                self._actions[action] = view | {"resolved": False}
        elif event.name in standard.ACTION_ENDS:
            resolved = (known or {}) | view | {"resolved": True, "displayStatusKey": "agent.status.actionResolved"}
            self._actions[action] = resolved | ({"actions": known["actions"]} if known and "actions" in known else {})

    def _repair(self, event: UiFields) -> None:
        """A snapshot that names what it stands for repairs that; one that does not repairs everything before it."""
        repairs = event.payload.get("repairs")
        if not isinstance(repairs, list):
            self._gaps = []
            return
        for repair in repairs:
            first, last = (repair.get("from"), repair.get("to")) if isinstance(repair, dict) else (None, None)
            if type(first) is int and type(last) is int:
                self.repair(first, last)

    def repair(self, first: int, last: int) -> None:
        """These numbers are known not to be missing."""
        left: list[list[int]] = []
        for start, end in self._gaps:
            if start < first:
                left.append([start, min(end, first - 1)])
            if end > last:
                left.append([max(start, last + 1), end])
        self._gaps = left

    def _refer(self, event: UiFields) -> None:
        for lane, name in ((self._artifacts, "artifact"), (self._evidence, "evidence")):
            for ref in event.refs(f"{name}Refs"):
                if ref not in lane:
                    lane[ref] = _reference(ref, event)

    def _diagnose(self, event: UiFields) -> None:
        if is_diagnostic(event) and event.name != "snapshot.updated":
            self._diagnostics.append(_diagnostic(event, event.status, event.title, event.text("detail")))
        missing = missing_lineage(event)
        if missing is not None:
            detail = f"{event.name} does not say its {missing}."
            self._diagnostics.append(_diagnostic(event, "unavailable", "Lineage unavailable", detail))

    # -- the state -----------------------------------------------------------------------------------

    def state(self) -> State:
        pending = [action for action in self._actions.values() if not action["resolved"]]
        active = [task for task, status in self._tasks.items() if status in ("running", "pending")]
        return {
            "runtime": present(
                status=self._status(bool(pending)),
                activeTurnId=self._turn,
                activeRunId=self._run,
                activeTaskId=active[-1] if active else None,
                latestEventId=self._latest_id,
                latestSequence=self._latest,
            ),
            "messages": self._messages.parts,
            "timeline": self._timeline,
            "graph": self._graph.nodes,
            "tools": self._tools,
            "toolCalls": self._calls.to_json(),
            "mcp": self._calls.mcp(),
            "actions": list(self._actions.values()),
            "artifacts": list(self._artifacts.values()),
            "evidence": list(self._evidence.values()),
            "diagnostics": self._diagnostics,
            "subagents": self._team.subagents(self._graph),
            "teamWorkbench": self._team.workbench(self._graph),
            "readModel": {
                "events": self._events,
                "visibleEvents": self._events[-VISIBLE:],
                "pendingActions": pending,
                "inputSourceRecovery": [],
                "sourceCount": self._sources,
                "artifactRefs": list(self._artifacts),
                "evidenceRefs": list(self._evidence),
                "taskRefs": list(self._tasks),
            },
            "hydration": {
                "status": "stale" if self._gaps else "live" if self._count else "idle",
                "eventCount": self._count,
                "gaps": self._gaps,
                "turnStatus": self._turn_status,
                "tasks": self._tasks,
            },
            "ephemeralUi": {},
        }

    def _status(self, pending: bool) -> str:
        """Only the end of a turn with nothing left to decide is an end; with a gap nobody knows."""
        if self._gaps:
            return "stale"
        return "waiting" if pending else self._turn_status


def project(events: Iterable[Any]) -> State:
    """All of them at once, in whatever order they come; of two with one id the first counts."""
    ordered: list[tuple[int, Mapping[str, Any]]] = []
    seen: set[str] = set()
    last = 0
    for event in events:
        if not isinstance(event, Mapping):
            continue
        if isinstance(event_id := event.get("id"), str):
            if event_id in seen:
                continue
            seen.add(event_id)
        number = event.get("sequence")
        last = number if type(number) is int else last + 1
        ordered.append((last, event))
    ordered.sort(key=lambda pair: pair[0])
    projection = Projection()
    for _, event in ordered:
        projection.apply(event)
    return projection.state()


def _view(event: UiFields) -> State:
    surface = _SURFACES.get(event.kind, "runtime-status")
    key = "actionRequired" if event.name == "action.required" else event.status
    given = event.payload.get("controls")
    controls: list[Any] = given if isinstance(given, list) else []
    actions = [_control(control) for control in controls if isinstance(control, dict)] if controls else None
    return {
        **present(
            id=event.id,
            source=event.name or event.kind,
            surface=surface,
            title=event.title,
            detail=event.text("detail"),
            status=event.status,
            displayStatusKey=f"agent.status.{key}",
            actionId=event.text("actionId"),
            toolCallId=event.text("toolCallId"),
            actions=actions or None,
        ),
        "resolved": event.name in standard.ACTION_ENDS,
        "actionKind": event.said("actionKind") or "none",
        "targetModule": "agent-runtime",
    }


def _control(control: Mapping[str, Any]) -> State:
    decision = control.get("decision")
    chosen = decision if isinstance(decision, str) else ""
    return {
        "actionKind": "decide",
        "targetModule": "agent-runtime",
        "labelKey": f"agent.action.{chosen}",
        "decision": chosen,
    }


def _timeline_entry(event: UiFields) -> State:
    family = event.name.partition(".")[0]
    kind = next((kind for prefix, kind in _TIMELINE_KINDS if family == prefix), None)
    if kind is None:
        kind = "diagnostic" if is_diagnostic(event) else "status"
    return {
        **present(
            entryId=event.id,
            sequence=event.sequence,
            kind=kind,
            phase=event.text("phase"),
            owner=event.text("owner"),
            status=event.status,
            title=event.title,
            detail=event.text("detail"),
            createdAt=event.created_at,
            completedAt=event.text("completedAt"),
        ),
        "refs": event.all_refs,
        "sourceEventId": event.id,
    }


def _reference(ref: str, event: UiFields) -> State:
    path, preview = event.said("path"), event.said("preview")
    outside = path is not None and (path.startswith(("/", "file:", "\\")) or path[1:2] == ":")
    return present(
        id=ref,
        sourceEventId=event.id,
        title=event.said("name") or event.title,
        status=event.status,
        owner=event.text("owner"),
        path=None if outside else path,
        contentRef=event.said("contentRef"),
        mimeType=event.said("mimeType"),
        preview=None if preview is None else preview[:MAX_PREVIEW],
    )


def _diagnostic(event: UiFields, status: str, title: str, detail: str | None) -> State:
    found = present(id=event.text("traceId") or event.id, sourceEventId=event.id, title=title, detail=detail)
    return found | {"status": status}

"""What an AG-UI page is shown besides the conversation: steps of a workflow, and state (its nodes, things to do).

A pure fold. The page's own state stays: ours is under one key of it. Leaves to others: frames of the conversation, and
reading the list of things to do as it was before.
"""

from typing import Any, Final

from app.core.json import JsonObject
from app.events.catalog import adapter, execution, interrupt, request, thread, tool, workflow
from app.events.envelope import Event
from app.views.flow_states import FlowStates
from app.views.todos import FOLDED, Todos, fold, todo_json

KEY: Final = "holdfast"
"""Of the page's state; the rest of it is the page's."""
FLOW_TYPES: Final = frozenset(
    {
        request.RequestQueued.type,
        tool.ToolInvoked.type,
        workflow.SpecPhaseStarted.type,
        interrupt.InterruptRaised.type,
        interrupt.InterruptResolved.type,
        interrupt.InterruptExpired.type,
        execution.StepCompleted.type,
        adapter.AdapterEvent.type,
        *request.TERMINAL,
    }
)
"""All types that the state of a workflow's steps is made of."""
_GOES_ON: Final = frozenset({"running", "waiting"})


class AguiState:
    """Feed it the events of the thread; it answers with AG-UI events. The first change shows everything, later ones
    what they change."""

    def __init__(self, run_id: str, flow: str | None, given: Any, todo_tools: frozenset[str]) -> None:
        self._flow, self._states = flow, FlowStates(run_id)
        self._given: JsonObject = given if isinstance(given, dict) else {}
        self._tools = todo_tools
        self._todos: Todos | None = None
        self._nodes: dict[str, JsonObject] = {}
        self._active: dict[str, None] = {}
        """Steps that the page believes to be going on, in their order."""
        self._shown = False

    def before(self, event: Event) -> None:
        """An event of the run before the stretch: the page is not shown it, and knows what came of it."""
        if self._flow is not None:
            self._states.apply(event)
            self._nodes = self._seen()

    def needs_todos(self, event: Event) -> bool:
        """Whether the list as it was before this event is needed to read it (`begin_todos`)."""
        return self._todos is None and self.is_todos(event)

    def is_todos(self, event: Event) -> bool:
        if event.type not in FOLDED:
            return False
        return event.type == thread.TodosUpdated.type or event.payload["tool"] in self._tools

    def begin_todos(self, before: Todos) -> None:
        self._todos = before

    def feed(self, event: Event) -> list[JsonObject]:
        made: list[JsonObject] = []
        changes: list[JsonObject] = []
        if self._flow is not None and event.type in FLOW_TYPES:
            self._states.apply(event)
            self._compare(made, changes)
        if self._todos is not None and self.is_todos(event):
            items = self._todos.items
            self._todos = fold(self._todos, event, self._tools)
            if self._todos.items != items:
                changes.append({"op": "add", "path": f"/{KEY}/todos", "value": self._list()})
        if changes:
            made.append({"type": "STATE_DELTA", "delta": changes} if self._shown else self._snapshot())
            self._shown = True
        return made

    def close(self) -> list[JsonObject]:
        """The steps that go on when the stretch ends; in the next one they begin again."""
        made = [_step("FINISHED", name) for name in self._active]
        self._active.clear()
        return made

    def _compare(self, made: list[JsonObject], changes: list[JsonObject]) -> None:
        seen = self._seen()
        for name, state in seen.items():
            known = self._nodes.get(name)
            if state == known:
                continue
            changes.append({"op": "add", "path": f"/{KEY}/workflow/nodes/{_escaped(name)}", "value": state})
            if name not in self._active:
                made.append(_step("STARTED", name))
                self._active[name] = None
            if state["status"] not in _GOES_ON:
                made.append(_step("FINISHED", name))
                del self._active[name]
        self._nodes = seen

    def _seen(self) -> dict[str, JsonObject]:
        return {
            name: {"status": state["status"], "visits": state["visits"]} for name, state in self._states.nodes.items()
        }

    def _list(self) -> list[JsonObject]:
        return [todo_json(one) for one in (self._todos.items if self._todos is not None else ())]

    def _snapshot(self) -> JsonObject:
        ours: JsonObject = {}
        if self._flow is not None:
            ours["workflow"] = {"name": self._flow, "nodes": self._nodes}
        if self._todos is not None:
            ours["todos"] = self._list()
        return {"type": "STATE_SNAPSHOT", "snapshot": {**self._given, KEY: ours}}


def _step(what: str, name: str) -> JsonObject:
    return {"type": f"STEP_{what}", "stepName": name}


def _escaped(name: str) -> str:
    """As a JSON pointer has it."""
    return name.replace("~", "~0").replace("/", "~1")

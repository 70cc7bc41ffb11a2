"""The list of things to do: what a thread's calls of the `todos` tool and its clients' changes add up to.

The tool only checks and acknowledges; the list lives nowhere but in the log, and this fold is what reads it.
"""

from collections.abc import Mapping
from dataclasses import field, replace
from types import MappingProxyType
from typing import Any, Final

from app.core.value import value
from app.events.catalog import thread, tool
from app.events.envelope import Event

TOOL: Final = frozenset({"todos"})
AGENT: Final = "agent"
"""The owner of what an agent writes on its list without naming one."""
FOLDED: Final = (tool.ToolInvoked.type, tool.ToolResulted.type, thread.TodosUpdated.type)
"""All types that the list is made of."""


@value(frozen=True, slots=True)
class Todo:
    id: str
    title: str
    status: str
    """pending, in_progress, blocked or done."""
    owner: str = AGENT
    """Who is to do it."""


@value(frozen=True, slots=True)
class Todos:
    items: tuple[Todo, ...] = ()
    asked: Mapping[tuple[str | None, str], Any] = field(default_factory=lambda: MappingProxyType({}))
    """Arguments of calls that have no result yet, by run and call: a call counts once it succeeded."""


def fold(state: Todos, event: Event, tools: frozenset[str] = TOOL) -> Todos:
    """`tools` are the names under which a workspace declares the tool."""
    if event.type == thread.TodosUpdated.type:
        return Todos(_changed(state.items, event.payload), state.asked)
    if event.type not in (tool.ToolInvoked.type, tool.ToolResulted.type) or event.payload["tool"] not in tools:
        return state
    payload = event.payload
    call = (event.run_id, str(payload["callId"]))
    if event.type == tool.ToolInvoked.type:
        return replace(state, asked=MappingProxyType({**state.asked, call: payload["arguments"]}))
    arguments = state.asked.get(call)
    asked = MappingProxyType({key: value for key, value in state.asked.items() if key != call})
    if arguments is None or not payload["ok"] or payload.get("applied") is False:
        return replace(state, asked=asked)
    return Todos(_changed(state.items, arguments), asked)


def _changed(items: tuple[Todo, ...], arguments: Any) -> tuple[Todo, ...]:
    try:
        given = {
            item["id"]: Todo(item["id"], item["title"], item["status"], item.get("owner") or AGENT)
            for item in arguments["items"]
        }
    except (KeyError, TypeError):
        return items  # a workspace's own tool of that name
    if arguments.get("mode") != "update":
        return tuple(given.values())
    kept = {item.id: item for item in items}  # an item that is updated stays where it stands
    return tuple((kept | given).values())


def todo_json(todo: Todo) -> dict[str, Any]:
    return {"id": todo.id, "title": todo.title, "status": todo.status, "owner": todo.owner}

"""A thread's list of things to do, for its clients: read it, add to it, change it. Each change is an event.

Leaves to the tool `todos`: what an agent writes; to the views: what both add up to.
"""

from collections.abc import Sequence
from typing import Final, Literal

from app.core import json
from app.core.errors import Failure
from app.core.ids import new_id
from app.core.principal import Principal
from app.core.value import value
from app.events import ports
from app.events.catalog.thread import TodosUpdated, TodoValue
from app.events.ports import Refused
from app.events.recorder import Recorder, Scope
from app.runtime.intake.rejection import Rejected
from app.runtime.workspaces import CurrentWorkspace
from app.views.ports import Reader
from app.views.todos import FOLDED, TOOL, Todo, Todos, fold, todo_json

Status = Literal["pending", "in_progress", "blocked", "done"]
MAX_BYTES: Final = 12 * 1024
"""Of a whole list, as for the tool."""
_PAGE: Final = 1000


@value(frozen=True, slots=True)
class TodoChange:
    """What is None stays as it is, or takes its default in a new item."""

    id: str | None
    title: str | None
    status: Status | None
    owner: str | None


class TodoList:
    def __init__(self, recorder: Recorder, reader: Reader, workspace: CurrentWorkspace) -> None:
        self._recorder, self._reader, self._workspace = recorder, reader, workspace

    async def read(self, tenant: str, thread_id: str, until: int) -> tuple[Todo, ...]:
        """As it is after that `seq`."""
        return (await self.folded(tenant, thread_id, until)).items

    async def folded(self, tenant: str, thread_id: str, until: int) -> Todos:
        """With the calls that have no result yet; whoever reads on from there folds with the same `tools`."""
        tools, state, after = self.tools, Todos(), 0
        while page := await self._reader.events_of(tenant, thread_id, FOLDED, after, until, _PAGE):
            for event in page:
                state = fold(state, event, tools)
            after = page[-1].seq
        return state

    async def change(
        self, who: Principal, thread_id: str, mode: Literal["update", "replace"], changes: Sequence[TodoChange]
    ) -> Rejected | None:
        known = {todo.id: todo for todo in await self.read(who.tenant, thread_id, 2**62)}
        items: dict[str, Todo] = {}
        for change in changes:
            item = _item(change, known.get(change.id or ""), who.actor)
            if item is None:
                return Rejected(Failure("TODO_INVALID", "A new item needs a title."))
            if item.id in items:
                return Rejected(Failure("TODO_INVALID", "Two items have the same id."))
            items[item.id] = item
        whole = known | items if mode == "update" else items
        if len(json.dumps([todo_json(todo) for todo in whole.values()])) > MAX_BYTES:
            return Rejected(Failure("TODO_INVALID", f"The list would be longer than {MAX_BYTES} bytes."))
        made = [TodoValue.model_validate(todo_json(todo)) for todo in items.values()]
        scope = Scope(who.tenant, thread_id, actor=who.actor)
        answer = await self._recorder.record(
            scope, TodosUpdated(mode=mode, items=made), conditions=[ports.ThreadAccepts()]
        )
        return Rejected(answer.failure, answer.winner) if isinstance(answer, Refused) else None

    @property
    def tools(self) -> frozenset[str]:
        """The names under which the workspace has the tool."""
        declared = self._workspace.current.tools.values()
        return TOOL | {one.name for one in declared if one.spec.kind == "builtin" and one.spec.entry in TOOL}


def _item(change: TodoChange, known: Todo | None, actor: str) -> Todo | None:
    if known is not None:
        return Todo(known.id, change.title or known.title, change.status or known.status, change.owner or known.owner)
    if change.title is None:
        return None
    return Todo(change.id or new_id("step"), change.title, change.status or "pending", change.owner or actor)

"""/api/threads/{id}/todos and /api/runs/{id}/todos: the list of things to do, which agents and clients share."""

from typing import Literal

from fastapi import APIRouter, Response
from fastapi import Request as HttpRequest
from pydantic import Field

from app.protocols.context import ServerContext
from app.protocols.http.answers import page_answer
from app.protocols.http.body import read_model
from app.protocols.http.caller import Caller
from app.protocols.http.deferred_route import DeferredRoute
from app.protocols.http.documents import may_answer, takes
from app.protocols.http.errors import HttpProblem
from app.protocols.http.late_shapes import shapes
from app.protocols.http.lookups import existing_run, existing_thread
from app.protocols.http.submission import Request
from app.runtime.intake.todo_list import Status, TodoChange
from app.views.todos import todo_json


class TodoItem(Request):
    """Of an item that exists, what is left out stays as it is."""

    id: str | None = Field(None, min_length=1, max_length=64, description="null: a new item, whose id is made up")
    title: str | None = Field(None, min_length=1, max_length=500)
    status: Status | None = Field(None, description="of a new item: `pending` unless given")
    owner: str | None = Field(None, min_length=1, max_length=200, description="of a new item: the caller unless given")


class ChangeTodos(Request):
    mode: Literal["update", "replace"] = Field("update", description="`replace` removes the items that are not listed")
    items: list[TodoItem] = Field(max_length=200)


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(route_class=DeferredRoute, prefix="/api", tags=["threads"])

    @router.get(
        "/threads/{thread_id}/todos",
        response_model=shapes.TodoPage,
        summary="The thread's list of things to do",
        responses=may_answer("THREAD_NOT_FOUND", "THREAD_DELETED"),
    )
    async def thread_todos(thread_id: str, caller: Caller) -> Response:
        thread = await existing_thread(server, caller, thread_id)
        return page_answer(map(todo_json, await server.todos.read(caller.tenant, thread_id, thread.last_seq)))

    @router.get(
        "/runs/{run_id}/todos",
        response_model=shapes.TodoPage,
        summary="The list of things to do as the run left it",
        responses=may_answer("RUN_NOT_FOUND", "THREAD_DELETED"),
    )
    async def run_todos(run_id: str, caller: Caller) -> Response:
        run = await existing_run(server, caller, run_id)
        return page_answer(map(todo_json, await server.todos.read(caller.tenant, run.thread_id, run.last_seq)))

    @router.post(
        "/threads/{thread_id}/todos",
        response_model=shapes.TodoPage,
        summary="Add things to do, or change them",
        openapi_extra=takes(ChangeTodos),
        responses=may_answer("THREAD_NOT_FOUND", "THREAD_DELETED", "THREAD_CLOSED", "TODO_INVALID", "STORAGE_FULL"),
    )
    async def change_todos(thread_id: str, request: HttpRequest, caller: Caller) -> Response:
        """Answers the whole list. Streams report the change (`runtime.todos.updated`, `turn_plan_updated`)."""
        body, _ = await read_model(request, ChangeTodos)
        await existing_thread(server, caller, thread_id)
        changes = [TodoChange(item.id, item.title, item.status, item.owner) for item in body.items]
        refused = await server.todos.change(caller, thread_id, body.mode, changes)
        if refused is not None:
            raise HttpProblem(refused.failure)
        return page_answer(map(todo_json, await server.todos.read(caller.tenant, thread_id, 2**62)))

    return router

"""/api/projects: named groups of sessions, as the codex-manager sessions API spells them."""

from typing import Any, Literal, NoReturn

from fastapi import APIRouter, Request, Response
from pydantic import Field

from app.core.clock import iso
from app.core.principal import Principal
from app.protocols.context import ServerContext
from app.protocols.http.answers import json_answer
from app.protocols.http.caller import Caller
from app.protocols.http.documents import takes
from app.protocols.http.errors import HttpProblem
from app.protocols.sessions.late_shapes import discovery_shapes as shapes
from app.protocols.sessions.refusals import conflicts, may_refuse
from app.protocols.sessions.route import SessionBody, SessionRefused, SessionRoute, expect_thread, read, refuse, session
from app.runtime.automation.session_jobs import WORKERS
from app.runtime.intake.projects import Project
from app.runtime.intake.rejection import Rejected
from app.runtime.intake.threads import ThreadChange
from app.views.controls import project_of
from app.views.thread import Thread

_MAX_WORKERS = 1000
"""Threads of the tenant's agents that are looked through for those of a project."""
_TAKEN = conflicts(shapes.ProjectTaken, "`duplicate_name`: another project has this name")


class NameProject(SessionBody):
    name: str = Field(min_length=1, max_length=120)


class NewProject(NameProject):
    working_directory: str = Field("", max_length=4096)


class MoveChats(SessionBody):
    destination: Literal["unassigned", "archive"]


class AssignProject(SessionBody):
    project_id: str | None = Field(max_length=200)


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["sessions"], route_class=SessionRoute, responses=may_refuse(404))
    _add_projects(router, server)
    _add_chats(router, server)
    _add_assignment(router, server)
    return router


def project_json(project: Project) -> dict[str, Any]:
    return {
        "projectId": project.id,
        "name": project.name,
        "workingDirectory": project.working_directory,
        "createdAt": iso(project.created_at),
        "updatedAt": iso(project.updated_at),
    }


async def _existing(server: ServerContext, caller: Principal, project_id: str) -> Project:
    found = await server.projects.find(caller.tenant, project_id)
    if found is None:
        raise SessionRefused(404, {"status": "not_found", "projectId": project_id})
    return found


def _refuse(answer: Rejected, project_id: str) -> NoReturn:
    match answer.failure.code:
        case "PROJECT_EXISTS":
            raise SessionRefused(409, {"status": "duplicate_name", "projectId": answer.winner})
        case "PROJECT_NOT_FOUND" | "THREAD_NOT_FOUND" | "THREAD_DELETED":
            raise SessionRefused(404, {"status": "not_found", "projectId": project_id})
    raise HttpProblem(answer.failure)


def _add_projects(router: APIRouter, server: ServerContext) -> None:
    @router.get("/projects", response_model=shapes.ProjectList, summary="The projects, oldest first")
    async def list_projects(caller: Caller) -> Response:
        return json_answer({"data": [project_json(one) for one in await server.projects.list(caller.tenant)]})

    @router.post(
        "/projects",
        response_model=shapes.ProjectCreated,
        summary="Create a project",
        openapi_extra=takes(NewProject),
        responses=_TAKEN,
    )
    async def create_project(request: Request, caller: Caller) -> Response:
        body = await read(request, NewProject)
        made = await server.projects.create(caller, body.name, body.working_directory)
        if isinstance(made, Rejected):
            _refuse(made, "")
        return json_answer({"status": "ok", "project": project_json(made), "orchestrationSession": None})

    @router.post(
        "/projects/{project_id}/rename",
        response_model=shapes.ProjectRenamed,
        summary="Give the project another name",
        openapi_extra=takes(NameProject),
        responses=_TAKEN,
    )
    async def rename_project(project_id: str, request: Request, caller: Caller) -> Response:
        await _existing(server, caller, project_id)
        body = await read(request, NameProject)
        renamed = await server.projects.rename(caller, project_id, body.name)
        if isinstance(renamed, Rejected):
            _refuse(renamed, project_id)
        return json_answer({"status": "ok", "project": project_json(renamed)})

    @router.delete(
        "/projects/{project_id}",
        response_model=shapes.ProjectErased,
        summary="Delete a project that has no sessions",
        responses=conflicts(shapes.ProjectNotEmpty, "sessions belong to it: move or delete them first"),
    )
    async def delete_project(project_id: str, caller: Caller) -> Response:
        await _existing(server, caller, project_id)
        count = len(await server.projects.sessions(caller.tenant, project_id))
        if count:
            values = {"status": "project_not_empty", "projectId": project_id, "sessionCount": count}
            raise SessionRefused(409, values)
        gone = await server.projects.delete(caller, project_id)
        if isinstance(gone, Rejected):
            _refuse(gone, project_id)
        return json_answer({"status": "ok", "projectId": project_id, "unassignedSessionCount": 0})

    @router.get(
        "/projects/{project_id}/agent-sessions",
        response_model=shapes.ProjectAgentSessions,
        summary="The sessions of the project that the system made for its own agents",
    )
    async def agent_sessions(project_id: str, caller: Caller) -> Response:
        await _existing(server, caller, project_id)
        owned = [
            {"agent": thread.metadata.get("agent"), "sessionId": thread.id, "systemOwned": True}
            for thread in await server.reader.threads_between(caller.tenant, WORKERS, WORKERS + "~", _MAX_WORKERS)
            if project_of(thread.metadata) == project_id
        ]
        return json_answer({"status": "ok", "projectId": project_id, "data": owned})


def _add_chats(router: APIRouter, server: ServerContext) -> None:
    @router.post(
        "/projects/{project_id}/chats/move-all",
        response_model=shapes.ChatsMoved,
        summary="Take all sessions out of the project, or archive them",
        openapi_extra=takes(MoveChats),
        responses=conflicts(shapes.ProjectSessionState, "`not_materialized`: a session in which nothing was asked yet"),
    )
    async def move_all(project_id: str, request: Request, caller: Caller) -> Response:
        await _existing(server, caller, project_id)
        body = await read(request, MoveChats)
        found = await server.projects.sessions(caller.tenant, project_id)
        counts = {"movedSessionCount": 0, "archivedSessionCount": 0, "alreadyArchivedSessionCount": 0}
        if body.destination == "archive" and (fresh := next((one for one in found if not one.used), None)) is not None:
            raise SessionRefused(409, {"status": "not_materialized", "projectId": project_id, "sessionId": fresh.id})
        for thread in found:
            counts[await _move(server, caller, thread, body.destination)] += 1
        return json_answer({"status": "ok", "projectId": project_id, "destination": body.destination, **counts})

    @router.post(
        "/projects/{project_id}/chats/delete-all",
        response_model=shapes.ChatsDeleted,
        summary="Delete all sessions of the project",
    )
    async def delete_all(project_id: str, caller: Caller) -> Response:
        await _existing(server, caller, project_id)
        deleted = skipped = 0
        for thread in await server.projects.sessions(caller.tenant, project_id):
            gone = await server.threads.delete(caller, thread.id)
            deleted, skipped = (deleted + 1, skipped) if isinstance(gone, Thread) else (deleted, skipped + 1)
        values = {"deletedSessionCount": deleted, "skippedSessionCount": skipped}
        return json_answer({"status": "ok", "projectId": project_id, **values})


async def _move(server: ServerContext, caller: Principal, thread: Thread, destination: str) -> str:
    """The count that it belongs to."""
    if destination == "unassigned":
        if (refused := await server.projects.assign(caller, thread, None)) is not None:
            refuse(refused, thread.id)
        return "movedSessionCount"
    if thread.archived:
        return "alreadyArchivedSessionCount"
    expect_thread(await server.threads.update(caller, thread.id, ThreadChange(archived=True)), thread.id)
    return "archivedSessionCount"


def _add_assignment(router: APIRouter, server: ServerContext) -> None:
    @router.post(
        "/sessions/{session_id}/project",
        response_model=shapes.ProjectAssigned,
        summary="Put the session into a project, or out of all",
        openapi_extra=takes(AssignProject),
        responses=may_refuse(409, 410),
    )
    async def assign_project(session_id: str, request: Request, caller: Caller) -> Response:
        thread = await session(server, caller, session_id)
        body = await read(request, AssignProject)
        project_id, previous = body.project_id, project_of(thread.metadata)
        missing = {"status": "project_not_found", "sessionId": session_id, "projectId": project_id}
        if project_id is not None and await server.projects.find(caller.tenant, project_id) is None:
            raise SessionRefused(404, missing)
        refused = await server.projects.assign(caller, thread, project_id)
        if refused is not None and refused.failure.code == "PROJECT_NOT_FOUND":
            raise SessionRefused(404, missing)
        if refused is not None:
            refuse(refused, session_id)
        values = {"sessionId": session_id, "projectId": project_id, "previousProjectId": previous}
        return json_answer({"status": "ok", **values})

"""/api/sessions/{id}/rollback, /compact and what else is done with a whole conversation; what has no equivalent
answers 501.
"""

from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import Field

from app.protocols.context import ServerContext
from app.protocols.dialects import codex_sessions as dialect
from app.protocols.http.answers import json_answer
from app.protocols.http.caller import Caller
from app.protocols.http.documents import takes
from app.protocols.sessions.discovery import not_supported
from app.protocols.sessions.late_shapes import discovery_shapes, shapes
from app.protocols.sessions.refusals import NOT_SUPPORTED, conflicts, may_refuse
from app.protocols.sessions.route import SessionBody, SessionRefused, SessionRoute, read, refuse, session
from app.runtime.intake.rejection import Rejected


class RollBack(SessionBody):
    num_turns: Annotated[int, Field(ge=1, le=500)] = 1


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(
        prefix="/api/sessions/{session_id}", tags=["sessions"], route_class=SessionRoute, responses=may_refuse(404, 410)
    )

    _add_rollback(router, server)
    _add_compact(router, server)
    for path, method in (
        ("background-terminals/clean", "thread/backgroundTerminals/clean"),
        ("review", "review/start"),
    ):
        _add_absent(router, server, path, method)
    return router


def _add_rollback(router: APIRouter, server: ServerContext) -> None:
    @router.post(
        "/rollback",
        response_model=shapes.SessionTaken,
        summary="Take the last turns out of the conversation",
        openapi_extra=takes(RollBack, required=False),
        responses=conflicts(shapes.SessionProblem, "`invalid_state`: a turn is active, or there are fewer turns"),
    )
    async def rollback(session_id: str, request: Request, caller: Caller) -> Response:
        """Later turns do not see them. The log keeps them."""
        thread = await session(server, caller, session_id)
        body = await read(request, RollBack)
        done = await server.threads.roll_back(caller, session_id, body.num_turns)
        if isinstance(done, Rejected):
            if done.failure.code in ("THREAD_BUSY", "QUEUE_FULL", "INVALID_REQUEST"):
                values = {"status": "error", "code": "invalid_state", "sessionId": session_id}
                raise SessionRefused(409, values | {"message": done.failure.message})
            refuse(done, session_id)
        thread = await session(server, caller, session_id)
        shown = {"session": dialect.summary(thread), "thread": dialect.thread_of(thread)}
        return json_answer({"status": "ok", **shown})


def _add_compact(router: APIRouter, server: ServerContext) -> None:
    @router.post(
        "/compact",
        response_model=discovery_shapes.CompactionStarted,
        summary="Have the conversation summed up",
        responses=conflicts(shapes.SessionProblem, "`invalid_state`: a turn is active, or nothing was said yet"),
    )
    async def compact(session_id: str, caller: Caller) -> Response:
        """A job: when it has completed, later turns are sent its summary in place of what was said before."""
        thread = await session(server, caller, session_id)
        taken = await server.session_jobs.compact(caller, thread)
        if isinstance(taken, Rejected):
            if taken.failure.code in ("THREAD_BUSY", "SESSION_HAS_NO_CONTEXT"):
                values = {"status": "error", "code": "invalid_state", "sessionId": session_id}
                raise SessionRefused(409, values | {"message": taken.failure.message})
            refuse(taken, session_id)
        return json_answer({"status": "ok", "sessionId": session_id, "jobId": taken.run.id})


def _add_absent(router: APIRouter, server: ServerContext, path: str, method: str) -> None:
    """The gates come first, as everywhere."""

    async def absent(session_id: str, caller: Caller) -> Response:
        await session(server, caller, session_id)
        not_supported(method)

    router.add_api_route(
        f"/{path}",
        absent,
        methods=["POST"],
        name=method.replace("/", "_"),
        summary=f"{method}: not supported",
        status_code=501,
        response_model=discovery_shapes.NotSupported,
        responses=NOT_SUPPORTED,
    )

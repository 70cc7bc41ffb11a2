"""/api/sessions/{id}: messages, interrupt, steer, and rows that a client adds to the transcript."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Request, Response
from pydantic import Field

from app.core.errors import Failure
from app.core.principal import Principal
from app.events.catalog.thread import TranscriptUpserted
from app.events.ports import BlobDraft
from app.protocols.context import ServerContext
from app.protocols.dialects import codex_sessions as dialect
from app.protocols.http.answers import json_answer
from app.protocols.http.caller import Caller
from app.protocols.http.correlation import correlation
from app.protocols.http.documents import takes
from app.protocols.http.errors import HttpProblem
from app.protocols.http.parts import is_parts, with_content
from app.protocols.sessions.controls import Controls, change_of
from app.protocols.sessions.late_shapes import shapes
from app.protocols.sessions.refusals import conflicts, may_refuse
from app.protocols.sessions.route import SessionBody, SessionRefused, SessionRoute, read, refuse, session
from app.runtime.intake.rejection import Rejected
from app.runtime.intake.submission import Submission
from app.views.run import Run
from app.views.thread import Thread
from app.views.transcript import Entry, entry_json

Milliseconds = Annotated[int, Field(ge=0, le=2**53)]


MessageParts = Annotated[list[dict[str, Any]], Field(min_length=1, max_length=100)]


class SendMessage(Controls):
    text: str = Field(min_length=1, max_length=1_000_000)
    parts: MessageParts | None = Field(None, description="images, audio, files and other parts that follow the text")


class InterruptTurn(SessionBody):
    turn_id: str | None = Field(None, max_length=200)


class SteerTurn(SessionBody):
    input: Annotated[str, Field(min_length=1, max_length=100_000)] | MessageParts = Field(
        description="a text, or message parts"
    )


class UpsertRow(SessionBody):
    message_id: str = Field(min_length=1, max_length=200)
    turn_id: str = Field(min_length=1, max_length=200)
    role: Literal["user", "assistant", "system"]
    type: str = Field(min_length=1, max_length=200)
    content: str = Field(max_length=1_000_000)
    status: Literal["streaming", "complete", "canceled", "error"]
    details: str | None = Field(None, max_length=100_000)
    started_at: Milliseconds | None = None
    completed_at: Milliseconds | None = None


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(
        prefix="/api/sessions/{session_id}",
        tags=["sessions"],
        route_class=SessionRoute,
        responses=may_refuse(404, 409, 410),
    )
    _add_messages(router, server)
    _add_control(router, server)
    return router


def _add_messages(router: APIRouter, server: ServerContext) -> None:
    @router.post(
        "/messages",
        status_code=202,
        response_model=shapes.TurnAccepted,
        summary="Say something: a turn begins",
        openapi_extra=takes(SendMessage),
    )
    async def send(session_id: str, request: Request, caller: Caller) -> Response:
        thread = await session(server, caller, session_id)
        body = await read(request, SendMessage)
        wanted = replace(_submission(server, thread, body), trace_context=correlation(request))
        if body.parts is not None:
            given = [{"type": "text", "text": body.text}, *body.parts]
            _refuse_other_than_parts(given)
            content, blobs = await with_content(server.files, caller.tenant, given)
            wanted = replace(wanted, input=content, blobs=blobs)
        run = await server.service.submit(caller, wanted)
        if isinstance(run, Rejected):
            refuse(run, session_id)
        return json_answer({"status": "accepted", "sessionId": session_id, "turnId": run.id}, 202)

    @router.post(
        "/transcript/upsert",
        response_model=shapes.RowUpserted,
        summary="Add or change a row of the transcript",
        openapi_extra=takes(UpsertRow),
    )
    async def upsert(session_id: str, request: Request, caller: Caller) -> Response:
        await session(server, caller, session_id, system=True)
        body = await read(request, UpsertRow)
        row = TranscriptUpserted.model_validate(body.model_dump(by_alias=True, exclude_none=True))
        entry = await server.threads.upsert(caller, session_id, row)
        if isinstance(entry, Rejected):
            refuse(entry, session_id)
        return json_answer({"status": "ok", "sessionId": session_id, "entry": _row(entry)})


def _row(entry: Entry) -> dict[str, Any]:
    return {name: value for name, value in entry_json(entry).items() if value is not None}


def _submission(server: ServerContext, thread: Thread, body: SendMessage) -> Submission:
    """A session's model is an agent of the workspace, or one of its models for the default agent to use.

    What the message names becomes the session's own in the commit that accepts its turn.
    """
    controls = dialect.controls(thread) | body.values()
    model = controls.get("model")
    is_agent = model in server.workspace.current.agents
    tools = [
        {"name": tool["name"], "description": tool["description"], "input": tool["inputSchema"]}
        for tool in controls.get("dynamicTools") or ()
    ]
    return Submission(
        agent=model if is_agent else None,
        input=body.text,
        thread_id=thread.id,
        model_plan=None if is_agent else model,
        client_tools=tools,
        parameters={"effort": controls["effort"]} if "effort" in controls else None,
        approval_policy=body.approval_policy,
        thread_change=change_of(thread, body.values()),
    )


def _add_control(router: APIRouter, server: ServerContext) -> None:
    @router.post(
        "/interrupt",
        response_model=shapes.TurnInterrupted,
        summary="End the active turn",
        openapi_extra=takes(InterruptTurn, required=False),
        responses=conflicts(
            shapes.SessionState | shapes.SessionProblem,
            "`no_active_turn`: the session has no such active turn; `invalid_state`",
        ),
    )
    async def interrupt(session_id: str, request: Request, caller: Caller) -> Response:
        thread = await session(server, caller, session_id)
        body = await read(request, InterruptTurn)
        turn_id = body.turn_id or next(iter(thread.active), None)
        if turn_id is None or turn_id not in thread.active:
            raise SessionRefused(409, {"status": "no_active_turn", "sessionId": session_id})
        run = await server.lifecycle.cancel(caller, turn_id)
        if isinstance(run, Rejected):
            refuse(run, session_id)
        return json_answer({"status": "ok", "sessionId": session_id, "turnId": turn_id})

    @router.post(
        "/turns/{turn_id}/steer",
        response_model=shapes.TurnSteered,
        summary="Steer the running turn",
        openapi_extra=takes(SteerTurn),
        responses=conflicts(
            shapes.TurnSteered | shapes.SessionProblem, "the turn cannot be steered: the result says why"
        ),
    )
    async def steer(session_id: str, turn_id: str, request: Request, caller: Caller) -> Response:
        await session(server, caller, session_id)
        body = await read(request, SteerTurn)
        outcome = await _steer(server, caller, session_id, turn_id, body.input)
        done = outcome["status"] == "performed"
        values = {"sessionId": session_id, "turnId": turn_id, "result": {"actionType": "turn.steer.create", **outcome}}
        if done:
            return json_answer({"status": "ok", **values})
        return json_answer({"status": "error", "code": outcome["status"], **values}, 409)


_STEERED: Final = {"RUN_TERMINAL": "already_resolved", "RUN_NOT_FOUND": "not_eligible", "RUN_IS_A_SUBAGENT": "conflict"}


def _refuse_other_than_parts(given: list[dict[str, Any]]) -> None:
    if not is_parts(given):
        raise HttpProblem(Failure("INVALID_REQUEST", "A message part is an object with a type."))


async def _steer(
    server: ServerContext, caller: Principal, session_id: str, turn_id: str, given: str | list[dict[str, Any]]
) -> dict[str, Any]:
    run = await server.reader.run(caller.tenant, turn_id)
    if run is None or run.thread_id != session_id:
        return {"status": "not_eligible", "details": {"code": "unknown_turn"}}
    message: Any = given
    blobs: Sequence[BlobDraft] = ()
    if isinstance(given, list):
        _refuse_other_than_parts(given)
        message, blobs = await with_content(server.files, caller.tenant, given)
    steered: Run | Rejected = await server.commands.inject(caller, turn_id, "steer", {"message": message}, blobs)
    if isinstance(steered, Run):
        return {"status": "performed", "details": {}}
    code = steered.failure.code
    if code not in _STEERED:
        refuse(steered, session_id)
    return {"status": _STEERED[code], "details": {"code": code.lower()}}

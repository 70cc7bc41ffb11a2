"""Approvals, tool input and tool calls as the published contract spells them: interrupts of ours, listed and answered.

Decisions name the request alone. They survive a restart, the first one wins, and a repeated one finds nothing.
"""

from functools import partial
from typing import Any, Literal, NoReturn

from fastapi import APIRouter, Request, Response
from pydantic import Field

from app.core.principal import Principal
from app.protocols.context import ServerContext
from app.protocols.dialects.codex_requests import CANCELLED, pending
from app.protocols.http.answers import json_answer
from app.protocols.http.caller import Caller
from app.protocols.http.documents import takes
from app.protocols.http.errors import HttpProblem
from app.protocols.sessions.late_shapes import shapes
from app.protocols.sessions.refusals import may_refuse
from app.protocols.sessions.route import SessionBody, SessionRefused, SessionRoute, read, session
from app.runtime.intake.interrupts import NotAnswered
from app.views.interrupt import Interrupt


class DecideApproval(SessionBody):
    decision: Literal["accept", "decline", "cancel"]
    scope: Literal["turn", "session"] | None = Field(
        None, description="`session`: the decision holds for later calls of the same tool with the same arguments"
    )


class GivenAnswers(SessionBody):
    answers: list[str] = Field(max_length=100)


class DecideToolInput(SessionBody):
    decision: Literal["accept", "decline", "cancel"]
    answers: dict[str, GivenAnswers] | None = Field(None, max_length=100)
    response: dict[str, Any] | None = None


class InputText(SessionBody):
    type: Literal["inputText"]
    text: str


class InputImage(SessionBody):
    type: Literal["inputImage"]
    image_url: str


class RespondToolCall(SessionBody):
    success: bool = True
    text: str | None = None
    content_items: list[InputText | InputImage] | None = Field(None, max_length=100)
    response: dict[str, Any] | None = None


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["sessions"], route_class=SessionRoute, responses=may_refuse(404, 410))
    _add_lists(router, server)
    _add_decisions(router, server)
    return router


def _add_lists(router: APIRouter, server: ServerContext) -> None:
    async def listed(caller: Principal, session_id: str, kind: str) -> Response:
        await session(server, caller, session_id)
        found = await server.reader.interrupts(caller.tenant, thread_id=session_id, status="open")
        asked = sorted((one for one in found if one.kind == kind), key=lambda one: (one.created_at, one.id))
        return json_answer({"data": [pending(one) for one in asked]})

    @router.get(
        "/sessions/{session_id}/approvals",
        response_model=shapes.PendingApprovals,
        summary="What waits for a person's yes",
    )
    async def approvals(session_id: str, caller: Caller) -> Response:
        return await listed(caller, session_id, "approval")

    @router.get(
        "/sessions/{session_id}/tool-input",
        response_model=shapes.PendingToolInputs,
        summary="What waits for a person's answers",
    )
    async def tool_input(session_id: str, caller: Caller) -> Response:
        return await listed(caller, session_id, "question")

    @router.get(
        "/sessions/{session_id}/tool-calls",
        response_model=shapes.PendingToolCalls,
        summary="Calls of the client's own tools that wait for a result",
    )
    async def tool_calls(session_id: str, caller: Caller) -> Response:
        return await listed(caller, session_id, "external")


def _add_decisions(router: APIRouter, server: ServerContext) -> None:
    @router.post(
        "/approvals/{approval_id}/decision",
        response_model=shapes.ApprovalDecided,
        summary="Decide",
        openapi_extra=takes(DecideApproval),
    )
    async def decide(approval_id: str, request: Request, caller: Caller) -> Response:
        body = await read(request, DecideApproval)
        answer: dict[str, Any] = {"decision": "approve" if body.decision == "accept" else "deny"}
        if body.decision == "cancel":
            answer["reason"] = CANCELLED
        elif body.scope == "session":
            answer["scope"] = "session"
        asked = await _answer(server, caller, approval_id, "approval", answer, cancel=body.decision == "cancel")
        return json_answer({"status": "ok", "approvalId": approval_id, "threadId": asked.thread_id})

    @router.post(
        "/tool-input/{request_id}/decision",
        response_model=shapes.RequestAnswered,
        summary="Answer",
        openapi_extra=takes(DecideToolInput),
    )
    async def give_input(request_id: str, request: Request, caller: Caller) -> Response:
        body = await read(request, DecideToolInput)
        answer: dict[str, Any] = {"answers": _answers(body) if body.decision == "accept" else {}}
        if body.decision != "accept":
            answer["decision"] = body.decision
        asked = await _answer(server, caller, request_id, "question", answer, cancel=body.decision == "cancel")
        return json_answer({"status": "ok", "requestId": request_id, "threadId": asked.thread_id})

    @router.post(
        "/tool-calls/{request_id}/response",
        response_model=shapes.RequestAnswered,
        summary="The result",
        openapi_extra=takes(RespondToolCall),
    )
    async def respond(request_id: str, request: Request, caller: Caller) -> Response:
        body = await read(request, RespondToolCall)
        asked = await _answer(server, caller, request_id, "external", result_of(body))
        return json_answer({"status": "ok", "requestId": request_id, "threadId": asked.thread_id})


def _answers(body: DecideToolInput) -> dict[str, Any]:
    """One given answer is the answer; several are a list."""
    if body.response is not None:
        given = body.response.get("answers")
        return given if isinstance(given, dict) else body.response
    values = {name: one.answers for name, one in (body.answers or {}).items()}
    return {name: given[0] if len(given) == 1 else given for name, given in values.items()}


def result_of(body: RespondToolCall) -> dict[str, Any]:
    """What the model sees. `response` is the whole reply: one with `contentItems` or `success` is read like a body."""
    items = [item.model_dump(by_alias=True) for item in body.content_items or ()]
    success, text = body.success, body.text
    if body.response is not None:
        reply = body.response
        if not ({"contentItems", "success"} & reply.keys()):
            return {"output": reply}
        given = reply.get("contentItems")
        items = [item for item in given if isinstance(item, dict)] if isinstance(given, list) else []
        success, text = reply.get("success") is not False, None
    if not success:
        said = text or " ".join(str(item["text"]) for item in items if "text" in item)
        return {"error": said or "the client's tool failed"}
    return {"output": text if text is not None else items or ""}


async def _answer(
    server: ServerContext,
    caller: Principal,
    request_id: str,
    kind: str,
    answer: dict[str, Any],
    *,
    cancel: bool = False,
) -> Interrupt:
    name = "approvalId" if kind == "approval" else "requestId"
    asked = await server.reader.interrupt(caller.tenant, request_id)
    if asked is None or asked.kind != kind:
        raise SessionRefused(404, {"status": "not_found", name: request_id})
    await session(server, caller, asked.thread_id)
    # A turn that went on with the answer could end before its cancel came.
    first = partial(server.lifecycle.cancel, caller, reason=CANCELLED) if cancel else None
    given = await server.interrupts.answer(caller, request_id, answer, first=first)
    if isinstance(given, NotAnswered):
        _not_answered(given, asked, name)
    return asked


def _not_answered(refused: NotAnswered, asked: Interrupt, name: str) -> NoReturn:
    if refused.failure.code != "INTERRUPT_NOT_OPEN":
        raise HttpProblem(refused.failure, refused.issues)
    raise SessionRefused(404, {"status": "not_found", name: asked.id})

"""/api/interrupts: what waits for a person, and its answer."""

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import RootModel

from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.schemas import Issue
from app.protocols.context import ServerContext
from app.protocols.http.answers import json_answer, page_answer
from app.protocols.http.body import read_model
from app.protocols.http.caller import Caller
from app.protocols.http.deferred_route import DeferredRoute
from app.protocols.http.documents import may_answer, takes
from app.protocols.http.errors import HttpProblem
from app.protocols.http.late_shapes import shapes
from app.protocols.http.lookups import existing_interrupt, whole_interrupt
from app.protocols.http.parameters import Limit
from app.runtime.intake.interrupts import NotAnswered
from app.views.interrupt import interrupt_json

_LOOKED_AT: Final = 500


class Answer(RootModel[JsonObject]):
    """`{decision, reason?, scope?}`, `{answers}`, `{output | error}`: the interrupt's kind says which."""


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(route_class=DeferredRoute, prefix="/api/interrupts", tags=["people in the loop"])

    @router.get("", response_model=shapes.InterruptPage, summary="What waits for an answer, or did")
    async def list_interrupts(
        caller: Caller,
        status: Annotated[Literal["open", "resolved", "expired"] | None, Query()] = None,
        thread_id: Annotated[str | None, Query(alias="threadId", max_length=200)] = None,
        after: Annotated[str, Query(max_length=200)] = "",
        limit: Limit = 100,
    ) -> Response:
        found = await server.reader.interrupts(
            caller.tenant, thread_id=thread_id, status=status, after=after, limit=limit
        )
        shown = [interrupt_json(await whole_interrupt(server, caller, one)) for one in found]
        return page_answer(shown, found[-1].id if len(found) == limit else None)

    @router.get(
        "/{interrupt_id}",
        response_model=shapes.InterruptShape,
        summary="One of them",
        responses=may_answer("INTERRUPT_NOT_FOUND", "THREAD_DELETED"),
    )
    async def show(interrupt_id: str, caller: Caller) -> Response:
        found = await existing_interrupt(server, caller, interrupt_id)
        return json_answer(interrupt_json(await whole_interrupt(server, caller, found)))

    @router.get(
        "/{interrupt_id}/similar",
        response_model=shapes.SimilarInterrupt,
        summary="The last one before it for the same tool",
        responses=may_answer("INTERRUPT_NOT_FOUND", "THREAD_DELETED"),
    )
    async def similar(interrupt_id: str, caller: Caller) -> Response:
        """For whoever decides: what was asked the time before, and what was answered. Looks at the 500 before it."""
        found = await existing_interrupt(server, caller, interrupt_id)
        before = await server.reader.interrupts_before(caller.tenant, found.id, _LOOKED_AT)
        same = next((one for one in before if one.tool == found.tool and one.kind == found.kind), None)
        if same is None or found.tool is None:
            return json_answer({"interrupt": None})
        return json_answer({"interrupt": interrupt_json(await whole_interrupt(server, caller, same))})

    @router.post(
        "/{interrupt_id}/answer",
        response_model=shapes.InterruptShape,
        summary="Answer; the first one wins",
        openapi_extra=takes(Answer),
        responses=may_answer(
            "INTERRUPT_NOT_FOUND",
            "INTERRUPT_NOT_OPEN",
            "ANSWER_INVALID",
            "APPROVER_NOT_ALLOWED",
            "THREAD_DELETED",
            "STORAGE_FULL",
        ),
    )
    async def answer(interrupt_id: str, request: Request, caller: Caller) -> Response:
        body, _ = await read_model(request, Answer)
        asked = await existing_interrupt(server, caller, interrupt_id)
        if asked.status == "open" and (issues := _unknown_questions(asked.questions, body.root.get("answers"))):
            message = "The interrupt has no such question; an answer is named by the `id` of its question."
            raise HttpProblem(Failure("ANSWER_INVALID", message), issues)
        answered = await server.interrupts.answer(caller, interrupt_id, body.root)
        if isinstance(answered, NotAnswered):
            more = {"answeredBy": answered.winner} if answered.winner is not None else {}
            raise HttpProblem(answered.failure, answered.issues, **more)
        return json_answer(interrupt_json(await whole_interrupt(server, caller, answered)))

    return router


def _unknown_questions(questions: Any, answers: Any) -> list[Issue]:
    """Answers to questions that nobody asked: they would be taken, and the question would be closed without one."""
    listed = questions if isinstance(questions, list) else []
    ids = [one["id"] for one in listed if isinstance(one.get("id"), str) and "value" not in one]
    if not isinstance(answers, dict) or not ids or len(ids) < len(listed):
        return []
    known = ", ".join(ids)[:500]
    return [Issue(f"/answers/{name[:100]}", f"is not one of: {known}") for name in answers if name not in ids][:10]

"""/api/interrupts: what waits for a person, and its answer."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import RootModel

from app.core import json
from app.core.json import JsonObject
from app.protocols.context import Server
from app.protocols.http.body import read_model
from app.protocols.http.caller import Caller
from app.protocols.http.errors import Problem
from app.runtime.interrupts import NotAnswered
from app.views.interrupt import interrupt_json


class Answer(RootModel[JsonObject]):
    """`{decision, reason?}`, `{answers}`, `{output | error}`: the interrupt's kind says which."""


def routes(server: Server) -> APIRouter:
    router = APIRouter(prefix="/api/interrupts", tags=["people in the loop"])

    @router.get("", summary="What waits for an answer, or did")
    async def list_interrupts(
        caller: Caller,
        status: Annotated[Literal["open", "resolved", "expired"] | None, Query()] = None,
        thread_id: Annotated[str | None, Query(alias="threadId", max_length=200)] = None,
    ) -> Response:
        found = await server.reader.interrupts(caller.tenant, thread_id=thread_id, status=status)
        body = {"items": [interrupt_json(interrupt) for interrupt in found], "nextCursor": None}
        return Response(json.dumps(body), media_type="application/json")

    @router.post("/{interrupt_id}/answer", summary="Answer; the first one wins")
    async def answer(interrupt_id: str, request: Request, caller: Caller) -> Response:
        body, _ = await read_model(request, Answer)
        answered = await server.interrupts.answer(caller, interrupt_id, body.root)
        if isinstance(answered, NotAnswered):
            more = {"answeredBy": answered.winner} if answered.winner is not None else {}
            raise Problem(answered.failure, answered.issues, **more)
        return Response(json.dumps(interrupt_json(answered)), media_type="application/json")

    return router

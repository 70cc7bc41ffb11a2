"""/api/threads: create, list, change, delete, fork, and messages. What can be read of one is in `thread_views`."""

from typing import Annotated, TypeAlias

from fastapi import APIRouter, Path, Query, Response
from fastapi import Request as HttpRequest
from pydantic import Field

from app.protocols.context import ServerContext
from app.protocols.http.answers import json_answer, page_answer
from app.protocols.http.body import MAX_SEQ, read_model
from app.protocols.http.caller import Caller
from app.protocols.http.deferred_route import DeferredRoute
from app.protocols.http.documents import may_answer, takes
from app.protocols.http.errors import HttpProblem
from app.protocols.http.late_shapes import shapes
from app.protocols.http.lookups import existing_thread
from app.protocols.http.parameters import Limit
from app.protocols.http.request_fields import LabelChanges, Labels, Metadata, RunInput
from app.protocols.http.submission import (
    ENDED_OR_FOLLOWED,
    REFUSALS,
    THREAD_ID,
    AskedHow,
    Request,
    RunRequest,
    submit,
)
from app.runtime.intake.amendments import MAX_TEXT, Correction
from app.runtime.intake.rejection import Rejected
from app.runtime.intake.threads import NewThread, ThreadChange
from app.views.thread import Thread, thread_json

_GONE = ("THREAD_NOT_FOUND", "THREAD_DELETED", "THREAD_RESERVED", "STORAGE_FULL")
_NOT_AMENDED = ("EVENT_NOT_FOUND", "EVENT_NOT_AMENDABLE", "RUN_NOT_ENDED", "ENTRY_CHANGED", "TOO_MANY_AMENDMENTS")

AmendedText: TypeAlias = Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]


class CreateThread(Request):
    id: str | None = Field(None, min_length=1, max_length=200, pattern=THREAD_ID, description="null: one is made up")
    title: str | None = Field(None, max_length=500)
    metadata: Metadata = Field(default_factory=dict)
    labels: Labels = Field(default_factory=dict)


class ChangeThread(Request):
    """Only what is given changes. Metadata and labels are merged; a null takes its key out."""

    title: str | None = Field(None, max_length=500)
    metadata: Metadata | None = None
    labels: LabelChanges | None = None
    archived: bool | None = Field(None, description="only a mark: an archived thread goes on working")


class ForkThread(Request):
    seq: int | None = Field(None, ge=1, le=MAX_SEQ, description="what was said up to here; null: all of it")
    title: str | None = Field(None, max_length=500)


class AmendEvent(Request):
    """A correction of texts of an event that is stored already."""

    reason: str = Field(min_length=1, max_length=2000, pattern=r"\S", description="why; recorded with the correction")
    correction: dict[str, AmendedText] = Field(
        min_length=1, max_length=4, description="the texts of its payload that should read otherwise, by field"
    )


class PostMessage(RunRequest):
    """A message is a run on this thread."""

    agent: str | None = Field(None, min_length=1, max_length=200, description="null: the workspace's default")
    input: RunInput = Field(description="a text, an object, or message parts")


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(route_class=DeferredRoute, prefix="/api/threads", tags=["threads"])
    _add_all(router, server)
    _add_one(router, server)
    return router


def _add_all(router: APIRouter, server: ServerContext) -> None:
    @router.post(
        "",
        status_code=201,
        response_model=shapes.ThreadShape,
        summary="Create a thread",
        openapi_extra=takes(CreateThread),
        responses=may_answer("THREAD_EXISTS", "THREAD_RESERVED", "THREAD_DELETED", "STORAGE_FULL"),
    )
    async def create(request: HttpRequest, caller: Caller) -> Response:
        body, _ = await read_model(request, CreateThread)
        made = await server.threads.create(caller, NewThread(body.id, body.title, body.metadata, body.labels))
        return _thread_answer(made, 201)

    @router.get("", response_model=shapes.ThreadPage, summary="The threads, by id")
    async def list_threads(
        caller: Caller, after: Annotated[str, Query(max_length=200)] = "", limit: Limit = 100
    ) -> Response:
        found = await server.reader.threads_of(caller.tenant, after, limit)
        return page_answer(map(thread_json, found), found[-1].id if len(found) == limit else None)


def _add_one(router: APIRouter, server: ServerContext) -> None:
    @router.get(
        "/{thread_id}",
        response_model=shapes.ThreadShape,
        summary="The thread as it stands",
        responses=may_answer("THREAD_NOT_FOUND", "THREAD_DELETED"),
    )
    async def show(thread_id: str, caller: Caller) -> Response:
        return json_answer(thread_json(await existing_thread(server, caller, thread_id)))

    @router.patch(
        "/{thread_id}",
        response_model=shapes.ThreadShape,
        summary="Change title, metadata, labels or the mark of an archived one",
        openapi_extra=takes(ChangeThread),
        responses=may_answer(*_GONE),
    )
    async def change(thread_id: str, request: HttpRequest, caller: Caller) -> Response:
        body, _ = await read_model(request, ChangeThread)
        return _thread_answer(
            await server.threads.update(
                caller, thread_id, ThreadChange(body.title, body.metadata, body.labels, body.archived)
            )
        )

    @router.delete("/{thread_id}", status_code=204, summary="Delete the thread", responses=may_answer(*_GONE))
    async def delete(thread_id: str, caller: Caller) -> Response:
        """Its runs end, reads answer 410 from now on, and its events are purged when retention says so."""
        gone = await server.threads.delete(caller, thread_id)
        if isinstance(gone, Rejected):
            raise HttpProblem(gone.failure)
        return Response(status_code=204)

    @router.post(
        "/{thread_id}/fork",
        status_code=201,
        response_model=shapes.ThreadShape,
        summary="A new thread with this one's history",
        openapi_extra=takes(ForkThread),
        responses=may_answer(*_GONE),
    )
    async def fork(thread_id: str, request: HttpRequest, caller: Caller) -> Response:
        body, _ = await read_model(request, ForkThread)
        return _thread_answer(await server.threads.fork(caller, thread_id, body.seq, title=body.title), 201)

    @router.post(
        "/{thread_id}/events/{seq}/amend",
        status_code=201,
        response_model=shapes.EventShape,
        summary="Correct a text of an event by another event",
        openapi_extra=takes(AmendEvent),
        responses=may_answer(*_GONE, *_NOT_AMENDED),
    )
    async def amend(
        thread_id: str, seq: Annotated[int, Path(ge=1, le=MAX_SEQ)], request: HttpRequest, caller: Caller
    ) -> Response:
        """Recorded as `runtime.event.amended`. The event and its hash stay as they are; views show the correction."""
        body, _ = await read_model(request, AmendEvent)
        amended = await server.amendments.amend(caller, thread_id, Correction(seq, body.reason, body.correction))
        if isinstance(amended, Rejected):
            raise HttpProblem(amended.failure)
        return Response(amended.wire(), 201, media_type="application/json")

    @router.post(
        "/{thread_id}/messages",
        status_code=202,
        response_model=shapes.RunShape,
        summary="Say something: a run on this thread",
        openapi_extra=takes(PostMessage),
        responses={200: ENDED_OR_FOLLOWED, **may_answer(*REFUSALS)},
    )
    async def say(thread_id: str, request: HttpRequest, caller: Caller, asked: AskedHow) -> Response:
        body, raw = await read_model(request, PostMessage)
        # The thread is part of what was asked, though it stands in the address.
        wanted = await asked.submission(
            body, thread_id.encode() + b"\n" + raw, agent=body.agent, input=body.input, thread_id=thread_id
        )
        return await submit(server, caller, wanted, asked.wait, asked.stream)


def _thread_answer(answer: Thread | Rejected, status: int = 200) -> Response:
    if isinstance(answer, Rejected):
        raise HttpProblem(answer.failure)
    return json_answer(thread_json(answer), status)

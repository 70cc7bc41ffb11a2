"""/api/threads/{id}/...: what can be read of one thread, live and stored."""

from collections.abc import AsyncIterator
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from app.core.errors import Failure
from app.core.principal import Principal
from app.events.catalog.thread import ThreadDeleted
from app.events.envelope import Event
from app.protocols.context import ServerContext
from app.protocols.dialects import agent_os, native
from app.protocols.http.answers import page_answer
from app.protocols.http.body import Cursor
from app.protocols.http.caller import Caller
from app.protocols.http.content import PART, Content, content_answer
from app.protocols.http.deferred_route import DeferredRoute
from app.protocols.http.documents import follows, may_answer, streams
from app.protocols.http.errors import HttpProblem
from app.protocols.http.event_dialects import EventDialect, EventDialects
from app.protocols.http.late_shapes import shapes
from app.protocols.http.lookups import existing_thread, whole_transcript
from app.protocols.http.parameters import EventType, LastEventId, Limit, of_type, resume_after
from app.protocols.http.sse import LastFrame
from app.runtime.run.histories import fold
from app.runtime.run.newest_messages import newest_messages
from app.views.artifact import artifact_json
from app.views.history import MAX_SIZE, History
from app.views.transcript import entry_json

Sha256 = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]

BLOB_PART: Final = 8 * 1024 * 1024
"""Bytes that are read at once; a blob is one value of the database."""


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(
        route_class=DeferredRoute,
        prefix="/api/threads/{thread_id}",
        tags=["threads"],
        responses=may_answer("THREAD_NOT_FOUND", "THREAD_DELETED"),
    )
    _add_events(router, server)
    _add_what_was_said(router, server)
    _add_content(router, server)
    return router


def _add_events(router: APIRouter, server: ServerContext) -> None:
    dialects = EventDialects(server)

    @router.get("/events", response_model=shapes.EventPage, summary="The thread's events, from a cursor on")
    async def events(
        thread_id: str,
        caller: Caller,
        after: Cursor = 0,
        limit: Limit = 200,
        type: EventType = None,
        dialect: EventDialect = "native",
    ) -> Response:
        """With `type` a page may be empty though there is more: only `nextCursor` says whether there is."""
        await existing_thread(server, caller, thread_id)
        found = await server.reader.events(caller.tenant, thread_id, after, limit)
        cursor = found[-1].seq if len(found) == limit else None
        keep = of_type(type)
        return await dialects.page(found if keep is None else list(filter(keep, found)), cursor, dialect)

    @router.get(
        "/stream",
        response_class=Response,
        summary="The thread's events as they happen",
        responses={
            **follows("One event per frame, `id` its `seq`; until the client leaves."),
            **may_answer("CURSOR_INVALID"),
        },
    )
    async def stream(
        thread_id: str,
        caller: Caller,
        after: Cursor = 0,
        type: EventType = None,
        dialect: EventDialect = "native",
        last_event_id: LastEventId = None,
    ) -> Response:
        await existing_thread(server, caller, thread_id)
        start = resume_after(after, last_event_id)

        def ending(event: Event) -> LastFrame | None:
            return {"threadId": thread_id, "seq": event.seq} if event.type == ThreadDeleted.type else None

        return dialects.stream(caller, thread_id, start, dialect, ending=ending, keep=of_type(type))


def _add_what_was_said(router: APIRouter, server: ServerContext) -> None:
    @router.get(
        "/messages",
        response_model=shapes.MessagePage,
        summary="The history that the next run gets",
    )
    async def messages(
        thread_id: str,
        caller: Caller,
        limit: Annotated[
            int | None, Query(ge=1, le=1000, description="about how many of the newest; a run is never cut in two")
        ] = None,
        before: Annotated[
            int | None, Query(ge=1, le=2**62, description="with `limit`: the `nextCursor` of the page before")
        ] = None,
    ) -> Response:
        """Without `limit` the whole conversation as far as a run would get it. With it a page from the end, oldest
        message first; `nextCursor` leads to what was said before."""
        thread = await existing_thread(server, caller, thread_id)
        if limit is not None:
            found, cursor = await newest_messages(server.reader, caller.tenant, thread, limit, before)
            return page_answer(found, cursor)
        history = await fold(server.reader, caller.tenant, thread_id, History(max_size=MAX_SIZE), thread.last_seq)
        return page_answer(history.messages())

    @router.get("/transcript", response_model=shapes.EntryPage, summary="What was said and done, message by message")
    async def transcript(thread_id: str, caller: Caller, after: Cursor = 0, limit: Limit = 200) -> Response:
        """What a fork took over is one place of its log, and on one page, however much it is."""
        thread = await existing_thread(server, caller, thread_id)
        if thread.forked_from is None:
            own = await server.reader.transcript_page(caller.tenant, thread_id, after, limit + 1)
            return page_answer(map(entry_json, own[:limit]), own[limit - 1].position if len(own) > limit else None)
        _, entries = await whole_transcript(server, caller, thread)
        found = [entry for entry in entries if entry.position > after]
        end = min(limit, len(found))
        while 0 < end < len(found) and found[end].position == found[end - 1].position:
            end += 1
        return page_answer(map(entry_json, found[:end]), found[end - 1].position if end < len(found) else None)


def _add_content(router: APIRouter, server: ServerContext) -> None:
    @router.get("/artifacts", response_model=shapes.ArtifactPage, summary="What the thread's runs made, by reference")
    async def artifacts(
        thread_id: str,
        caller: Caller,
        name: Annotated[str | None, Query(max_length=200, description="only the versions of this name")] = None,
    ) -> Response:
        """The oldest first; those of one name are its versions."""
        await existing_thread(server, caller, thread_id)
        found = await server.reader.artifacts(caller.tenant, thread_id)
        return page_answer(artifact_json(it) for it in found if name is None or it.value["name"] == name)

    @router.get(
        "/export",
        response_class=Response,
        summary="The whole log of the thread as JSON lines",
        responses=streams("application/jsonl", "One event per line, verifiable by anybody."),
    )
    async def export(
        thread_id: str, caller: Caller, format: Annotated[Literal["native", "agent-os"], Query()] = "native"
    ) -> Response:
        thread = await existing_thread(server, caller, thread_id)
        dialect = agent_os.export if format == "agent-os" else native.export
        lines = dialect(server.reader, caller.tenant, thread)
        return StreamingResponse(_with_newlines(lines), media_type="application/jsonl")

    @router.get(
        "/blobs/{sha256}",
        response_class=Response,
        summary="A large value that an event refers to",
        responses={**streams("*/*", "The value."), **PART, **may_answer("BLOB_NOT_FOUND", "RANGE_NOT_SATISFIABLE")},
    )
    @router.head("/blobs/{sha256}", include_in_schema=False)
    async def blob(thread_id: str, sha256: Sha256, request: Request, caller: Caller) -> Response:
        """`Range` asks for a part of it."""
        await existing_thread(server, caller, thread_id)
        return await blob_answer(server, caller, request, thread_id, sha256)


async def blob_answer(
    server: ServerContext,
    caller: Principal,
    request: Request,
    thread_id: str,
    sha256: str,
    name: str | None = None,
    mime: str | None = None,
) -> Response:
    """The blob under its own name and type, or those of what refers to it."""
    found = await server.reader.blob_size(caller.tenant, thread_id, sha256)
    if found is None:
        raise HttpProblem(Failure("BLOB_NOT_FOUND", "No event of the thread refers to such a blob."))
    stored_mime, size = found

    async def read(start: int, end: int) -> AsyncIterator[bytes]:
        while start < end:
            part = await server.reader.blob_part(caller.tenant, thread_id, sha256, start, min(end, start + BLOB_PART))
            if not part:
                return
            yield part
            start += len(part)

    content = Content(name or sha256, stored_mime if mime is None else mime, sha256, size)
    return content_answer(request, content, read)


async def _with_newlines(lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async for line in lines:
        yield line + b"\n"

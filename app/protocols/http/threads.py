"""/api/threads: inspect and export. An export is the thread's log, verifiable by anybody."""

from collections.abc import AsyncIterator
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse

from app.core import json
from app.core.errors import Failure
from app.core.principal import Principal
from app.protocols.context import Server
from app.protocols.dialects import agent_os, native
from app.protocols.http.body import Cursor
from app.protocols.http.caller import Caller
from app.protocols.http.errors import Problem
from app.protocols.http.runs import page_response
from app.views.ports import Tombstone
from app.views.thread import Thread, thread_json

_PAGE: Final = 1000


def routes(server: Server) -> APIRouter:
    router = APIRouter(prefix="/api/threads", tags=["threads"])

    @router.get("", summary="The threads, by id")
    async def list_threads(
        caller: Caller,
        after: Annotated[str, Query(max_length=200)] = "",
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> Response:
        found = await server.reader.threads_of(caller.tenant, after, limit)
        cursor = found[-1].id if len(found) == limit else None
        return Response(
            json.dumps({"items": [thread_json(thread) for thread in found], "nextCursor": cursor}),
            media_type="application/json",
        )

    @router.get("/{thread_id}", summary="The thread as it stands")
    async def show(thread_id: str, caller: Caller) -> Response:
        thread = await existing_thread(server, caller, thread_id)
        return Response(json.dumps(thread_json(thread)), media_type="application/json")

    @router.get("/{thread_id}/events", summary="The thread's events, from a cursor on")
    async def events(
        thread_id: str,
        caller: Caller,
        after: Cursor = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 200,
    ) -> Response:
        await existing_thread(server, caller, thread_id)
        found = await server.reader.events(caller.tenant, thread_id, after, limit)
        return page_response(found, found[-1].seq if len(found) == limit else None)

    @router.get("/{thread_id}/export", summary="The whole log of the thread as JSON lines")
    async def export(
        thread_id: str, caller: Caller, format: Annotated[Literal["native", "agent-os"], Query()] = "native"
    ) -> Response:
        thread = await existing_thread(server, caller, thread_id)
        dialect = agent_os.export if format == "agent-os" else native.export
        lines = dialect(server.reader, caller.tenant, thread)
        return StreamingResponse(_with_newlines(lines), media_type="application/jsonl")

    return router


async def _with_newlines(lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async for line in lines:
        yield line + b"\n"


async def existing_thread(server: Server, caller: Principal, thread_id: str) -> Thread:
    thread = await server.reader.thread(caller.tenant, thread_id)
    if thread is None:
        raise Problem(Failure("THREAD_NOT_FOUND", "there is no such thread"))
    if isinstance(thread, Tombstone) or thread.deleted_at is not None:
        raise Problem(Failure("THREAD_DELETED", "the thread was deleted"))
    return thread

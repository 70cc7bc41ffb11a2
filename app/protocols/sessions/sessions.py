"""/api/sessions: threads as the published contract spells them. Turns are in `turns`, requests to people and
clients in `requests`, controls and settings in `controls`.

Leaves to others: projects (`projects`), and what the runtime has (`discovery`).
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from app.core.principal import Principal
from app.protocols.context import ServerContext
from app.protocols.dialects import codex_sessions as dialect
from app.protocols.dialects.codex_rows import CALLS as CALL_EVENTS
from app.protocols.dialects.codex_rows import FOLDED as SESSION_EVENTS
from app.protocols.dialects.codex_rows import SessionEvents
from app.protocols.http.answers import json_answer
from app.protocols.http.caller import Caller
from app.protocols.http.documents import takes
from app.protocols.http.lookups import whole_transcript
from app.protocols.sessions.controls import Controls, DynamicTool, default_metadata, keep
from app.protocols.sessions.late_shapes import shapes
from app.protocols.sessions.refusals import conflicts, may_refuse
from app.protocols.sessions.route import (
    SessionBody,
    SessionRefused,
    SessionRoute,
    expect_thread,
    read,
    session,
)
from app.runtime.intake.projects import PREFIX as PROJECTS
from app.runtime.intake.threads import NewThread, ThreadChange
from app.views.controls import changes, controls_of, project_of
from app.views.run import Run
from app.views.thread import Thread

_MAX_RUNS: Final = 500
"""How many turns of a long session are returned: the newest."""
_PAGE: Final = 1000
_MAX_FORKS: Final = 5
"""Forks of forks whose sources are looked up for what their tools were called with."""
_MAX_PAGES: Final = 20
"""How far a list looks for sessions that are archived, or are not; then it answers with what it has and a cursor."""

_GATES: Final = may_refuse(404, 409, 410)
_PUT_AWAY: Final = _GATES | conflicts(
    shapes.SessionState | shapes.SessionProblem, "`not_materialized`: nothing was asked in it yet; `invalid_state`"
)

Flag = Literal["true", "false"]


class ResumeSession(SessionBody):
    dynamic_tools: list[DynamicTool] | None = Field(None, max_length=128)


class RenameSession(SessionBody):
    title: str = Field(min_length=1, max_length=200)


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(prefix="/api/sessions", tags=["sessions"], route_class=SessionRoute)
    _add_all(router, server)
    _add_one(router, server)
    _add_changes(router, server)
    return router


def _add_all(router: APIRouter, server: ServerContext) -> None:
    @router.get("", response_model=shapes.SessionList, summary="The sessions, newest first")
    async def list_sessions(
        caller: Caller,
        archived: Annotated[Flag, Query()] = "false",
        include_system_owned: Annotated[Flag, Query(alias="includeSystemOwned")] = "false",
        cursor: Annotated[str | None, Query(max_length=20, pattern="^[0-9]{1,18}$")] = None,
        limit: Annotated[int, Query(ge=1, le=200)] = 100,
    ) -> Response:
        system = include_system_owned == "true" and caller.may("audit:read")
        put_away = archived == "true"
        found: list[dict[str, Any]] = []
        before = None if cursor is None else int(cursor)
        for _ in range(_MAX_PAGES):
            page = await server.reader.newest_threads(caller.tenant, before=before, system=system, limit=limit)
            for number, thread in page:
                if thread.archived == put_away and len(found) < limit and not thread.id.startswith(PROJECTS):
                    found.append(dialect.summary(thread))
                    before = number
            if len(page) < limit or len(found) == limit:
                break
            before = page[-1][0]
        more = len(found) == limit or len(page) == limit
        return json_answer({"data": found, "nextCursor": str(before) if more else None, "archived": put_away})

    @router.post(
        "",
        response_model=shapes.SessionOpened,
        summary="Start a session",
        openapi_extra=takes(Controls, required=False),
    )
    async def create(request: Request, caller: Caller) -> Response:
        body = await read(request, Controls)
        begun = controls_of(await default_metadata(server, caller))
        values = begun | body.values() | {"settings": begun["settings"] | (body.settings or {})}
        made = await server.threads.create(caller, NewThread(metadata=changes({}, values)))
        return json_answer(_both(expect_thread(made, "")))


def _both(thread: Thread) -> dict[str, Any]:
    return {"session": dialect.summary(thread), "thread": dialect.thread_of(thread)}


async def _whole(server: ServerContext, caller: Principal, thread: Thread) -> dict[str, Any]:
    runs = await server.reader.runs(caller.tenant, thread_id=thread.id, status=None, before=None, limit=_MAX_RUNS)
    earlier, entries = await whole_transcript(server, caller, thread)
    runs = [*earlier[-_MAX_RUNS:], *runs]
    roots = [run for run in runs if run.parent_run_id is None]
    events = await _events(server, caller, thread, runs)
    if events.rolled_back:
        roots = [run for run in roots if run.id not in events.rolled_back]
        entries = [entry for entry in entries if entry.turn_id not in events.rolled_back]
    return {
        "session": dialect.summary(thread),
        "thread": dialect.thread_of(thread, roots, entries, events),
        "transcript": dialect.transcript(entries, runs, events),
    }


async def _events(server: ServerContext, caller: Principal, thread: Thread, runs: Sequence[Run]) -> SessionEvents:
    """What the turns that are shown asked and called; of a fork also the calls that it took over, while the source
    has them."""
    events = SessionEvents()
    source, up_to = thread.forked_from, 0
    for _ in range(_MAX_FORKS):
        if source is None:
            break
        found = await server.reader.thread(caller.tenant, source["threadId"])
        if not isinstance(found, Thread) or found.deleted_at is not None:
            break
        after, up_to = 0, source["seq"]
        while page := await server.reader.events_of(caller.tenant, found.id, CALL_EVENTS, after, up_to, _PAGE):
            for event in page:
                events.apply(event)
            after = page[-1].seq
        source = found.forked_from
    after = min((run.first_seq for run in runs if run.first_seq > 0), default=thread.last_seq + 1) - 1
    while page := await server.reader.events_of(
        caller.tenant, thread.id, SESSION_EVENTS, after, thread.last_seq, _PAGE
    ):
        for event in page:
            events.apply(event)
        after = page[-1].seq
    return events


def _add_one(router: APIRouter, server: ServerContext) -> None:
    @router.get(
        "/{session_id}",
        response_model=shapes.SessionShown,
        summary="The session with its turns and its transcript",
        responses=may_refuse(404, 410),
    )
    async def show(session_id: str, caller: Caller) -> Response:
        thread = await session(server, caller, session_id, system=True)
        return json_answer(await _whole(server, caller, thread))

    @router.delete(
        "/{session_id}",
        response_model=shapes.SessionErased,
        summary="Delete the session; its active turn ends",
        responses=_GATES,
    )
    async def delete(session_id: str, caller: Caller) -> Response:
        await session(server, caller, session_id)
        gone = expect_thread(await server.threads.delete(caller, session_id), session_id)
        title = dialect.summary(gone)["title"]
        return json_answer({"status": "ok", "sessionId": session_id, "title": title, "deletedFileCount": 0})

    @router.post(
        "/{session_id}/fork",
        response_model=shapes.SessionForked,
        summary="A new session that goes on from what was said in this one",
        responses=_GATES,
    )
    async def fork(session_id: str, caller: Caller) -> Response:
        source = await session(server, caller, session_id)
        made = expect_thread(await server.threads.fork(caller, session_id), session_id)
        if (project := project_of(source.metadata)) is not None:
            await server.projects.assign(caller, made, project)  # one that was deleted meanwhile takes none
            made = await session(server, caller, made.id)
        whole = await _whole(server, caller, made)
        values = {"session": whole["session"], "thread": whole["thread"]}
        return json_answer({"status": "ok", "sourceSessionId": session_id, **values})

    @router.post(
        "/{session_id}/resume",
        response_model=shapes.SessionOpened,
        summary="Take the session up again",
        openapi_extra=takes(ResumeSession, required=False),
        responses=_GATES,
    )
    async def resume(session_id: str, request: Request, caller: Caller) -> Response:
        thread = await session(server, caller, session_id)
        body = await read(request, ResumeSession)
        if body.dynamic_tools is not None:
            values = {"dynamicTools": [tool.model_dump(by_alias=True) for tool in body.dynamic_tools]}
            thread, _ = await keep(server, caller, thread, values)
        whole = await _whole(server, caller, thread)
        return json_answer({"session": whole["session"], "thread": whole["thread"]})


def _add_changes(router: APIRouter, server: ServerContext) -> None:
    @router.post(
        "/{session_id}/rename",
        response_model=shapes.SessionRenamed,
        summary="Give the session a title",
        openapi_extra=takes(RenameSession),
        responses=_GATES,
    )
    async def rename(session_id: str, request: Request, caller: Caller) -> Response:
        await session(server, caller, session_id)
        body = await read(request, RenameSession)
        changed = await server.threads.update(caller, session_id, ThreadChange(title=body.title))
        return json_answer({"status": "ok", "session": dialect.summary(expect_thread(changed, session_id))})

    @router.post(
        "/{session_id}/archive",
        response_model=shapes.SessionArchived,
        summary="Put the session away",
        responses=_PUT_AWAY,
    )
    async def archive(session_id: str, caller: Caller) -> Response:
        await _put_away(server, caller, session_id, archived=True)
        return json_answer({"status": "ok", "sessionId": session_id})

    @router.post(
        "/{session_id}/unarchive",
        response_model=shapes.SessionTaken,
        summary="Take the session out again",
        responses=_PUT_AWAY,
    )
    async def unarchive(session_id: str, caller: Caller) -> Response:
        thread = await _put_away(server, caller, session_id, archived=False)
        return json_answer({"status": "ok", **_both(thread)})


async def _put_away(server: ServerContext, caller: Principal, session_id: str, *, archived: bool) -> Thread:
    thread = await session(server, caller, session_id)
    if archived and not thread.used:
        raise SessionRefused(409, {"status": "not_materialized", "sessionId": session_id})
    if thread.archived == archived:
        return thread
    changed = await server.threads.update(caller, session_id, ThreadChange(archived=archived))
    return expect_thread(changed, session_id)

"""/api/runs/{id}/...: what can be read of one run. Each is a pure fold of its events."""

from bisect import bisect_right
from typing import Any

from fastapi import APIRouter, Response

from app.protocols.context import ServerContext
from app.protocols.http.answers import json_answer, page_answer
from app.protocols.http.body import Cursor
from app.protocols.http.caller import Caller
from app.protocols.http.deferred_route import DeferredRoute
from app.protocols.http.documents import follows, may_answer, streams
from app.protocols.http.event_dialects import EventDialect, EventDialects
from app.protocols.http.late_shapes import shapes
from app.protocols.http.lookups import existing_run, existing_thread, whole_journal, whole_run, whole_thread
from app.protocols.http.parameters import EventType, LastEventId, Limit, Until, of_type, resume_after, up_to
from app.protocols.http.submission import last_of, run_stream
from app.runtime.intake.audits import expected_hooks
from app.views.artifact import artifact_json
from app.views.audit import audit
from app.views.dropped import compactions, dropped_numbers
from app.views.run_diff import run_diff
from app.views.snapshot import snapshot
from app.views.trace import trace
from app.views.usage import usage


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(
        route_class=DeferredRoute,
        prefix="/api/runs/{run_id}",
        tags=["runs"],
        responses=may_answer("RUN_NOT_FOUND", "THREAD_DELETED"),
    )
    _add_events(router, server)
    _add_views(router, server)
    return router


def _add_events(router: APIRouter, server: ServerContext) -> None:
    dialects = EventDialects(server)

    @router.get("/events", response_model=shapes.EventPage, summary="The run's events, from a cursor on")
    async def events(
        run_id: str,
        caller: Caller,
        after: Cursor = 0,
        limit: Limit = 200,
        type: EventType = None,
        dialect: EventDialect = "native",
    ) -> Response:
        """With `type` a page may be empty though there is more: only `nextCursor` says whether there is."""
        await existing_run(server, caller, run_id)
        found = await server.reader.run_events(caller.tenant, run_id, after, limit)
        cursor = found[-1].seq if len(found) == limit else None
        keep = of_type(type)
        return await dialects.page(found if keep is None else list(filter(keep, found)), cursor, dialect)

    @router.get(
        "/stream",
        response_class=Response,
        summary="The run's events as they happen",
        responses={
            **follows("One event per frame, `id` its `seq`; `event: end` after the last."),
            **may_answer("CURSOR_INVALID"),
        },
    )
    async def stream(
        run_id: str,
        caller: Caller,
        after: Cursor = 0,
        dialect: EventDialect = "native",
        last_event_id: LastEventId = None,
    ) -> Response:
        run = await existing_run(server, caller, run_id)
        start = resume_after(after, last_event_id)
        if dialect == "native" or (run.terminal and start >= run.last_seq):
            return run_stream(server, caller, run, start)
        first = max(start, run.first_seq - 1)
        return dialects.stream(
            caller, run.thread_id, first, dialect, ending=last_of(run), keep=lambda event: event.run_id == run.id
        )


def _add_views(router: APIRouter, server: ServerContext) -> None:
    too_large: dict[str, Any] = {"responses": may_answer("VIEW_TOO_LARGE")}

    @router.get(
        "/trace", response_model=shapes.TracePage, summary="What happened when, in nine categories", **too_large
    )
    async def show_trace(run_id: str, caller: Caller) -> Response:
        run = await existing_run(server, caller, run_id)
        return page_answer(trace(await whole_run(server, caller, run)))

    @router.get("/snapshot", response_model=shapes.Snapshot, summary="Where the run stands, computed", **too_large)
    async def show_snapshot(run_id: str, caller: Caller, until: Until = None) -> Response:
        """With `until` as it stood after that event."""
        run = await existing_run(server, caller, run_id)
        thread = await existing_thread(server, caller, run.thread_id)
        return json_answer(snapshot(thread.id, up_to(await whole_thread(server, caller, thread), until), run_id))

    @router.get("/journal", response_model=shapes.JournalPage, summary="What changed state, hash-linked", **too_large)
    async def show_journal(run_id: str, caller: Caller, after: Cursor = 0, limit: Limit = 200) -> Response:
        """Each item's `link` is the hash of the link before it and of the item; verdicts and corrections after the
        run's end are part of it."""
        run = await existing_run(server, caller, run_id)
        items = (await whole_journal(server, caller, run)).items
        start = bisect_right(items, after, key=lambda item: item["seq"])
        page = items[start : start + limit]
        return page_answer(page, page[-1]["seq"] if start + limit < len(items) else None)

    @router.get("/audit", response_model=shapes.AuditShape, summary="Whether its log is complete", **too_large)
    async def show_audit(run_id: str, caller: Caller) -> Response:
        run = await existing_run(server, caller, run_id)
        # Which hooks a run had is known for certain only of the workspace in use.
        workspace = server.workspace.current
        acting = workspace.acting(run.agent, run.workflow)
        name = acting.name if acting is not None else run.agent
        hooks = expected_hooks(workspace, name) if run.workspace_digest == workspace.digest else ()
        dropped = dropped_numbers(await compactions(server.reader, caller.tenant, run), run.id)
        return json_answer(audit(await whole_run(server, caller, run), hooks, dropped).to_json())

    @router.get("/usage", response_model=shapes.UsageShape, summary="Tokens, cost and calls", **too_large)
    async def show_usage(run_id: str, caller: Caller) -> Response:
        run = await existing_run(server, caller, run_id)
        return json_answer(usage(await whole_run(server, caller, run)))

    @router.get("/artifacts", response_model=shapes.ArtifactPage, summary="What the run made, by reference")
    async def show_artifacts(run_id: str, caller: Caller) -> Response:
        run = await existing_run(server, caller, run_id)
        found = await server.reader.artifacts(caller.tenant, run.thread_id)
        return page_answer(artifact_json(artifact) for artifact in found if artifact.run_id == run_id)

    @router.get(
        "/diff",
        response_class=Response,
        summary="What the run changed in files",
        responses=streams("text/x-diff", "A unified diff of all files; empty when none was changed."),
    )
    async def show_diff(run_id: str, caller: Caller) -> Response:
        """Of each text file that a file tool wrote: from what it held before the run to what the run left."""
        run = await existing_run(server, caller, run_id)
        made = await run_diff(server.reader, caller.tenant, run)
        return Response(made, media_type="text/x-diff; charset=utf-8", headers={"x-content-type-options": "nosniff"})

"""/api/.../ui: threads and runs as UI events of the Lime standard, live and stored, and what a page makes of them.

Leaves to others: the spelling of events (the dialect), validation and projection (`views.ui`).
"""

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, Final, TypeVar

from fastapi import APIRouter, Path, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from app.core.principal import Principal
from app.events.catalog.request import TERMINAL
from app.events.catalog.thread import ThreadDeleted
from app.events.envelope import Event, iso_at
from app.protocols.context import ServerContext
from app.protocols.dialects.lime import ui_event
from app.protocols.dialects.lime_source import Lineage
from app.protocols.http.answers import json_answer, page_answer
from app.protocols.http.body import Cursor, read_model
from app.protocols.http.caller import Caller
from app.protocols.http.deferred_route import DeferredRoute
from app.protocols.http.documents import follows, may_answer, takes
from app.protocols.http.late_shapes import shapes
from app.protocols.http.lineages import LineageFrames, Lineages
from app.protocols.http.lookups import amendments_of, existing_run, existing_thread, whole_run, whole_thread
from app.protocols.http.parameters import LastEventId, Limit, resume_after
from app.protocols.http.sse import Ending, LastFrame
from app.protocols.wire.sse import EventStream, Following, OneFrame, named_frame
from app.views.dropped import compactions, dropped_numbers
from app.views.run import Run
from app.views.ui import standard
from app.views.ui.projection import LANES, Projection, State, project
from app.views.ui.sequence import sequence_violations
from app.views.ui.standard import UiEvent
from app.views.ui.validation import list_issues

MANY: Final = 500
"""Events; more are folded in a thread, so that the loop goes on serving others."""
MAX_FOREIGN: Final = 20_000
"""Events in one request. The body is bounded as well; this bounds the answer."""

T = TypeVar("T")
Lane = Annotated[str, Path(pattern=f"^({'|'.join(LANES)})$", description="a part of the state")]


class ForeignEvents(BaseModel):
    """UI events of any runtime."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    events: list[Any] = Field(max_length=MAX_FOREIGN)


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(route_class=DeferredRoute, tags=["ui"])
    lineages = Lineages(server.reader)
    server.metrics.watch("lineages_remembered", "Runs whose line is remembered.", lambda: len(lineages))
    reader = _UiReader(server, lineages)
    _add_thread(router, reader)
    _add_run(router, reader)
    _add_foreign(router)
    _add_capabilities(router, server)
    return router


class _UiReader:
    """Reads threads and runs in the standard's shape."""

    def __init__(self, server: ServerContext, lineages: Lineages) -> None:
        self.server, self.lineages = server, lineages

    async def spelled(self, event: Event, *, of_run: bool) -> UiEvent:
        return ui_event(event, await self.lineages.of(event), _number(event, of_run))

    async def page(self, events: list[Event], limit: int, *, of_run: bool) -> Response:
        cursor = events[-1].seq if len(events) == limit else None
        return page_answer([await self.spelled(event, of_run=of_run) for event in events], cursor)

    async def thread_state(self, caller: Principal, thread_id: str) -> State:
        thread = await existing_thread(self.server, caller, thread_id)
        amended = await amendments_of(self.server, caller, thread_id)
        events = [amended(event) for event in await whole_thread(self.server, caller, thread)]
        return await self._state(events, of_run=False, dropped={})

    async def run_state(self, caller: Principal, run_id: str) -> State:
        run = await existing_run(self.server, caller, run_id)
        compacted = await compactions(self.server.reader, caller.tenant, run)
        amended = await amendments_of(self.server, caller, run.thread_id)
        events = [amended(event) for event in await whole_run(self.server, caller, run)]
        return await self._state(events, of_run=True, dropped=dropped_numbers(compacted, run.id))

    async def _state(self, events: list[Event], *, of_run: bool, dropped: dict[int, int]) -> State:
        lines = {event.run_id: await self.lineages.of(event) for event in _first_of_runs(events)}

        def fold() -> State:
            projection = Projection()
            for event in events:
                projection.apply(ui_event(event, lines.get(event.run_id), _number(event, of_run)))
            for first, count in dropped.items():
                projection.repair(first, first + count - 1)
            return projection.state()

        return await _folded(len(events), fold)

    def stream(
        self, caller: Principal, thread_id: str, after: int, ending: Ending, run: Run | None = None
    ) -> EventStream:
        subscription = self.server.hub.subscribe(caller.tenant, [thread_id])
        following = Following(subscription, self.server.reader.events, thread_id, after)

        def spelling(event: Event, line: Lineage | None) -> tuple[str, UiEvent]:
            made = ui_event(event, line, _number(event, run is not None))
            return str(made["eventClass"]), made

        keep = None if run is None else lambda event: event.run_id == run.id
        return EventStream(following, LineageFrames(self.lineages, spelling, ending, keep), at_once=True)


def _number(event: Event, of_run: bool) -> int:
    return (event.run_seq or 0) if of_run else event.seq


def _first_of_runs(events: list[Event]) -> list[Event]:
    return list({event.run_id: event for event in reversed(events)}.values())


async def _folded(count: int, fold: Callable[[], T]) -> T:
    return fold() if count <= MANY else await asyncio.to_thread(fold)


def _add_thread(router: APIRouter, reader: _UiReader) -> None:
    prefix, gone = "/api/threads/{thread_id}/ui", may_answer("THREAD_NOT_FOUND", "THREAD_DELETED")

    @router.get(
        f"{prefix}/events", response_model=shapes.UiEventPage, summary="The thread as UI events", responses=gone
    )
    async def thread_events(thread_id: str, caller: Caller, after: Cursor = 0, limit: Limit = 200) -> Response:
        await existing_thread(reader.server, caller, thread_id)
        found = await reader.server.reader.events(caller.tenant, thread_id, after, limit)
        return await reader.page(found, limit, of_run=False)

    @router.get(
        f"{prefix}/stream",
        response_class=Response,
        summary="The thread as UI events, as they happen",
        responses={
            **follows("One UI event per frame, `id` the thread's `seq`.", "UiEventShape"),
            **gone,
            **may_answer("CURSOR_INVALID"),
        },
    )
    async def thread_stream(
        thread_id: str, caller: Caller, after: Cursor = 0, last_event_id: LastEventId = None
    ) -> Response:
        await existing_thread(reader.server, caller, thread_id)

        def ending(event: Event) -> LastFrame | None:
            return {"threadId": thread_id, "seq": event.seq} if event.type == ThreadDeleted.type else None

        return reader.stream(caller, thread_id, resume_after(after, last_event_id), ending)

    large = {**gone, **may_answer("VIEW_TOO_LARGE")}

    @router.get(f"{prefix}/state", response_model=shapes.UiState, summary="What a page shows of it", responses=large)
    async def thread_state(thread_id: str, caller: Caller) -> Response:
        return json_answer(await reader.thread_state(caller, thread_id))

    @router.get(f"{prefix}/state/{{lane}}", response_model=shapes.UiLane, summary="One part of that", responses=large)
    async def thread_lane(thread_id: str, lane: Lane, caller: Caller) -> Response:
        return _lane(lane, await reader.thread_state(caller, thread_id))


def _add_run(router: APIRouter, reader: _UiReader) -> None:
    prefix, gone = "/api/runs/{run_id}/ui", may_answer("RUN_NOT_FOUND", "THREAD_DELETED")

    @router.get(f"{prefix}/events", response_model=shapes.UiEventPage, summary="The run as UI events", responses=gone)
    async def run_events(run_id: str, caller: Caller, after: Cursor = 0, limit: Limit = 200) -> Response:
        await existing_run(reader.server, caller, run_id)
        found = await reader.server.reader.run_events(caller.tenant, run_id, after, limit)
        return await reader.page(found, limit, of_run=True)

    @router.get(
        f"{prefix}/stream",
        response_class=Response,
        summary="The run as UI events, as they happen",
        responses={
            **follows("One UI event per frame, `id` the thread's `seq`; `event: end` after the last.", "UiEventShape"),
            **gone,
            **may_answer("CURSOR_INVALID"),
        },
    )
    async def run_stream(run_id: str, caller: Caller, after: Cursor = 0, last_event_id: LastEventId = None) -> Response:
        run = await existing_run(reader.server, caller, run_id)
        start = resume_after(after, last_event_id)
        if run.terminal and start >= run.last_seq:
            return OneFrame(named_frame("end", {"runId": run.id, "seq": run.last_seq}))

        def ending(event: Event) -> LastFrame | None:
            return {"runId": run.id, "seq": event.seq, "type": event.type} if event.type in TERMINAL else None

        return reader.stream(caller, run.thread_id, max(start, run.first_seq - 1), ending, run)

    large = {**gone, **may_answer("VIEW_TOO_LARGE")}

    @router.get(f"{prefix}/state", response_model=shapes.UiState, summary="What a page shows of it", responses=large)
    async def run_state(run_id: str, caller: Caller) -> Response:
        return json_answer(await reader.run_state(caller, run_id))

    @router.get(f"{prefix}/state/{{lane}}", response_model=shapes.UiLane, summary="One part of that", responses=large)
    async def run_lane(run_id: str, lane: Lane, caller: Caller) -> Response:
        return _lane(lane, await reader.run_state(caller, run_id))


def _lane(lane: str, state: State) -> Response:
    return json_answer({"lane": lane, "value": state[lane], "latestSequence": state["runtime"].get("latestSequence")})


def _add_foreign(router: APIRouter) -> None:
    @router.post(
        "/api/ui/validate",
        response_model=shapes.UiValidation,
        summary="Check UI events of any runtime",
        openapi_extra=takes(ForeignEvents),
        responses=may_answer("INVALID_REQUEST"),
    )
    async def validate(request: Request, _caller: Caller) -> Response:
        events = await _foreign(request)

        def check() -> dict[str, Any]:
            issues, violations = list_issues(events), sequence_violations(events)
            return {
                "valid": not issues,
                "issues": [issue.to_json() for issue in issues],
                "violations": [violation.to_json() for violation in violations],
            }

        return json_answer(await _folded(len(events), check))

    @router.post(
        "/api/ui/project",
        response_model=shapes.UiState,
        summary="Project UI events of any runtime",
        openapi_extra=takes(ForeignEvents),
        responses=may_answer("INVALID_REQUEST"),
    )
    async def project_events(request: Request, _caller: Caller) -> Response:
        events = await _foreign(request)
        return json_answer(await _folded(len(events), lambda: project(events)))


async def _foreign(request: Request) -> list[Any]:
    body, _ = await read_model(request, ForeignEvents)
    return body.events


_CAPABILITIES: Final = (
    ("runtime.events", "UI events of threads and runs"),
    ("runtime.stream", "Streams that can be resumed"),
    ("runtime.state", "Projections of threads and runs"),
    ("model.streaming", "Text as it is written"),
    ("tool.calls", "Tool calls with previews"),
    ("human.actions", "Approvals, questions and recovery"),
    ("artifacts", "Artifacts by reference"),
    ("evidence.export", "Evidence packs"),
    ("subagents", "Subagents and their tasks"),
    ("turn.cancel", "Cancelling a turn"),
    ("turn.steer", "Steering a turn"),
    ("thread.fork", "Forking a thread"),
)


def _add_capabilities(router: APIRouter, server: ServerContext) -> None:
    @router.get("/api/ui/capabilities", response_model=shapes.UiCapabilities, summary="What this runtime can do")
    async def capabilities(_caller: Caller) -> Response:
        return json_answer(
            {
                "schemaVersion": standard.SCHEMA_VERSION,
                "runtimeId": standard.RUNTIME_ID,
                "generatedAt": iso_at(server.clock.now_ms()),
                "capabilities": [
                    {"id": name, "status": "available", "scope": "runtime", "title": title}
                    for name, title in _CAPABILITIES
                ],
            }
        )

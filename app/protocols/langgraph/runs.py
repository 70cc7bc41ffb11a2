"""Runs of the LangGraph interface: create, stream, wait, join, list, cancel; on a thread or without one."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Query, Request, Response

from app.core.json import JsonObject
from app.core.principal import Principal
from app.protocols.context import ServerContext
from app.protocols.dialects.langgraph_segments import segment_id
from app.protocols.dialects.langgraph_states import run_object
from app.protocols.http.answers import header_text
from app.protocols.http.caller import Caller
from app.protocols.http.correlation import correlation
from app.protocols.http.errors import HttpProblem
from app.protocols.http.lookups import existing_thread
from app.protocols.langgraph import fields
from app.protocols.langgraph.errors import Declined
from app.protocols.langgraph.run_request import STRATEGIES, GraphRunRequest, read_modes, read_run
from app.protocols.langgraph.run_start import StartedRun, start
from app.protocols.langgraph.run_streams import RunListening, awaited, modes_of, parse_cursor, run_stream
from app.protocols.langgraph.thread_reading import existing_segment, nth_segment, root_run, run_segments
from app.runtime.intake.rejection import Rejected
from app.views.run import Run

MAX_BATCH: Final = 100
"""Runs of one batch; each is a commit of its own."""
_MAX_LOOKED_AT: Final = 2000
_PAGE: Final = 200
_STATUSES: Final = ("pending", "running", "error", "success", "timeout", "interrupted")
_TRUE: Final = frozenset({"1", "true", "yes", "True"})

LastEventId = Annotated[str | None, Header(max_length=64)]
Modes = Annotated[list[str] | None, Query(max_length=16)]
Word = Annotated[str | None, Query(max_length=20)]


class RunDesk:
    """Starts runs and finds them, for the routes and the commands of the second protocol."""

    def __init__(self, server: ServerContext) -> None:
        self.server = server

    async def begun(
        self, request: Request, caller: Principal, thread_id: str | None, *, listens: bool
    ) -> tuple[StartedRun, GraphRunRequest]:
        wanted = read_run(self.server, await fields.read_object(request))
        made = await start(self.server, caller, thread_id, wanted, correlation(request), listens=listens)
        return made, wanted

    def listening(
        self, caller: Principal, made: StartedRun, wanted: GraphRunRequest | None = None, *, cancels: bool = False
    ) -> RunListening:
        async def cancel() -> None:
            await self.server.lifecycle.cancel(caller, made.run.id, "the client disconnected")

        leaves = cancels or (wanted is not None and wanted.on_disconnect == "cancel")
        number = made.segment.number
        return RunListening(self.server, caller, made.run, number, made.heard, cancel if leaves else None)

    async def stream(self, request: Request, caller: Principal, thread_id: str | None) -> Response:
        made, wanted = await self.begun(request, caller, thread_id, listens=True)
        listening = self.listening(caller, made, wanted)
        return await run_stream(listening, frozenset(wanted.modes), subgraphs=wanted.subgraphs)

    async def wait(self, request: Request, caller: Principal, thread_id: str | None) -> Response:
        made, wanted = await self.begun(request, caller, thread_id, listens=True)
        return awaited(self.listening(caller, made, wanted))

    async def create(self, request: Request, caller: Principal, thread_id: str | None) -> Response:
        made, _ = await self.begun(request, caller, thread_id, listens=False)
        return fields.reply(run_object(made.run, made.segment), _place(made.run, made.segment.number))

    async def joined(self, caller: Principal, thread_id: str | None, run_id: str, *, cancels: bool) -> RunListening:
        run, segment = await existing_segment(self.server, caller, thread_id, run_id)
        return self.listening(caller, StartedRun(run, segment), cancels=cancels)

    async def cancel(self, caller: Principal, run: Run, action: str) -> None:
        done = await self.server.lifecycle.cancel(
            caller, run.id, "cancelled by a LangGraph client", rollback=action == "rollback"
        )
        if isinstance(done, Rejected):
            raise HttpProblem(done.failure)


def add_thread_runs(router: APIRouter, desk: RunDesk) -> None:
    prefix = "/threads/{thread_id}/runs"

    @router.post(prefix, summary="Start a run in the background", openapi_extra=RUN_BODY)
    async def create_run(thread_id: str, request: Request, caller: Caller) -> Response:
        return await desk.create(request, caller, thread_id)

    @router.post(f"{prefix}/stream", summary="Start a run and follow it", openapi_extra=RUN_BODY)
    async def stream_run(thread_id: str, request: Request, caller: Caller) -> Response:
        return await desk.stream(request, caller, thread_id)

    @router.post(f"{prefix}/wait", summary="Start a run and wait for its values", openapi_extra=RUN_BODY)
    async def wait_run(thread_id: str, request: Request, caller: Caller) -> Response:
        return await desk.wait(request, caller, thread_id)

    @router.get(prefix, summary="The runs of a thread, newest first")
    async def list_runs(
        thread_id: str,
        caller: Caller,
        limit: Annotated[int, Query(ge=0, le=fields.MAX_LIMIT)] = 10,
        offset: Annotated[int, Query(ge=0, le=_MAX_LOOKED_AT)] = 0,
        status: Word = None,
        select: Annotated[list[str] | None, Query(max_length=32)] = None,
    ) -> Response:
        await existing_thread(desk.server, caller, thread_id)
        if status is not None and status not in _STATUSES:
            raise Declined(f"status must be one of {', '.join(_STATUSES)}.")
        found = await _runs(desk.server, caller, thread_id, status, offset + limit)
        return fields.reply([fields.selected(one, select) for one in found[offset:]])


def add_one_run(router: APIRouter, desk: RunDesk) -> None:
    prefix = "/threads/{thread_id}/runs/{run_id}"

    @router.get(prefix, summary="One run")
    async def get_run(thread_id: str, run_id: str, caller: Caller) -> Response:
        await existing_thread(desk.server, caller, thread_id)
        return fields.reply(run_object(*await existing_segment(desk.server, caller, thread_id, run_id)))

    @router.delete(prefix, summary="Refused: a run is part of its thread's log")
    async def delete_run(thread_id: str, run_id: str, caller: Caller) -> Response:
        await existing_segment(desk.server, caller, thread_id, run_id)
        message = "A run is part of its thread's log and cannot be deleted alone; delete the thread instead."
        raise Declined(message, status=409)

    @router.get(f"{prefix}/join", summary="Wait for a run's values")
    async def join_run(thread_id: str, run_id: str, caller: Caller, cancel_on_disconnect: Word = None) -> Response:
        await existing_thread(desk.server, caller, thread_id)
        cancels = _cancels(caller, cancel_on_disconnect)
        return awaited(await desk.joined(caller, thread_id, run_id, cancels=cancels))

    @router.get(f"{prefix}/stream", summary="Follow a run, from its beginning or after the last frame")
    async def join_stream(
        thread_id: str,
        run_id: str,
        caller: Caller,
        stream_mode: Modes = None,
        stream_subgraphs: Word = None,
        cancel_on_disconnect: Word = None,
        last_event_id: LastEventId = None,
    ) -> Response:
        after = parse_cursor(last_event_id)
        wanted = read_modes(_modes(stream_mode))
        cancels = _cancels(caller, cancel_on_disconnect)
        listening = await desk.joined(caller, thread_id, run_id, cancels=cancels)
        modes, subgraphs = modes_of(listening.run)
        subgraphs = stream_subgraphs in _TRUE if stream_subgraphs is not None else subgraphs
        return await run_stream(listening, frozenset(wanted) or modes, subgraphs=subgraphs, after=after)

    @router.post(f"{prefix}/cancel", status_code=202, summary="Cancel a run")
    async def cancel_run(
        thread_id: str, run_id: str, caller: Caller, wait: Word = None, action: Word = None
    ) -> Response:
        run, number = await root_run(desk.server, caller, thread_id, run_id)
        await desk.cancel(caller, run, _action(action))
        if wait not in _TRUE:
            return Response(status_code=202)
        segments = await run_segments(desk.server, caller.tenant, run)
        return awaited(desk.listening(caller, StartedRun(run, nth_segment(segments, number))))


def add_stateless_runs(router: APIRouter, desk: RunDesk) -> None:
    @router.post("/runs", summary="Start a run without a thread", openapi_extra=RUN_BODY)
    async def create_stateless_run(request: Request, caller: Caller) -> Response:
        return await desk.create(request, caller, None)

    @router.post("/runs/stream", summary="Start a run without a thread and follow it", openapi_extra=RUN_BODY)
    async def stream_stateless_run(request: Request, caller: Caller) -> Response:
        return await desk.stream(request, caller, None)

    @router.post("/runs/wait", summary="Start a run without a thread and wait for its values", openapi_extra=RUN_BODY)
    async def wait_stateless_run(request: Request, caller: Caller) -> Response:
        return await desk.wait(request, caller, None)

    @router.post("/runs/batch", summary="Start runs without threads", openapi_extra=_BATCH_BODY)
    async def create_batch(request: Request, caller: Caller) -> Response:
        """All of them are checked before the first is started."""
        given = await fields.read_any(request)
        if not isinstance(given, list) or not 1 <= len(given) <= MAX_BATCH:
            raise Declined(f"The body must be a list of 1 to {MAX_BATCH} runs.")
        if not all(isinstance(one, dict) for one in given):
            raise Declined("Each run of a batch must be an object.")
        wanted = [read_run(desk.server, one) for one in given]
        made = [await start(desk.server, caller, None, one, correlation(request), listens=False) for one in wanted]
        return fields.reply([run_object(one.run, one.segment) for one in made])

    @router.post("/runs/cancel", status_code=204, summary="Cancel runs", openapi_extra=_CANCEL_BODY)
    async def cancel_runs(request: Request, caller: Caller, action: Word = None) -> Response:
        body = await fields.read_object(request)
        for run in await _chosen(desk.server, caller, body):
            await desk.cancel(caller, run, _action(action))
        return Response(status_code=204)


# -- reading -------------------------------------------------------------------------------------------


async def _runs(
    server: ServerContext, caller: Principal, thread_id: str, status: str | None, count: int
) -> list[JsonObject]:
    """Newest first, one for each segment; looks at a bounded number of runs."""
    found: list[JsonObject] = []
    before: str | None = None
    for _ in range(_MAX_LOOKED_AT // _PAGE):
        page = await server.reader.runs(caller.tenant, thread_id=thread_id, status=None, before=before, limit=_PAGE)
        for run in page:
            if len(found) >= count:
                return found[:count]
            if run.parent_run_id is None and run.undo_of is None:
                segments = (await run_segments(server, caller.tenant, run)).segments
                shown = [run_object(run, segment) for segment in reversed(segments)]
                found += [one for one in shown if status in (None, one["status"])]
        if len(page) < _PAGE:
            break
        before = page[-1].id
    return found[:count]


async def _chosen(server: ServerContext, caller: Principal, body: JsonObject) -> list[Run]:
    """The runs that a request to cancel names: by id on a thread, or all of a status."""
    if body.get("status") is not None:
        status = fields.choice(body, "status", ("pending", "running", "all"), "all")
        if body.get("thread_id") or body.get("run_ids"):
            raise Declined("status cancels all runs that have it: thread_id and run_ids must be left out.")
        wanted = {"pending": ["queued"], "running": ["running"], "all": ["queued", "running"]}[status]
        found: list[Run] = []
        for one in wanted:
            found += await server.reader.runs(
                caller.tenant, thread_id=None, status=one, before=None, limit=fields.MAX_LIMIT
            )
        return [run for run in found if run.parent_run_id is None]
    thread_id, ids = fields.text(body, "thread_id"), fields.texts(body, "run_ids")
    if thread_id is None or not ids:
        raise Declined("thread_id and run_ids are required unless a status is given.")
    await existing_thread(server, caller, thread_id)
    return [(await root_run(server, caller, thread_id, run_id))[0] for run_id in ids]


def _modes(given: list[str] | None) -> list[str]:
    """As clients send them in an address: repeated, one JSON list, with commas, or empty for those of the run."""
    found = [mode.strip(' "') for text in given or () for mode in text.strip("[]").split(",")]
    return [mode for mode in found if mode]


def _action(given: str | None) -> str:
    if given not in (None, "interrupt", "rollback"):
        raise Declined("action must be interrupt or rollback.")
    return given or "interrupt"


def _cancels(caller: Principal, given: str | None) -> bool:
    """Ending a run needs more than reading it."""
    wanted = given in _TRUE
    if wanted and not caller.may("runs:write"):
        raise Declined("The caller may not cancel runs.", code="FORBIDDEN", status=403)
    return wanted


def _place(run: Run, number: int) -> dict[str, str]:
    named = header_text(segment_id(run.id, number))
    return {"Content-Location": f"/threads/{header_text(run.thread_id)}/runs/{named}"}


_RUN_FIELDS: Final[dict[str, Any]] = {
    "assistant_id": fields.STRING,
    "input": fields.ANYTHING,
    "command": fields.OBJECT,
    "config": fields.OBJECT,
    "metadata": fields.OBJECT,
    "stream_mode": {"oneOf": [fields.STRING, fields.STRINGS]},
    "stream_subgraphs": fields.FLAG,
    "multitask_strategy": {"enum": list(STRATEGIES)},
    "if_not_exists": {"enum": ["create", "reject"]},
    "on_disconnect": {"enum": ["continue", "cancel"]},
    "checkpoint": fields.OBJECT,
    "checkpoint_id": fields.STRING,
    "webhook": fields.STRING,
    "after_seconds": {"type": "number", "minimum": 0},
    "interrupt_before": {"oneOf": [fields.STRING, fields.STRINGS]},
    "interrupt_after": {"oneOf": [fields.STRING, fields.STRINGS]},
}
RUN_BODY: Final = fields.takes("assistant_id", **_RUN_FIELDS)
_RUN_SCHEMA: Final = RUN_BODY["requestBody"]["content"]["application/json"]["schema"]
_BATCH_BODY: Final = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"type": "array", "maxItems": MAX_BATCH, "items": _RUN_SCHEMA}}},
    }
}
_CANCEL_BODY: Final = fields.takes(status=fields.STRING, thread_id=fields.STRING, run_ids=fields.STRINGS)

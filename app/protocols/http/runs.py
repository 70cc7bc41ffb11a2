"""/api/runs: submit, inspect, cancel."""

import asyncio
from hashlib import sha256
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from app.core import json
from app.core.errors import Failure
from app.core.principal import Principal
from app.events.catalog.request import TERMINAL
from app.events.envelope import Event
from app.events.follow import FellBehind, follow
from app.protocols.context import Server
from app.protocols.http.body import Cursor, read_model
from app.protocols.http.caller import Caller
from app.protocols.http.errors import Problem
from app.runtime.service import Rejected, Submission
from app.views.run import Run, run_json

_PAUSES = frozenset({"runtime.interrupt.raised"})


class SubmitRun(BaseModel):
    """Which agent, on what input, and where."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel)

    agent: str | None = Field(None, min_length=1, max_length=200)
    input: str | dict[str, Any] | list[dict[str, Any]]
    thread_id: str | None = Field(None, min_length=1, max_length=200, pattern=r"^[^/\x00-\x1f]+$")
    create_thread: bool = False
    metadata: dict[str, Any] = Field(default_factory=dict)
    labels: dict[str, str] = Field(default_factory=dict)
    busy: Literal["enqueue", "reject", "interrupt", "rollback"] | None = None


def routes(server: Server) -> APIRouter:
    router = APIRouter(prefix="/api/runs", tags=["runs"])

    @router.post(
        "",
        status_code=202,
        summary="Submit a run",
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": SubmitRun.model_json_schema(by_alias=True)}},
            }
        },
    )
    async def submit(
        request: Request,
        caller: Caller,
        wait: Annotated[float | None, Query(ge=0, le=300)] = None,
        idempotency_key: Annotated[str | None, Header(min_length=1, max_length=200)] = None,
    ) -> Response:
        body, raw = await read_model(request, SubmitRun)
        wanted = Submission(
            agent=body.agent,
            input=body.input,
            thread_id=body.thread_id,
            create_thread=body.create_thread,
            metadata=body.metadata,
            labels=body.labels,
            busy=body.busy,
            idempotency_key=idempotency_key,
            body_hash=sha256(raw).hexdigest() if idempotency_key else "",
        )
        run = accepted(await server.service.submit(caller, wanted))
        if wait is not None:
            run = await wait_for_end(server, caller, run, wait)
        return run_response(run, 200 if run.terminal else 202)

    @router.get("/{run_id}", summary="The run as it stands")
    async def show(run_id: str, caller: Caller) -> Response:
        return run_response(await _existing(server, caller, run_id))

    @router.get("/{run_id}/events", summary="The run's events, from a cursor on")
    async def events(
        run_id: str,
        caller: Caller,
        after: Cursor = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 200,
        type: Annotated[str | None, Query(max_length=200)] = None,
    ) -> Response:
        await _existing(server, caller, run_id)
        found = await server.reader.run_events(caller.tenant, run_id, after, limit)
        cursor = found[-1].seq if len(found) == limit else None
        if type is not None:
            found = [event for event in found if event.type == type]
        return page_response(found, cursor)

    @router.post("/{run_id}/cancel", summary="Cancel the run")
    async def cancel(run_id: str, caller: Caller) -> Response:
        return run_response(accepted(await server.service.cancel(caller, run_id)))

    return router


def run_response(run: Run, status: int = 200) -> Response:
    return Response(json.dumps(run_json(run)), status, None, "application/json")


def page_response(events: list[Event], cursor: int | None) -> Response:
    """A list of events without parsing them: their stored bytes are put between brackets."""
    tail = b'],"nextCursor":%s}' % (b"null" if cursor is None else b'"%d"' % cursor)
    return Response(b'{"items":[' + b",".join(event.wire() for event in events) + tail, 200, None, "application/json")


def accepted(answer: Run | Rejected) -> Run:
    if isinstance(answer, Run):
        return answer
    blocked = answer.failure.code in ("THREAD_BUSY", "QUEUE_FULL", "IDEMPOTENCY_KEY_REUSED")
    raise Problem(answer.failure, None, **({"runId": answer.winner} if blocked else {}))


async def _existing(server: Server, caller: Principal, run_id: str) -> Run:
    run = await server.reader.run(caller.tenant, run_id)
    if run is None and await server.reader.is_run_of_deleted_thread(caller.tenant, run_id):
        raise Problem(Failure("THREAD_DELETED", "the run's thread was deleted"))
    if run is None:
        raise Problem(Failure("RUN_NOT_FOUND", "there is no such run"))
    return run


async def wait_for_end(server: Server, caller: Principal, run: Run, seconds: float) -> Run:
    """Non-streaming is awaiting the last event. A run that waits for a person is answered at once."""

    async def last_event() -> None:
        async for batch in follow(server.hub, server.reader.events, caller.tenant, run.thread_id, run.first_seq - 1):
            if any(event.run_id == run.id and event.type in TERMINAL | _PAUSES for event in batch):
                return

    if not run.terminal:
        try:
            async with asyncio.timeout(seconds):
                await last_event()
        except (TimeoutError, FellBehind):
            pass
    return await _existing(server, caller, run.id)

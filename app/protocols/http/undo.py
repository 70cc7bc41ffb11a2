"""/api/runs/{id}/undo: what an undo of the run would do, and the undo itself."""

from hashlib import sha256
from typing import Annotated, Literal

from fastapi import APIRouter, Response
from fastapi import Request as HttpRequest
from pydantic import Field

from app.protocols.context import ServerContext
from app.protocols.http.answers import json_answer
from app.protocols.http.body import read_model
from app.protocols.http.caller import Caller
from app.protocols.http.deferred_route import DeferredRoute
from app.protocols.http.documents import may_answer, takes
from app.protocols.http.errors import HttpProblem
from app.protocols.http.late_shapes import shapes
from app.protocols.http.lookups import existing_run
from app.protocols.http.submission import (
    ENDED_OR_FOLLOWED,
    REFUSALS,
    AskedHow,
    Request,
    accepted,
    run_answer,
    run_stream,
    wait_for_end,
)
from app.runtime.intake.rejection import Rejected
from app.runtime.intake.undo import UndoRequest

_REFUSED = ("RUN_IS_A_SUBAGENT", "UNDO_RUN_ACTIVE", "RUN_IS_AN_UNDO", "UNDO_TOO_LARGE")

Label = Annotated[str, Field(min_length=1, max_length=200)]
Seq = Annotated[int, Field(ge=1, strict=True)]


class UndoPlanRequest(Request):
    """How far back."""

    to_checkpoint: Label | Seq | None = Field(
        None, description="the label or `seq` of a checkpoint of the run; null: the whole run"
    )


class UndoCommand(Request):
    """Which plan, and what to do when one of its actions fails."""

    plan_hash: str = Field(min_length=1, max_length=200, description="`planHash` of the plan that is to be executed")
    on_failure: Literal["stop", "continue"] = Field("stop", description="whether the actions after it are executed")


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(
        route_class=DeferredRoute,
        prefix="/api/runs/{run_id}/undo",
        tags=["runs"],
        responses=may_answer("RUN_NOT_FOUND", "THREAD_DELETED", *_REFUSED),
    )

    @router.post(
        "/plan",
        response_model=shapes.UndoPlanShape,
        summary="What an undo of the run would do; has no effect",
        openapi_extra=takes(UndoPlanRequest),
        responses=may_answer("CHECKPOINT_NOT_FOUND"),
    )
    async def plan(run_id: str, request: HttpRequest, caller: Caller) -> Response:
        """The newest call first. Calls that cannot be undone are listed with the reason."""
        body, _ = await read_model(request, UndoPlanRequest)
        await existing_run(server, caller, run_id)
        place = None if body.to_checkpoint is None else str(body.to_checkpoint)
        planned = await server.undo.plan(caller, run_id, place)
        if isinstance(planned, Rejected):
            raise HttpProblem(planned.failure)
        return json_answer(planned.to_json())

    @router.post(
        "",
        status_code=202,
        response_model=shapes.RunShape,
        summary="Undo the run as planned",
        openapi_extra=takes(UndoCommand),
        responses={200: ENDED_OR_FOLLOWED, **may_answer("UNDO_CONFLICT", *REFUSALS)},
    )
    async def undo(run_id: str, request: HttpRequest, caller: Caller, asked: AskedHow) -> Response:
        """A run of its own on the same thread (`undoOf`); its output is the report."""
        body, raw = await read_model(request, UndoCommand)
        await existing_run(server, caller, run_id)
        digest = sha256(run_id.encode() + b"\n" + raw).hexdigest() if asked.key else ""
        wanted = UndoRequest(body.plan_hash, body.on_failure, asked.key, digest, asked.trace_context)
        run = accepted(await server.undo.undo(caller, run_id, wanted))
        if asked.stream is not None:
            return run_stream(server, caller, run, run.first_seq - 1)
        if asked.wait is not None:
            run = await wait_for_end(server, caller, run, asked.wait)
        return run_answer(run, 200 if run.terminal else 202)

    return router

"""/api/runs: submit, list, cancel, command. What can be read of one run is in `run_views`."""

from typing import Annotated, Any, Literal, Self

from fastapi import APIRouter, Query, Response
from fastapi import Request as HttpRequest
from pydantic import AwareDatetime, Field, model_validator

from app.core.clock import iso
from app.events.catalog.request import Mode
from app.events.ports import BlobDraft
from app.protocols.context import ServerContext
from app.protocols.http.answers import json_answer, page_answer
from app.protocols.http.body import read_model
from app.protocols.http.caller import Caller
from app.protocols.http.correlation import correlation
from app.protocols.http.deferred_route import DeferredRoute
from app.protocols.http.documents import may_answer, takes
from app.protocols.http.errors import HttpProblem
from app.protocols.http.late_shapes import shapes
from app.protocols.http.lookups import existing_run
from app.protocols.http.parameters import After, Limit, RunStatus, read_labels, read_place, write_place
from app.protocols.http.parts import is_parts, with_content
from app.protocols.http.request_fields import RunInput
from app.protocols.http.submission import (
    ENDED_OR_FOLLOWED,
    REFUSALS,
    THREAD_ID,
    AskedHow,
    JobFields,
    Request,
    RunRequest,
    accepted,
    run_answer,
    submit,
)
from app.runtime.intake.commands import Name
from app.runtime.intake.rejection import Rejected
from app.runtime.intake.reruns import RerunRequest
from app.views.ports import RunFilter
from app.views.run import run_json

Label = Annotated[str, Field(max_length=300, pattern=r"^[^:\x00]+:[^\x00]*$")]


class SubmitRun(RunRequest, JobFields):
    """Which agent, on what input, and where."""

    agent: str | None = Field(None, min_length=1, max_length=200, description="null: the workspace's default")
    tool: str | None = Field(None, min_length=1, max_length=200, description="run this tool, by no agent")
    workflow: str | None = Field(None, min_length=1, max_length=200, description="run this workflow")
    route_id: str | None = Field(
        None, min_length=1, max_length=200, description="a route of the Runtime document, which names what runs"
    )
    mode: Mode | None = Field(None, description="how a cycle goes about its work; null: headless")
    input: RunInput = Field(description="a text, an object, or message parts")
    thread_id: str | None = Field(None, min_length=1, max_length=200, pattern=THREAD_ID)
    create_thread: bool = Field(False, description="whether an unknown `threadId` is created")
    model_plan: str | None = Field(None, min_length=1, max_length=200, description="a model in place of the agent's")

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if sum(one is not None for one in (self.agent, self.tool, self.workflow, self.route_id)) > 1:
            raise ValueError("name one of agent, tool, workflow and routeId")
        return self


class CommandShape(Request):
    """A command for a run that has not ended; it takes effect at the run's next step."""

    command: Name
    arguments: dict[str, Any] = Field(default_factory=dict, description="as the command needs them")


class Rerun(Request):
    """Of which workspace, and how exactly."""

    workspace: Literal["current", "recorded"] = Field("current", description="of now, or of the recorded run")
    token: str | None = Field(None, max_length=2000, description="the run's replay token")
    mode: Literal["strict", "compat"] = Field("strict", description="with a token: refuse what would differ, or go on")


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(route_class=DeferredRoute, prefix="/api/runs", tags=["runs"])
    _add_asking(router, server)
    _add_control(router, server)
    _add_repeating(router, server)
    return router


def _add_asking(router: APIRouter, server: ServerContext) -> None:
    @router.post(
        "",
        status_code=202,
        response_model=shapes.RunShape,
        summary="Submit a run",
        openapi_extra=takes(SubmitRun),
        responses={200: ENDED_OR_FOLLOWED, **may_answer(*REFUSALS)},
    )
    async def post(request: HttpRequest, caller: Caller, asked: AskedHow) -> Response:
        """Answers 202 when the run is stored: with `wait` also before its end, when it waits for a person."""
        body, raw = await read_model(request, SubmitRun)
        wanted = await asked.submission(
            body,
            raw,
            agent=body.agent,
            tool=body.tool,
            workflow=body.workflow,
            mode=body.mode,
            route_id=body.route_id,
            input=body.input,
            thread_id=body.thread_id,
            create_thread=body.create_thread,
            model_plan=body.model_plan,
            job=body.job(),
        )
        return await submit(server, caller, wanted, asked.wait, asked.stream)

    @router.get(
        "", response_model=shapes.RunPage, summary="The runs, newest first", responses=may_answer("CURSOR_INVALID")
    )
    async def list_runs(
        caller: Caller,
        status: Annotated[RunStatus | None, Query()] = None,
        agent: Annotated[str | None, Query(max_length=200)] = None,
        workflow: Annotated[str | None, Query(max_length=200)] = None,
        text: Annotated[
            str | None, Query(min_length=1, max_length=200, description="what the input contains, in any case")
        ] = None,
        thread_id: Annotated[str | None, Query(alias="threadId", max_length=200)] = None,
        label: Annotated[list[Label] | None, Query(max_length=10, description="`name:value`; all must fit")] = None,
        created_from: Annotated[AwareDatetime | None, Query(alias="createdFrom", description="inclusive")] = None,
        created_until: Annotated[AwareDatetime | None, Query(alias="createdUntil", description="exclusive")] = None,
        after: After = "",
        limit: Limit = 100,
    ) -> Response:
        """A page looks at 5,000 runs at most: it may be short, or empty, though there is more. Only `nextCursor` says
        whether there is. Of an input that was stored as a blob, `text` finds nothing."""
        wanted = RunFilter(
            thread_id=thread_id,
            status=status,
            agent=agent,
            workflow=workflow,
            text=text,
            labels=read_labels(label or []),
            **({} if created_from is None else {"created_from": round(created_from.timestamp() * 1000)}),
            **({} if created_until is None else {"created_until": round(created_until.timestamp() * 1000)}),
        )
        found, place = await server.reader.list_runs(caller.tenant, wanted, read_place(after), limit)
        return page_answer([run_json(run) for run in found], write_place(place))

    @router.get(
        "/{run_id}",
        response_model=shapes.RunShape,
        summary="The run as it stands",
        responses=may_answer("RUN_NOT_FOUND", "THREAD_DELETED"),
    )
    async def show(run_id: str, caller: Caller) -> Response:
        return run_answer(await existing_run(server, caller, run_id))


def _add_control(router: APIRouter, server: ServerContext) -> None:
    @router.post(
        "/{run_id}/cancel",
        response_model=shapes.RunShape,
        summary="Cancel the run",
        responses=may_answer("RUN_NOT_FOUND", "THREAD_DELETED", "RUN_IS_A_SUBAGENT", "STORAGE_FULL"),
    )
    async def cancel(run_id: str, caller: Caller) -> Response:
        """No step starts after this; a running tool has ten seconds to end. A run that has ended stays as it is."""
        await existing_run(server, caller, run_id)
        return run_answer(accepted(await server.lifecycle.cancel(caller, run_id)))

    @router.post(
        "/{run_id}/commands",
        status_code=202,
        response_model=shapes.RunShape,
        summary="Steer, pause, resume, change the model or the limits, name a checkpoint",
        openapi_extra=takes(CommandShape),
        responses=may_answer(
            "RUN_NOT_FOUND",
            "THREAD_DELETED",
            "RUN_TERMINAL",
            "RUN_IS_A_SUBAGENT",
            "COMMAND_INVALID",
            "MODEL_NOT_FOUND",
            "LIMITS_INVALID",
            "STORAGE_FULL",
        ),
    )
    async def command(run_id: str, request: HttpRequest, caller: Caller) -> Response:
        body, _ = await read_model(request, CommandShape)
        await existing_run(server, caller, run_id)
        arguments = body.arguments
        blobs: tuple[BlobDraft, ...] = ()
        if body.command == "steer" and is_parts(arguments.get("message")):
            parts, blobs = await with_content(server.files, caller.tenant, arguments["message"])
            arguments = {**arguments, "message": parts}
        commanded = await server.commands.inject(caller, run_id, body.command, arguments, blobs)
        return run_answer(accepted(commanded), 202)


def _add_repeating(router: APIRouter, server: ServerContext) -> None:
    @router.post(
        "/{run_id}/rerun",
        status_code=202,
        response_model=shapes.RunShape,
        summary="Run the recorded input again",
        openapi_extra=takes(Rerun),
        responses=may_answer(
            "RUN_NOT_FOUND",
            "THREAD_DELETED",
            "RUN_IS_A_SUBAGENT",
            "RUN_IS_AN_UNDO",
            "WORKSPACE_GONE",
            "REPLAY_TOKEN_INVALID",
            "REPLAY_TOKEN_UNSIGNED",
            "REPLAY_MISMATCH",
            *REFUSALS,
        ),
    )
    async def rerun(run_id: str, request: HttpRequest, caller: Caller) -> Response:
        """On a fork of the thread from just before the run. With a token, `strict` refuses what would differ."""
        body, _ = await read_model(request, Rerun)
        await existing_run(server, caller, run_id)
        wanted = RerunRequest(body.workspace, body.token, body.mode, trace_context=correlation(request))
        return run_answer(accepted(await server.reruns.rerun(caller, run_id, wanted)), 202)

    @router.get(
        "/{run_id}/replay-token",
        response_model=shapes.Token,
        summary="What must be the same for a rerun to repeat the run",
        responses=may_answer("RUN_NOT_FOUND", "THREAD_DELETED"),
    )
    async def show_token(run_id: str, caller: Caller) -> Response:
        await existing_run(server, caller, run_id)
        token = await server.reruns.token(caller, run_id)
        if isinstance(token, Rejected):
            raise HttpProblem(token.failure)
        return json_answer({"token": server.reruns.sign(token), "createdAt": iso(token.created_at)})

"""/api/runs/{id}/feedback and /gates, /api/gates: what is said about runs that have ended, and pass rates."""

from hashlib import sha256
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import AwareDatetime, Field

from app.core.errors import Failure
from app.evals.html_report import gates_as_html
from app.evals.run_judgements import Feedback
from app.policy.gates import pass_rate
from app.protocols.context import ServerContext
from app.protocols.http.answers import json_answer, page_answer
from app.protocols.http.body import read_model
from app.protocols.http.caller import Caller
from app.protocols.http.deferred_route import DeferredRoute
from app.protocols.http.documents import may_answer, streams, takes
from app.protocols.http.errors import HttpProblem
from app.protocols.http.evals import PAGE_HEADERS
from app.protocols.http.late_shapes import eval_shapes
from app.protocols.http.lookups import existing_run
from app.protocols.http.submission import IdempotencyKey
from app.protocols.http.submission import Request as Fields


class GiveFeedback(Fields):
    """What somebody thinks of a run."""

    score: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
    label: str | None = Field(None, min_length=1, max_length=200, description="what the score is about")
    comment: str | None = Field(None, min_length=1, max_length=10_000)


class JudgeRun(Fields):
    """Which of the agent's gates are asked."""

    mode: Literal["shadow", "blocking"]


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(route_class=DeferredRoute, tags=["evaluations"])
    _add_feedback(router, server)
    _add_gates(router, server)
    return router


def _add_feedback(router: APIRouter, server: ServerContext) -> None:
    @router.post(
        "/api/runs/{run_id}/feedback",
        status_code=201,
        response_model=eval_shapes.FeedbackShape,
        summary="Say what a run that has ended was worth",
        openapi_extra=takes(GiveFeedback),
        responses=may_answer(
            "RUN_NOT_FOUND", "RUN_NOT_ENDED", "THREAD_DELETED", "IDEMPOTENCY_KEY_REUSED", "STORAGE_FULL"
        ),
    )
    async def give(run_id: str, request: Request, caller: Caller, idempotency_key: IdempotencyKey = None) -> Response:
        """Recorded as `runtime.feedback.recorded`, an event of the run's thread; the run itself does not change."""
        body, raw = await read_model(request, GiveFeedback)
        run = await existing_run(server, caller, run_id)
        wanted = Feedback(body.score, body.label, body.comment, idempotency_key, sha256(raw).hexdigest())
        given = await server.evals.runs.give(caller, run, wanted)
        if isinstance(given, Failure):
            raise HttpProblem(given)
        return json_answer(given, 201)

    @router.get(
        "/api/runs/{run_id}/feedback",
        response_model=eval_shapes.FeedbackPage,
        summary="What was said about a run, oldest first",
        responses=may_answer("RUN_NOT_FOUND", "THREAD_DELETED"),
    )
    async def given(run_id: str, caller: Caller) -> Response:
        run = await existing_run(server, caller, run_id)
        return page_answer(await server.evals.runs.feedback(caller.tenant, run))


def _add_gates(router: APIRouter, server: ServerContext) -> None:
    @router.post(
        "/api/runs/{run_id}/gates",
        response_model=eval_shapes.GateReport,
        summary="The verdicts of the agent's gates about a completed run",
        openapi_extra=takes(JudgeRun),
        responses=may_answer("RUN_NOT_FOUND", "RUN_NOT_ENDED", "AGENT_NOT_FOUND", "THREAD_DELETED", "STORAGE_FULL"),
    )
    async def judge(run_id: str, request: Request, caller: Caller) -> Response:
        """A verdict that is recorded is answered as it is; what is missing is judged now and recorded once."""
        body, _ = await read_model(request, JudgeRun)
        run = await existing_run(server, caller, run_id)
        found = await server.evals.runs.judge(caller, run, body.mode, server.workspace.current)
        if isinstance(found, Failure):
            raise HttpProblem(found)
        return json_answer({"passRate": pass_rate(found), "results": found})

    @router.get(
        "/api/gates",
        response_model=eval_shapes.GateRatePage,
        summary="How often each gate was passed, by agent and mode",
    )
    async def rates(
        caller: Caller,
        agent: Annotated[str | None, Query(max_length=200)] = None,
        since: Annotated[AwareDatetime | None, Query(description="only verdicts from then on")] = None,
    ) -> Response:
        at = 0 if since is None else round(since.timestamp() * 1000)
        found = await server.evals.runs.rates(caller.tenant, at, agent)
        return page_answer([rate.to_json() for rate in found])

    @router.get(
        "/api/gates/report",
        summary="The same as one HTML page",
        responses=streams("text/html", "The page."),
    )
    async def page(
        caller: Caller,
        agent: Annotated[str | None, Query(max_length=200)] = None,
        since: Annotated[AwareDatetime | None, Query(description="only verdicts from then on")] = None,
    ) -> Response:
        at = 0 if since is None else round(since.timestamp() * 1000)
        found = await server.evals.runs.rates(caller.tenant, at, agent)
        shown = gates_as_html([rate.to_json() for rate in found])
        return Response(shown, 200, PAGE_HEADERS, "text/html; charset=utf-8")

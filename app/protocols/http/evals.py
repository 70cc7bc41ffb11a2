"""/api/evals: an agent on the cases of a dataset, its scores, and the report."""

from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import Field

from app.core.errors import Failure
from app.evals.evaluations import MAX_PARALLEL, EvaluationRequest
from app.evals.html_report import as_html
from app.protocols.context import ServerContext
from app.protocols.http.answers import json_answer, page_answer
from app.protocols.http.body import off_loop, read_model
from app.protocols.http.caller import Caller
from app.protocols.http.datasets import NAME
from app.protocols.http.deferred_route import DeferredRoute
from app.protocols.http.documents import may_answer, streams, takes
from app.protocols.http.errors import HttpProblem
from app.protocols.http.late_shapes import eval_shapes
from app.protocols.http.parameters import After, Limit
from app.protocols.http.submission import Request as Fields

PAGE_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox",
    "x-content-type-options": "nosniff",
}
"""The page shows what models said: it runs nothing and loads nothing."""


class StartEvaluation(Fields):
    """Which agent, on which cases, judged how."""

    dataset: str = Field(pattern=NAME)
    version: int | None = Field(None, ge=1, le=10**9, description="default: the newest")
    agent: str = Field(min_length=1, max_length=200)
    model_plan: str | None = Field(None, min_length=1, max_length=200, description="a model in place of the agent's")
    gates: dict[str, Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]] = Field(
        default_factory=dict,
        max_length=50,
        description="evaluator to the mean score that is enough; default: those of the agent's gates",
    )
    baseline: str | None = Field(None, min_length=1, max_length=100, description="an evaluation's id, or `latest`")
    parallel: int = Field(4, ge=1, le=MAX_PARALLEL)
    cache: bool = Field(True, description="whether runs of earlier evaluations are used again if nothing changed")


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(route_class=DeferredRoute, prefix="/api/evals", tags=["evaluations"])

    @router.post(
        "",
        status_code=202,
        response_model=eval_shapes.EvaluationShape,
        summary="Start an evaluation",
        openapi_extra=takes(StartEvaluation),
        responses=may_answer(
            "DATASET_NOT_FOUND",
            "AGENT_NOT_FOUND",
            "MODEL_NOT_FOUND",
            "EVALUATOR_NOT_FOUND",
            "EVALUATION_NOT_FOUND",
            "EVALUATION_LIMIT",
            "STORAGE_FULL",
        ),
    )
    async def start(request: Request, caller: Caller) -> Response:
        """Its runs are ordinary runs with the label `holdfast.eval`; those that wait for a person are cancelled."""
        body, _ = await read_model(request, StartEvaluation)
        asked = EvaluationRequest(
            body.dataset,
            body.agent,
            body.version,
            body.model_plan,
            body.gates,
            body.baseline,
            body.parallel,
            body.cache,
        )
        return json_answer(_found(await server.evals.evaluations.start(caller, asked)), 202)

    @router.get("", response_model=eval_shapes.EvaluationPage, summary="The evaluations, newest first")
    async def list_evaluations(caller: Caller, after: After = "", limit: Limit = 100) -> Response:
        found = list(reversed(await server.evals.evaluations.all_of(caller.tenant)))
        left = [one for one in found if not after or one["id"] < after]
        return page_answer(left[:limit], left[limit - 1]["id"] if len(left) > limit else None)

    @router.get(
        "/{evaluation_id}",
        response_model=eval_shapes.EvaluationShape,
        summary="How far it is, and its scores",
        responses=may_answer("EVALUATION_NOT_FOUND"),
    )
    async def show_evaluation(evaluation_id: str, caller: Caller) -> Response:
        return json_answer(_found(await server.evals.evaluations.show(caller.tenant, evaluation_id)))

    @router.get(
        "/{evaluation_id}/results",
        response_model=eval_shapes.EvaluationReport,
        summary="The results of every case",
        responses=may_answer("EVALUATION_NOT_FOUND", "EVALUATION_RUNNING"),
    )
    async def results(evaluation_id: str, caller: Caller) -> Response:
        return json_answer(_found(await server.evals.evaluations.report(caller.tenant, evaluation_id)))

    @router.get(
        "/{evaluation_id}/report",
        summary="The results as a page with plots that needs nothing else",
        responses=streams("text/html", "The report.") | may_answer("EVALUATION_NOT_FOUND", "EVALUATION_RUNNING"),
    )
    async def report(evaluation_id: str, caller: Caller) -> Response:
        found = _found(await server.evals.evaluations.report(caller.tenant, evaluation_id))
        page = await off_loop(len(found["cases"]) * 2000, lambda: as_html(found))
        return Response(page, 200, PAGE_HEADERS, "text/html; charset=utf-8")

    @router.post(
        "/{evaluation_id}/cancel",
        response_model=eval_shapes.EvaluationShape,
        summary="End it before its last case",
        responses=may_answer("EVALUATION_NOT_FOUND"),
    )
    async def cancel(evaluation_id: str, caller: Caller) -> Response:
        """Cases that have begun are finished; the report has those. Only the server that works on it can end it."""
        return json_answer(_found(await server.evals.evaluations.cancel(caller.tenant, evaluation_id)))

    return router


def _found(found: dict[str, Any] | Failure) -> dict[str, Any]:
    if isinstance(found, Failure):
        raise HttpProblem(found)
    return found

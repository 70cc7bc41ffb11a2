"""/api/jobs: list, show and cancel runs that were put on the queue. They are submitted as runs (`runs`)."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from app.core.errors import Failure
from app.core.principal import Principal
from app.protocols.context import ServerContext
from app.protocols.http.answers import json_answer, page_answer
from app.protocols.http.caller import Caller
from app.protocols.http.deferred_route import DeferredRoute
from app.protocols.http.documents import may_answer
from app.protocols.http.errors import HttpProblem
from app.protocols.http.late_shapes import shapes
from app.protocols.http.lookups import existing_run
from app.protocols.http.parameters import After, Limit, RunStatus, read_place, write_place
from app.protocols.http.submission import accepted
from app.views.job import job_json
from app.views.ports import JobFilter
from app.views.run import Run


async def _existing_job(server: ServerContext, caller: Principal, job_id: str) -> Run:
    try:
        run = await existing_run(server, caller, job_id)
    except HttpProblem as problem:
        if problem.code != "RUN_NOT_FOUND":
            raise
        run = None
    if run is None or run.job is None:
        raise HttpProblem(Failure("JOB_NOT_FOUND", "There is no such job."))
    return run


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(route_class=DeferredRoute, prefix="/api/jobs", tags=["jobs"])

    @router.get(
        "", response_model=shapes.JobPage, summary="The jobs, newest first", responses=may_answer("CURSOR_INVALID")
    )
    async def list_jobs(
        caller: Caller,
        status: Annotated[RunStatus | None, Query()] = None,
        type_: Annotated[str | None, Query(alias="type", max_length=200)] = None,
        priority: Annotated[Literal["interactive", "background"] | None, Query()] = None,
        project_id: Annotated[str | None, Query(alias="projectId", max_length=200)] = None,
        source_session_id: Annotated[str | None, Query(alias="sourceSessionId", max_length=200)] = None,
        after: After = "",
        limit: Limit = 100,
    ) -> Response:
        wanted = JobFilter(status, type_, priority, project_id, source_session_id)
        found, place = await server.reader.list_jobs(caller.tenant, wanted, read_place(after), limit)
        return page_answer([job_json(run) for run in found], write_place(place))

    @router.get(
        "/{job_id}",
        response_model=shapes.JobShape,
        summary="The job with the history of its attempts",
        responses=may_answer("JOB_NOT_FOUND", "THREAD_DELETED"),
    )
    async def show(job_id: str, caller: Caller) -> Response:
        return json_answer(job_json(await _existing_job(server, caller, job_id)))

    @router.post(
        "/{job_id}/cancel",
        response_model=shapes.JobShape,
        summary="Cancel the job",
        responses=may_answer("JOB_NOT_FOUND", "THREAD_DELETED", "STORAGE_FULL"),
    )
    async def cancel(job_id: str, caller: Caller) -> Response:
        """No further attempt starts. A job that has ended does not change; a running one ends within ten seconds."""
        await _existing_job(server, caller, job_id)
        return json_answer(job_json(accepted(await server.lifecycle.cancel(caller, job_id))))

    return router

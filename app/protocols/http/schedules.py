"""/api/schedules: what is due when; pause, resume, run now; create and delete schedules besides the workspace's."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from fastapi import Request as HttpRequest
from pydantic import Field, ValidationError

from app.core import json
from app.core.clock import iso
from app.core.errors import Failure
from app.core.schemas import Issue
from app.protocols.context import ServerContext
from app.protocols.http.answers import json_answer, page_answer
from app.protocols.http.body import read_model
from app.protocols.http.body_issues import problem_of
from app.protocols.http.caller import Caller
from app.protocols.http.deferred_route import DeferredRoute
from app.protocols.http.documents import may_answer, takes
from app.protocols.http.errors import HttpProblem
from app.protocols.http.late_shapes import shapes
from app.protocols.http.submission import REFUSALS, Request, accepted, run_answer
from app.runtime.automation.schedule_desk import Schedule, ScheduleDesk
from app.workspace.resolve import schedule_issues
from app.workspace.specs.others import ScheduleSpec

_Count = Annotated[int, Query(ge=0, le=100, description="how many of the next times")]
_NEXT = 5


class CreateSchedule(Request):
    """A schedule of the caller's tenant: `spec` as in a Schedule document, without `tenant`."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")
    spec: dict[str, Any]


def _ok(answer: Any) -> Any:
    if isinstance(answer, Failure):
        raise HttpProblem(answer)
    return answer


def _document(given: dict[str, Any], tenant: str) -> dict[str, Any]:
    """The spec as it is stored, if it is a valid one."""
    if "tenant" in given:
        raise _invalid([Issue("/tenant", "is the tenant of the key that creates the schedule; leave it out")])
    document = {**given, "tenant": tenant}
    try:
        spec = ScheduleSpec.model_validate_json(json.dumps(document))
    except ValidationError as error:
        raise _invalid(problem_of(error, ScheduleSpec).issues or []) from None
    wrong = [
        Issue(f"/{field}", f"{message}; expected {expected}") for field, message, expected in schedule_issues(spec)
    ]
    if wrong:
        raise _invalid(wrong)
    return document


def _invalid(issues: list[Issue]) -> HttpProblem:
    """`issues` of the spec, at their place in the body."""
    placed = [Issue(f"/spec{issue.path}".rstrip("/"), issue.message) for issue in issues]
    return HttpProblem(Failure("INVALID_REQUEST", "The spec of the schedule is invalid."), placed)


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(route_class=DeferredRoute, prefix="/api/schedules", tags=["schedules"])
    _add_keeping(router, server.schedules)
    _add_steering(router, server.schedules)
    return router


def _add_keeping(router: APIRouter, desk: ScheduleDesk) -> None:
    @router.get("", response_model=shapes.SchedulePage, summary="The schedules of the tenant")
    async def list_schedules(caller: Caller) -> Response:
        return page_answer([_shown(desk, one) for one in await desk.of_tenant(caller.tenant)])

    @router.post(
        "",
        status_code=201,
        response_model=shapes.ScheduleShape,
        summary="Create a schedule",
        openapi_extra=takes(CreateSchedule),
        responses=may_answer(
            "SCHEDULE_EXISTS",
            "SCHEDULE_LIMIT",
            "AGENT_NOT_FOUND",
            "WORKFLOW_NOT_FOUND",
            "WORKFLOW_INPUT_INVALID",
            "TOOL_NOT_FOUND",
            "BACKEND_NOT_AVAILABLE",
            "STORAGE_FULL",
        ),
    )
    async def create(request: HttpRequest, caller: Caller) -> Response:
        body, _ = await read_model(request, CreateSchedule)
        _ok(await desk.create(caller, body.name, _document(body.spec, caller.tenant)))
        return json_answer(_shown(desk, await _existing(desk, caller.tenant, body.name)), 201)

    @router.get(
        "/{schedule}",
        response_model=shapes.ScheduleShape,
        summary="One schedule, and when it is due next",
        responses=may_answer("SCHEDULE_NOT_FOUND"),
    )
    async def show(schedule: str, caller: Caller, count: _Count = _NEXT) -> Response:
        return json_answer(_shown(desk, await _existing(desk, caller.tenant, schedule), count))

    @router.delete(
        "/{schedule}",
        status_code=204,
        summary="Delete a schedule that a client created",
        responses=may_answer("SCHEDULE_NOT_FOUND", "SCHEDULE_DECLARED", "STORAGE_FULL"),
    )
    async def delete(schedule: str, caller: Caller) -> Response:
        _ok(await desk.delete(caller, schedule))
        return Response(status_code=204)


def _add_steering(router: APIRouter, desk: ScheduleDesk) -> None:
    @router.post(
        "/{schedule}/pause",
        response_model=shapes.ScheduleShape,
        summary="Pause a schedule",
        responses=may_answer("SCHEDULE_NOT_FOUND", "STORAGE_FULL"),
    )
    async def pause(schedule: str, caller: Caller) -> Response:
        """What becomes due meanwhile is not made up for."""
        return json_answer(_shown(desk, _ok(await desk.pause(caller, schedule, True))))

    @router.post(
        "/{schedule}/resume",
        response_model=shapes.ScheduleShape,
        summary="Resume a schedule",
        responses=may_answer("SCHEDULE_NOT_FOUND", "STORAGE_FULL"),
    )
    async def resume(schedule: str, caller: Caller) -> Response:
        return json_answer(_shown(desk, _ok(await desk.pause(caller, schedule, False))))

    @router.post(
        "/{schedule}/run",
        status_code=202,
        response_model=shapes.RunShape,
        summary="Run what the schedule runs, now",
        responses=may_answer("SCHEDULE_NOT_FOUND", *REFUSALS),
    )
    async def run(schedule: str, caller: Caller) -> Response:
        """Besides its due times, and whatever of it is running."""
        return run_answer(accepted(await desk.run_now(caller, schedule)), 202)


def _shown(desk: ScheduleDesk, one: Schedule, count: int = _NEXT) -> dict[str, Any]:
    state = one.state
    return {
        "name": one.name,
        "cron": one.spec.cron,
        "everySeconds": one.spec.every_seconds,
        "at": one.spec.at,
        "timezone": one.spec.timezone,
        "missed": one.spec.missed,
        "overlap": one.spec.overlap,
        "run": one.spec.run.model_dump(by_alias=True, exclude_none=True),
        "enabled": one.spec.enabled,
        "paused": state is not None and state.paused,
        "declared": one.declared,
        "lastDueAt": iso(state.last_due) if state is not None and state.last_due is not None else None,
        "lastRunId": state.last_run if state is not None else None,
        "next": [iso(due) for due in desk.next_times(one, count)],
    }


async def _existing(desk: ScheduleDesk, tenant: str, name: str) -> Schedule:
    found = await desk.find(tenant, name)
    return found or _ok(Failure("SCHEDULE_NOT_FOUND", "There is no such schedule."))

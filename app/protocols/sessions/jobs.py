"""/api/orchestrator/jobs and suggested requests: jobs as the codex-manager sessions API spells them.

The same jobs are at `/api/jobs` in our own words. Leaves to others: what a job does (`automation`).
"""

from typing import Annotated, Any, Final, Literal, NoReturn

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from app.core.principal import Principal
from app.events.catalog.session_job import SessionSuggestionUpdated
from app.events.ports import Refused
from app.events.recorder import Scope
from app.protocols.context import ServerContext
from app.protocols.dialects.codex_jobs import STATUSES, job_of, suggestion_entry
from app.protocols.http.answers import json_answer
from app.protocols.http.caller import Caller
from app.protocols.http.documents import takes
from app.protocols.http.errors import HttpProblem
from app.protocols.http.submission import wait_for_end
from app.protocols.sessions.controls import Effort, ModelName
from app.protocols.sessions.late_shapes import job_shapes as shapes
from app.protocols.sessions.late_shapes import shapes as session_shapes
from app.protocols.sessions.refusals import conflicts, may_refuse
from app.protocols.sessions.route import SessionBody, SessionRefused, SessionRoute, read, refuse, session
from app.runtime.automation.job_reports import MAX_SUGGESTION, newest_suggestion, suggestion_of
from app.runtime.automation.session_jobs import PAYLOAD, new_request_key, owner_of, payload_of
from app.runtime.intake.rejection import Rejected
from app.runtime.intake.submission import Taken
from app.views.ports import JobFilter
from app.views.run import Run
from app.views.thread import Thread

WAIT_SECONDS: Final = 12.0
_PAGE: Final = 200
_MAX_JOBS: Final = 1000
"""Of a project that one list shows: the newest."""


class SuggestRequest(SessionBody):
    model: ModelName | None = None
    effort: Effort | None = None
    draft: str | None = Field(None, max_length=4000)


class UpsertSuggestion(SessionBody):
    request_key: str = Field(min_length=1, max_length=200)
    status: Literal["streaming", "complete", "canceled", "error"]
    suggestion: str | None = Field(None, max_length=MAX_SUGGESTION)
    error: str | None = Field(None, max_length=4000)


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["sessions"], route_class=SessionRoute, responses=may_refuse(404))
    _add_jobs(router, server)
    _add_suggestions(router, server)
    _add_upsert(router, server)
    return router


async def _existing(server: ServerContext, caller: Principal, job_id: str) -> Run:
    run = await server.reader.run(caller.tenant, job_id)
    if run is None or run.job is None:
        raise SessionRefused(404, {"status": "not_found", "jobId": job_id})
    return run


def _add_jobs(router: APIRouter, server: ServerContext) -> None:
    @router.get("/orchestrator/jobs/{job_id}", response_model=shapes.SessionJobShown, summary="One job")
    async def show_job(job_id: str, caller: Caller) -> Response:
        return json_answer({"status": "ok", "job": job_of(await _existing(server, caller, job_id), PAYLOAD)})

    @router.get(
        "/projects/{project_id}/orchestrator/jobs",
        response_model=shapes.SessionJobList,
        summary="The project's jobs, oldest first",
    )
    async def list_jobs(
        project_id: str,
        caller: Caller,
        state: Annotated[Literal["queued", "running", "completed", "failed", "canceled"] | None, Query()] = None,
    ) -> Response:
        found: list[Run] = []
        for status in (None,) if state is None else STATUSES[state]:
            wanted, place = JobFilter(status, None, None, project_id, None), None
            while len(found) < _MAX_JOBS:
                page, place = await server.reader.list_jobs(caller.tenant, wanted, place, _PAGE)
                found += page
                if place is None:
                    break
        found.sort(key=lambda run: (run.created_at, run.id))
        return json_answer({"data": [job_of(run, PAYLOAD) for run in found]})

    @router.post(
        "/orchestrator/jobs/{job_id}/cancel",
        response_model=shapes.SessionJobShown,
        summary="Cancel the job",
        responses=conflicts(shapes.SessionJobEnded, "`already_terminal`: the job has ended"),
    )
    async def cancel_job(job_id: str, caller: Caller) -> Response:
        run = await _existing(server, caller, job_id)
        if run.terminal:
            raise SessionRefused(409, {"status": "already_terminal", "code": "already_terminal", "jobId": job_id})
        cancelled = await server.lifecycle.cancel(caller, job_id, "api_cancel")
        if isinstance(cancelled, Rejected):
            refuse(cancelled, run.thread_id)
        return json_answer({"status": "ok", "job": job_of(cancelled, PAYLOAD)})


def _add_suggestions(router: APIRouter, server: ServerContext) -> None:
    @router.post(
        "/sessions/{session_id}/suggested-request/jobs",
        status_code=202,
        response_model=shapes.SuggestionQueued,
        summary="Have the user's next request suggested",
        openapi_extra=takes(SuggestRequest, required=False),
        responses=may_refuse(410) | conflicts(session_shapes.SessionProblem, "`job_conflict`: nothing was said yet"),
    )
    async def queue_suggestion(session_id: str, request: Request, caller: Caller) -> Response:
        thread, taken = await _suggest(server, caller, session_id, request, waits=False)
        return json_answer(_queued(thread, taken), 202)

    @router.post(
        "/sessions/{session_id}/suggested-request",
        response_model=shapes.SuggestionMade | shapes.SuggestionQueued,
        summary="Have the user's next request suggested, and wait twelve seconds for it",
        openapi_extra=takes(SuggestRequest, required=False),
        responses=may_refuse(410)
        | conflicts(shapes.SuggestionRefused, "`no_context`: nothing was said yet")
        | {
            202: {
                "model": shapes.SuggestionQueued,
                "description": "It takes longer: the stream has it when it is there.",
            }
        },
    )
    async def suggest(session_id: str, request: Request, caller: Caller) -> Response:
        thread, taken = await _suggest(server, caller, session_id, request, waits=True)
        run = await wait_for_end(server, caller, taken.run, WAIT_SECONDS)
        payload = payload_of(run)
        values = {"sessionId": session_id, "requestKey": payload.get("requestKey")}
        if run.status == "completed" and (text := suggestion_of(run)):
            return json_answer({"status": "ok", **values, "suggestion": text})
        if run.terminal:
            return json_answer({"status": "fallback", **values, "suggestion": str(payload.get("fallback") or "")})
        return json_answer(_queued(thread, Taken(run, taken.replayed)), 202)


async def _suggest(
    server: ServerContext, caller: Principal, session_id: str, request: Request, *, waits: bool
) -> tuple[Thread, Taken]:
    thread = await session(server, caller, session_id)
    body = await read(request, SuggestRequest)
    taken = await server.session_jobs.suggest(caller, thread, model=body.model, effort=body.effort, draft=body.draft)
    if isinstance(taken, Rejected):
        if taken.failure.code == "SESSION_HAS_NO_CONTEXT" and waits:
            values = {"sessionId": session_id, "requestKey": new_request_key(), "message": taken.failure.message}
            raise SessionRefused(409, {"status": "no_context", **values})
        _refuse_job(taken, session_id)
    return thread, taken


def _refuse_job(answer: Rejected, session_id: str) -> NoReturn:
    values = {"sessionId": session_id, "message": answer.failure.message}
    match answer.failure.code:
        case "SESSION_HAS_NO_CONTEXT":
            raise SessionRefused(409, {"status": "error", "code": "job_conflict", **values})
        case "QUEUE_FULL" | "TENANT_BUSY" | "RUNS_PER_MINUTE":
            raise SessionRefused(429, {"status": "error", "code": "queue_full", **values})
        case "AGENT_NOT_FOUND" | "MODEL_NOT_FOUND" | "AGENT_REQUIRED":
            raise SessionRefused(400, {"status": "error", "code": "invalid_payload", **values})
        case "NOT_READY":
            raise SessionRefused(503, {"status": "error", "code": "job_conflict", **values})
    raise HttpProblem(answer.failure)


def _queued(thread: Thread, taken: Taken) -> dict[str, Any]:
    payload = payload_of(taken.run)
    return {
        "status": "queued",
        "jobId": taken.run.id,
        "requestKey": payload.get("requestKey"),
        "sessionId": thread.id,
        "projectId": owner_of(thread),
        "dedupe": "already_queued" if taken.replayed else "enqueued",
    }


def _add_upsert(router: APIRouter, server: ServerContext) -> None:
    @router.post(
        "/sessions/{session_id}/suggested-request/upsert",
        response_model=shapes.SuggestionUpserted,
        summary="Set the state of a suggested request",
        openapi_extra=takes(UpsertSuggestion),
        responses=may_refuse(410),
    )
    async def upsert_suggestion(session_id: str, request: Request, caller: Caller) -> Response:
        """Streaming after an end changes nothing."""
        await session(server, caller, session_id, system=True)
        body = await read(request, UpsertSuggestion)
        if body.status == "complete" and not body.suggestion:
            message = "A suggestion with the status complete needs its text in `suggestion`."
            raise SessionRefused(400, {"status": "invalid_request", "code": "missing_suggestion", "message": message})
        known = await newest_suggestion(server.reader, caller.tenant, session_id, body.request_key)
        if known is None or known["status"] == "streaming" or body.status != "streaming":
            said = SessionSuggestionUpdated.model_validate(body.model_dump(by_alias=True))
            answer = await server.recorder.record(Scope(caller.tenant, session_id, actor=caller.actor), said)
            if isinstance(answer, Refused):
                refuse(Rejected(answer.failure, answer.winner), session_id)
            known = answer.events[0].payload | {"at": answer.events[0].at}
        entry = suggestion_entry(known, known["at"])
        values = {"sessionId": session_id, "requestKey": body.request_key, "entry": entry}
        return json_answer({"status": "ok", **values})

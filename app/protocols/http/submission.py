"""Submitting a run and answering: at once, at its end, or as a stream. Shared by runs, messages and tools."""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Annotated, Any, Final, Literal, Self

from fastapi import Depends, Header, Query, Response
from fastapi import Request as HttpRequest
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from app.core.errors import Failure
from app.core.principal import Principal
from app.events.catalog.interrupt import InterruptRaised
from app.events.catalog.request import TERMINAL, RequestSuspended
from app.events.envelope import Event
from app.events.follow import FellBehind, follow
from app.protocols.context import ServerContext
from app.protocols.http.answers import header_text, json_answer
from app.protocols.http.body import off_loop
from app.protocols.http.correlation import correlation
from app.protocols.http.documents import SSE
from app.protocols.http.errors import HttpProblem
from app.protocols.http.late_shapes import shapes
from app.protocols.http.lookups import existing_run
from app.protocols.http.parts import with_content
from app.protocols.http.request_fields import Labels, Metadata, Moment
from app.protocols.http.run_parameters import NamedTool, RunParameters, ToolChoice
from app.protocols.http.sse import Ending, LastFrame, event_stream
from app.protocols.wire.sse import OneFrame, named_frame
from app.runtime.intake.rejection import Rejected
from app.runtime.intake.submission import SCHEDULED, JobRequest, Submission, Taken
from app.views.run import Run, run_json

Wait = Annotated[float | None, Query(ge=0, le=300, description="seconds to wait for the run's end")]
Stream = Annotated[Literal["sse"] | None, Query(description="answer with the run's events")]
IdempotencyKey = Annotated[
    str | None, Header(min_length=1, max_length=200, description="the same key and body give the same run, for 24 h")
]
MAX_ATTEMPTS: Final = 20
SERIAL_SECONDS: Final = 3600.0
"""Of one attempt of a serial job that says nothing else: while it runs, no other of its line does."""
"""A job keeps the history of its attempts in its record."""
THREAD_ID = r"^[^/\x00-\x1f]+$"

ENDED_OR_FOLLOWED: Final[dict[str, Any]] = {
    "model": shapes.RunShape,
    "description": "The run has ended (`wait`), or its events follow (`stream=sse`).",
    "content": SSE,
}
_PAUSES: Final = frozenset({InterruptRaised.type, RequestSuspended.type})
REFUSALS = (
    "AGENT_NOT_FOUND",
    "AGENT_REQUIRED",
    "WORKFLOW_NOT_FOUND",
    "WORKFLOW_INPUT_INVALID",
    "ROUTE_NOT_FOUND",
    "BACKEND_NOT_AVAILABLE",
    "THREAD_NOT_FOUND",
    "THREAD_DELETED",
    "THREAD_CLOSED",
    "THREAD_BUSY",
    "THREAD_RESERVED",
    "QUEUE_FULL",
    "IDEMPOTENCY_KEY_REUSED",
    "STORAGE_FULL",
    "QUEUE_OVERFLOW",
    "WORKSPACE_NOT_LOADED",
    "WORKSPACE_UNAVAILABLE",
    "TOOL_NOT_FOUND",
    "MODEL_NOT_FOUND",
    "LIMITS_INVALID",
    "UPLOAD_NOT_FOUND",
    "UPLOAD_DELETED",
    "BODY_TOO_LARGE",
    "WEBHOOK_NOT_FOUND",
    "WEBHOOK_ADDRESS_REFUSED",
    "JOB_MERGE_TOO_LARGE",
)
"""Why a submission may be turned down."""


class Request(BaseModel):
    """A body: closed, so that a misspelt field is a mistake and not a surprise."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, defer_build=True)


class RunLimits(Request):
    tokens: int | None = Field(None, ge=1)
    cost_usd: float | None = Field(None, gt=0, allow_inf_nan=False)
    model_calls: int | None = Field(None, ge=1)
    tool_calls: int | None = Field(None, ge=1)
    wall_seconds: float | None = Field(None, gt=0, le=86_400)

    def given(self) -> dict[str, Any]:
        return self.model_dump(by_alias=True, exclude_none=True)


class RunRequest(Request):
    """What every submission may say."""

    metadata: Metadata = Field(default_factory=dict)
    labels: Labels = Field(default_factory=dict)
    busy: Literal["enqueue", "reject", "interrupt", "rollback"] | None = Field(
        None, description="what to do when the thread has an active run; null: the agent's policy"
    )
    limits: RunLimits | None = Field(None, description="tighter ones than the workspace's and the agent's own")
    user: str | None = Field(
        None, min_length=1, max_length=200, description="whose memory the run uses; needs the scope memory:delegate"
    )
    parameters: RunParameters | None = Field(None, description="sampling and reasoning of its model calls")
    tool_choice: ToolChoice | None = Field(None, description="for its first model call; null: the model chooses")
    response_schema: dict[str, Any] | None = Field(None, description="a JSON schema that the answer must meet")
    webhook: str | None = Field(
        None,
        min_length=1,
        max_length=2000,
        description="who is sent the run's end: the id of a webhook, or a URL whose host `outgoing.webhooks` lists",
    )


class JobFields(Request):
    """Queue attributes; a run that is submitted with any of them is a job."""

    priority: Literal["interactive", "background"] | None = Field(
        None, description="background runs let interactive ones of their tenant go first"
    )
    not_before: Moment | None = Field(None, description="no attempt begins before this time")
    attempts: int | None = Field(
        None, ge=1, le=MAX_ATTEMPTS, description="how often it is tried when it fails with a retryable error"
    )
    backoff_seconds: float | None = Field(
        None, ge=0.1, le=3600, description="before the second attempt; each further pause is twice as long (default 1)"
    )
    timeout_seconds: float | None = Field(None, gt=0, le=86_400, description="of one attempt")
    dedupe_key: str | None = Field(
        None, min_length=1, max_length=200, description="a second job with this key is answered with the first one"
    )
    dedupe: Literal["single_flight", "drop_duplicate", "merge_duplicate"] | None = Field(
        None,
        description="whether the key counts while the first job is active (default), or while it is stored; "
        "`merge_duplicate`: while it is active, and the second job's metadata is added to it",
    )
    job_type: str | None = Field(None, min_length=1, max_length=200, description="a name of your own; default `run`")
    project_id: str | None = Field(None, min_length=1, max_length=200, description="whose job it is")
    source_session_id: str | None = Field(None, min_length=1, max_length=200, description="who asked for it")
    serial: bool | None = Field(
        None, description="true: of the serial jobs of its project one runs at a time; needs `projectId`"
    )

    @model_validator(mode="after")
    def _has_a_line(self) -> Self:
        if self.serial and self.project_id is None:
            raise ValueError("a serial job needs `projectId`, whose other jobs it waits for")
        return self

    @model_validator(mode="after")
    def _is_its_own(self) -> Self:
        if self.dedupe is not None and self.dedupe_key is None:
            raise ValueError("`dedupe` says how `dedupeKey` counts, and there is none")
        if self.job_type is not None and self.job_type.startswith(SCHEDULED):
            # A schedule counts the jobs of its type as its own runs, and would wait for this one or cancel it.
            raise ValueError(f"a `jobType` that begins with `{SCHEDULED}` belongs to a schedule")
        return self

    def job(self) -> JobRequest | None:
        given = self.model_dump(include=set(JobFields.model_fields), exclude_none=True)
        if not given:
            return None
        if (due := given.pop("not_before", None)) is not None:
            given["not_before_ms"] = round(due.timestamp() * 1000)
        if "job_type" in given:
            given["type"] = given.pop("job_type")
        if given.get("serial"):
            given.setdefault("timeout_seconds", SERIAL_SECONDS)
        return JobRequest(**given)


class Asked:
    """How a submission was asked for: the headers and parameters that all of them share."""

    def __init__(self, request: HttpRequest, wait: float | None, stream: str | None, key: str | None) -> None:
        self.wait, self.stream, self.key = wait, stream, key
        self.trace_context = correlation(request)

    async def submission(self, body: RunRequest, raw: bytes, **more: Any) -> Submission:
        """`raw` is all that was asked: the same key with something else is refused."""
        choice = body.tool_choice
        return Submission(
            metadata=body.metadata,
            labels=body.labels,
            busy=body.busy,
            limits=None if body.limits is None else body.limits.given(),
            idempotency_key=self.key,
            body_hash=await off_loop(len(raw), lambda: sha256(raw).hexdigest()) if self.key else "",
            trace_context=self.trace_context,
            user=body.user,
            parameters=None if body.parameters is None else body.parameters.given() or None,
            tool_choice=choice.model_dump() if isinstance(choice, NamedTool) else choice,
            response_schema=body.response_schema,
            webhook=body.webhook,
            **more,
        )


async def _asked(
    request: HttpRequest, wait: Wait = None, stream: Stream = None, idempotency_key: IdempotencyKey = None
) -> Asked:
    """A coroutine, although it waits for nothing: the framework calls anything else in a thread, for every request."""
    return Asked(request, wait, stream, idempotency_key)


AskedHow = Annotated[Asked, Depends(_asked)]


async def submit(
    server: ServerContext, caller: Principal, wanted: Submission, wait: float | None, stream: str | None
) -> Response:
    if wanted.user is not None and not caller.may("memory:delegate"):
        raise HttpProblem(Failure("FORBIDDEN", "The caller may not do this."), None, needs="memory:delegate")
    if wanted.webhook is not None:
        webhook = await server.webhooks.for_run(caller, wanted.webhook)
        if isinstance(webhook, Failure):
            raise HttpProblem(webhook)
        wanted = replace(wanted, webhook=webhook)
    taken = await _submitted(server, caller, wanted)
    run = taken.run
    deduped = {"x-deduplicated": "true"} if taken.replayed and wanted.job is not None else {}
    if stream is not None:
        ids = {"x-run-id": header_text(run.id), "x-thread-id": header_text(run.thread_id), **deduped}
        return run_stream(server, caller, run, run.first_seq - 1, ids)
    if wait is not None:
        run = await wait_for_end(server, caller, run, wait)
    answer = run_answer(run, 200 if run.terminal else 202)
    answer.headers.update(deduped)
    return answer


async def _submitted(server: ServerContext, caller: Principal, wanted: Submission) -> Taken:
    """Apart from waiting for the run: the content of its parts is not held meanwhile."""
    given, blobs = await with_content(server.files, caller.tenant, wanted.input)
    taken = await server.service.enqueue(caller, replace(wanted, input=given, blobs=blobs))
    if isinstance(taken, Rejected):
        raise refusal(taken)
    return taken


def run_answer(run: Run, status: int = 200) -> Response:
    return json_answer(run_json(run), status)


def accepted(answer: Run | Rejected) -> Run:
    if isinstance(answer, Rejected):
        raise refusal(answer)
    return answer


def refusal(answer: Rejected) -> HttpProblem:
    blocked = answer.failure.code in ("THREAD_BUSY", "QUEUE_FULL", "IDEMPOTENCY_KEY_REUSED", "UNDO_CONFLICT")
    return HttpProblem(answer.failure, None, **({"runId": answer.winner} if blocked and answer.winner else {}))


def run_stream(
    server: ServerContext, caller: Principal, run: Run, after: int, headers: Mapping[str, str] | None = None
) -> Response:
    """The run's events after that `seq`, and `end` after its last."""
    if run.terminal and after >= run.last_seq:  # the client has seen it all
        return OneFrame(named_frame("end", {"runId": run.id, "seq": run.last_seq}), headers)
    start = max(after, run.first_seq - 1)
    return event_stream(
        server,
        caller,
        run.thread_id,
        start,
        ending=last_of(run),
        keep=lambda event: event.run_id == run.id,
        headers=headers,
    )


def last_of(run: Run) -> Ending:
    """What the `end` frame of a run's stream says."""

    def ending(event: Event) -> LastFrame | None:
        return {"runId": run.id, "seq": event.seq, "type": event.type} if event.type in TERMINAL else None

    return ending


async def wait_for_end(server: ServerContext, caller: Principal, run: Run, seconds: float) -> Run:
    """Non-streaming is awaiting the last event. A run that waits for a person is answered at once."""
    if not run.terminal:
        with contextlib.suppress(TimeoutError, FellBehind):
            async with asyncio.timeout(seconds):
                await _until_it_rests(server, caller, run)
    return await existing_run(server, caller, run.id)


async def _until_it_rests(server: ServerContext, caller: Principal, run: Run) -> None:
    following = follow(server.hub, server.reader.events, caller.tenant, run.thread_id, run.first_seq - 1)
    async with contextlib.aclosing(following) as batches:
        async for batch in batches:
            mine = {event.type for event in batch if event.run_id == run.id}
            if mine & TERMINAL:
                return
            if mine & _PAUSES:
                # It may have been answered long ago, when the events that are read are old ones.
                stands = await server.reader.run(caller.tenant, run.id)
                if stands is None or stands.status == "waiting":
                    return

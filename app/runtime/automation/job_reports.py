"""Tells a session of the jobs that work for it, and leaves every row that a job was to fill in a final state.

Follows the log, so that a crash between a job's end and its session's rows loses nothing: what is done twice is the
same. Leaves to others: running the jobs (the queue), and the shape of frames (the protocols).
"""

from collections.abc import Sequence
from typing import Any, Final, Literal

import structlog

from app.core import json
from app.core.principal import Principal
from app.events.blobs import restored, stored_blobs, with_blobs
from app.events.catalog import job, thread
from app.events.catalog.session_job import SessionJobUpdated, SessionSuggestionUpdated
from app.events.envelope import Event
from app.events.ports import StoreError
from app.events.recorder import Recorder, Scope
from app.runtime.automation.instruction import INTENTS
from app.runtime.automation.session_jobs import COMPACT, INSTRUCT, SUGGEST, WORKERS, payload_of
from app.runtime.intake.threads import Threads
from app.views.ports import Reader
from app.views.run import Run
from app.views.thread import Thread

Ended = Literal["complete", "error", "canceled"]
State = Literal["queued", "started", "progress", "completed", "failed", "canceled"]

MAX_TEXT: Final = 12_000
MAX_SUGGESTION: Final = 8000
MAX_SUMMARY: Final = 4000
"""Characters: whatever they are, they are stored in the event itself and not behind a reference."""
_STATES: Final[dict[str, State]] = {
    job.JobQueued.type: "queued",
    job.JobStarted.type: "started",
    job.JobProgress.type: "progress",
    job.JobCompleted.type: "completed",
    job.JobFailed.type: "failed",
    job.JobCancelled.type: "canceled",
}
_ENDS: Final[dict[State, Ended]] = {"completed": "complete", "failed": "error", "canceled": "canceled"}
_TYPES: Final = frozenset({SUGGEST, INSTRUCT, COMPACT})

log = structlog.get_logger("holdfast.session_jobs")


class JobReports:
    """A consumer of the log."""

    name = "session-jobs"
    types = frozenset(_STATES)

    def __init__(self, recorder: Recorder, reader: Reader, threads: Threads) -> None:
        self._recorder, self._reader, self._threads = recorder, reader, threads

    async def handle(self, events: Sequence[Event]) -> None:
        for event in events:
            # What a client submits as a job is its own, whatever it says that it is.
            if not (event.thread_id.startswith(WORKERS) and event.payload.get("sourceSessionId")):
                continue
            if event.payload["jobType"] not in _TYPES:
                continue
            try:
                await self._report(event)
            except StoreError:
                raise  # it is tried again
            except Exception:
                # Everybody's reports wait behind this one: it is left out, and not for ever tried again.
                log.exception("session_job.not_reported", tenant=event.tenant, job=event.payload["jobId"])

    async def _report(self, event: Event) -> None:
        payload, tenant = event.payload, event.tenant
        session_id, state = payload["sourceSessionId"], _STATES[event.type]
        session = await self._reader.thread(tenant, session_id)
        run = await self._reader.run(tenant, payload["jobId"])
        if not isinstance(session, Thread) or session.deleted_at is not None or run is None:
            return  # nobody is left to tell
        load = stored_blobs(self._reader, tenant, event.thread_id)
        run.output, payload = await restored(run.output, load), (await with_blobs(event, load)).payload
        said = SessionJobUpdated(
            job_id=payload["jobId"],
            job_type=payload["jobType"],
            project_id=payload.get("projectId") or f"session:{session_id}",
            state=state,
            progress=_short(payload.get("progress")),
            result={"text": text_of(run)} if state == "completed" else None,
            error=_reason(payload),
        )
        # A job is completed for its session when its rows are; that it failed is known before.
        if state == "completed":
            await self._completed(said, event, run)
        await self._recorder.record(Scope(tenant, session_id), said)
        if state != "completed":
            await self._fill(event, session_id, run, state, said.error)

    async def _completed(self, said: SessionJobUpdated, event: Event, run: Run) -> None:
        session_id = event.payload["sourceSessionId"]
        # What asked for actions was said before they were carried out.
        if payload_of(run).get("expectResponse") != INTENTS:
            text: dict[str, Any] = {"stage": "assistant_output", "status": "complete", "text": text_of(run)}
            progress = said.model_copy(update={"state": "progress", "progress": text, "result": None})
            await self._recorder.record(Scope(event.tenant, session_id), progress)
        await self._fill(event, session_id, run, "completed", None)

    async def _fill(self, event: Event, session_id: str, run: Run, state: State, reason: str | None) -> None:
        payload, tenant = payload_of(run), event.tenant
        if payload.get("requestKey") and state in ("queued", *_ENDS):
            await self._suggestion(tenant, session_id, run, payload, state, reason)
        if (
            state == "completed"
            and run.job is not None
            and run.job["type"] == COMPACT
            and (text := text_of(run).strip())
        ):
            said = thread.ThreadCompacted(summary=text[:MAX_SUMMARY], through_seq=payload["throughSeq"], job_id=run.id)
            await self._recorder.record(Scope(tenant, session_id), said)
        if run.job is None or run.job["type"] != INSTRUCT:
            return
        if state == "started":
            await self._begin(event, session_id, payload)
        elif state in _ENDS:
            await self._end(event, session_id, run, payload, _ENDS[state], reason)

    async def _suggestion(
        self, tenant: str, session_id: str, run: Run, payload: dict[str, Any], state: State, reason: str | None
    ) -> None:
        status: Literal["streaming", "complete", "canceled", "error"] = "streaming"
        suggestion, error = None, None
        if state == "completed":
            status, suggestion = "complete", suggestion_of(run)
        elif state == "canceled":
            status, error = "canceled", reason
        elif state == "failed":
            # The published fallback: a suggestion that nobody had to think about.
            status, suggestion, error = "complete", str(payload.get("fallback") or "")[:MAX_SUGGESTION] or None, reason
            if suggestion is None:
                status = "error"
        key = payload["requestKey"]
        known = await newest_suggestion(self._reader, tenant, session_id, key)
        if known is not None and known["status"] != "streaming":
            return
        said = SessionSuggestionUpdated(request_key=key, status=status, suggestion=suggestion, error=error)
        await self._recorder.record(Scope(tenant, session_id), said)

    # -- supplemental targets -------------------------------------------------------------------------

    async def _begin(self, event: Event, session_id: str, payload: dict[str, Any]) -> None:
        """With each attempt: rows that are not there, or ended without success, wait for this one."""
        for target in _targets(payload):
            known = await self._reader.entry(event.tenant, session_id, target["messageId"])
            if known is None or known.status not in ("streaming", "complete"):
                placeholders = target.get("placeholderTexts") or [f"{target['type']} queued..."]
                await self._upsert(event, session_id, payload, target["messageId"], target["type"],
                                   placeholders[0], "streaming")  # fmt: skip

    async def _end(
        self, event: Event, session_id: str, run: Run, payload: dict[str, Any], status: Ended, reason: str | None
    ) -> None:
        for target in _targets(payload):
            known = await self._reader.entry(event.tenant, session_id, target["messageId"])
            if known is not None and known.status == "complete" and status != "complete":
                continue
            content = known.content if known is not None and isinstance(known.content, str) else ""
            placeholders = {text.strip().casefold() for text in target.get("placeholderTexts") or ()}
            placeholders |= {"", f"{target['type']} queued...".casefold()}
            if content.strip().casefold() in placeholders:
                content = _fallback(target, status, reason)
            if known is None or known.status != status or known.content != content:
                await self._upsert(event, session_id, payload, target["messageId"], target["type"], content, status)
        if status != "complete" or payload.get("expectResponse") in ("assistant_text", INTENTS):
            text = text_of(run) if status == "complete" else reason or status
            name = f"agent-job-output::{run.id}"
            await self._upsert(event, session_id, payload, name, "agent.jobOutput", text[:MAX_TEXT], status)

    async def _upsert(
        self,
        event: Event,
        session_id: str,
        payload: dict[str, Any],
        message_id: str,
        type_: str,
        text: str,
        status: Any,
    ) -> None:
        anchor = {"anchorItemId": payload.get("anchorItemId") or payload.get("itemId"),
                  "approvalId": payload.get("approvalId")}  # fmt: skip
        details = {name: value for name, value in anchor.items() if value is not None}
        row = thread.TranscriptUpserted.model_validate(
            {
                "messageId": message_id,
                "turnId": payload.get("turnId") or "",
                "role": "system",
                "type": type_,
                "content": text,
                "status": status,
                # Of the event and not of now: who reports it again after a crash writes the same.
                "startedAt" if status == "streaming" else "completedAt": event.at,
                **({"details": json.dumps(details).decode()} if details else {}),
            }
        )
        await self._threads.upsert(Principal("system", event.tenant), session_id, row)


def _targets(payload: dict[str, Any]) -> list[dict[str, Any]]:
    """Each row once, whatever the payload repeats."""
    given = payload.get("supplementalTargets") or ()
    return list({target["messageId"]: target for target in given}.values())


def _fallback(target: dict[str, Any], status: Ended, reason: str | None) -> str:
    if status == "complete":
        return str(target.get("completeFallback") or f"{target['type']} complete.")
    if status == "canceled":
        return str(target.get("canceledFallback") or f"{target['type']} canceled.")
    text = str(target.get("errorFallback") or f"{target['type']} failed.")
    return f"{text} ({reason})" if reason else text


def _short(progress: dict[str, Any] | None) -> dict[str, Any] | None:
    text = None if progress is None else progress.get("text")
    return {**(progress or {}), "text": text[:MAX_TEXT]} if isinstance(text, str) else progress


def _reason(payload: dict[str, Any]) -> str | None:
    error = payload.get("error")
    return str(error["message"])[:4000] if isinstance(error, dict) else payload.get("reason")


def text_of(run: Run) -> str:
    output = run.output
    return (output if isinstance(output, str) else json.canonical(output).decode())[:MAX_TEXT]


def suggestion_of(run: Run) -> str:
    return text_of(run).strip()[:MAX_SUGGESTION]


async def newest_suggestion(reader: Reader, tenant: str, session_id: str, key: str) -> dict[str, Any] | None:
    """The state of a suggested request, with `at`; None if nobody spoke of the key."""
    found: dict[str, Any] | None = None
    after = 0
    types = (SessionSuggestionUpdated.type,)
    while page := await reader.events_of(tenant, session_id, types, after, 2**62, 1000):
        for event in page:
            if event.payload["requestKey"] == key:
                found = event.payload | {"at": event.at}
        after = page[-1].seq
    return found

"""What is recorded of a submission: the run's first event, and the first of a new thread."""

from collections.abc import Mapping
from typing import Any

from app.core.clock import iso
from app.events.catalog import Payload, job, request, thread
from app.events.catalog.builders import BuiltThreadCreated
from app.runtime.intake.submission import Busy, JobRequest, Submission
from app.views.controls import ApprovalPolicy
from app.workspace.compiled import CompiledWorkspace


def queued_event(
    submission: Submission,
    workspace: CompiledWorkspace,
    *,
    agent: str | None,
    busy: Busy,
    approvals: ApprovalPolicy | None,
    limits: Mapping[str, str] | None,
    code: str,
) -> Payload:
    document: dict[str, Any] = {
        "metadata": dict(submission.metadata),
        "labels": dict(submission.labels),
        "busy": busy,
        "workspaceDigest": workspace.digest,
        "code": code,
    }
    # The rest is absent in most requests: it is put in where there is some, instead of taken out where there is none.
    if agent is not None:
        document["agent"] = agent
        if _keeps_partial_answers(workspace, agent):
            document["partialAnswers"] = "keep"
    if submission.input is not None:
        document["input"] = submission.input
    if submission.tool is not None:
        document["tool"] = submission.tool
    if submission.workflow is not None:
        document["workflow"] = submission.workflow
    if submission.mode is not None:
        document["mode"] = submission.mode
    if submission.instructions is not None:
        document["instructions"] = submission.instructions
    if submission.model_plan:
        document["modelPlan"] = {"model": submission.model_plan}
    if submission.limits:
        document["limits"] = dict(submission.limits)
    if submission.client_tools:
        document["clientTools"] = [dict(tool) for tool in submission.client_tools]
    if (choice := submission.tool_choice) is not None:
        document["toolChoice"] = dict(choice) if isinstance(choice, Mapping) else choice
    if submission.response_schema:
        document["responseSchema"] = dict(submission.response_schema)
    if submission.parameters and _takes_parameters(workspace, agent):
        document["parameters"] = dict(submission.parameters)
    if submission.trace_context:
        document["traceContext"] = dict(submission.trace_context)
    if submission.rerun_of is not None:
        document["rerunOf"] = submission.rerun_of
    if submission.undo_of is not None:
        document["undoOf"] = submission.undo_of
    if submission.replay:
        document["replay"] = dict(submission.replay)
    if submission.replay_differs:
        document["replayDiffers"] = dict(submission.replay_differs)
    if approvals is not None:
        document["approvalPolicy"] = approvals
    if limits:
        document["sessionLimits"] = dict(limits)
    if submission.user is not None:
        document["user"] = submission.user
    if submission.webhook is not None:
        document["webhook"] = submission.webhook
    return request.RequestQueued.unchecked(document)


def job_queued_event(wanted: JobRequest, run_id: str) -> Payload:
    return job.JobQueued(
        job_id=run_id,
        job_type=wanted.type,
        project_id=wanted.project_id,
        source_session_id=wanted.source_session_id,
        priority=wanted.priority,
        dedupe_key=wanted.dedupe_key,
        dedupe=None if wanted.dedupe_key is None else wanted.dedupe,
        max_attempts=wanted.attempts,
        backoff_seconds=wanted.backoff_seconds,
        timeout_seconds=wanted.timeout_seconds,
        not_before=None if wanted.not_before_ms is None else iso(wanted.not_before_ms),
        serial=wanted.serial or None,
    )


def thread_created_event(submission: Submission) -> Payload:
    if submission.system is not None:
        return thread.ThreadCreated(title="Worker", metadata=dict(submission.system), owner="system")
    if not submission.history:
        return BuiltThreadCreated()
    history = [dict(message) for message in submission.history]
    return thread.ThreadCreated.unchecked({"metadata": {}, "labels": {}, "owner": "user", "history": history})


def _keeps_partial_answers(workspace: CompiledWorkspace, agent: str) -> bool:
    known = workspace.acting(agent)
    return known is not None and known.spec.partial_answers == "keep"


def _takes_parameters(workspace: CompiledWorkspace, agent: str | None) -> bool:
    known = workspace.acting(agent)
    return known is not None and known.spec.client_parameters

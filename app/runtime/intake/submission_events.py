"""What is recorded of a submission: the run's first event, and the first of a new thread."""

from collections.abc import Mapping

from app.core.clock import iso
from app.core.json import present
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
    parameters, choice = submission.parameters, submission.tool_choice
    document = {
        "agent": agent,
        "tool": submission.tool,
        "mode": submission.mode,
        "workflow": submission.workflow,
        "input": submission.input,
        "metadata": dict(submission.metadata),
        "labels": dict(submission.labels),
        "busy": busy,
        "workspaceDigest": workspace.digest,
        "code": code,
        "limits": dict(submission.limits) if submission.limits else None,
        "modelPlan": {"model": submission.model_plan} if submission.model_plan else None,
        "instructions": submission.instructions,
        "clientTools": [dict(tool) for tool in submission.client_tools] if submission.client_tools else None,
        "responseSchema": dict(submission.response_schema) if submission.response_schema else None,
        "parameters": dict(parameters) if parameters and _takes_parameters(workspace, agent) else None,
        "toolChoice": dict(choice) if isinstance(choice, Mapping) else choice,
        "traceContext": dict(submission.trace_context) if submission.trace_context else None,
        "rerunOf": submission.rerun_of,
        "undoOf": submission.undo_of,
        "replay": dict(submission.replay) if submission.replay else None,
        "replayDiffers": dict(submission.replay_differs) if submission.replay_differs else None,
        "partialAnswers": _partial_answers(workspace, agent),
        "approvalPolicy": approvals,
        "sessionLimits": dict(limits) if limits else None,
        "user": submission.user,
        "webhook": submission.webhook,
    }
    return request.RequestQueued.unchecked(present(document))


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


def _partial_answers(workspace: CompiledWorkspace, agent: str | None) -> str | None:
    known = workspace.acting(agent)
    return "keep" if known is not None and known.spec.partial_answers == "keep" else None


def _takes_parameters(workspace: CompiledWorkspace, agent: str | None) -> bool:
    known = workspace.acting(agent)
    return known is not None and known.spec.client_parameters

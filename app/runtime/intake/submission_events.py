"""What is recorded of a submission: the run's first event, and the first of a new thread."""

from collections.abc import Mapping

from app.core.json import present
from app.events.catalog import Payload, request, thread
from app.events.catalog.builders import BuiltThreadCreated
from app.runtime.intake.submission import Busy, Submission
from app.views.controls import ApprovalPolicy
from app.workspace.compiled import CompiledWorkspace


def queued_event(
    submission: Submission,
    workspace: CompiledWorkspace,
    *,
    agent: str | None,
    busy: Busy,
    approvals: ApprovalPolicy | None,
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
        "clientTools": [dict(tool) for tool in submission.client_tools] or None,
        "responseSchema": dict(submission.response_schema) if submission.response_schema else None,
        "parameters": dict(parameters) if parameters and _takes_parameters(workspace, agent) else None,
        "toolChoice": dict(choice) if isinstance(choice, Mapping) else choice,
        "traceContext": dict(submission.trace_context) if submission.trace_context else None,
        "rerunOf": submission.rerun_of,
        "replay": dict(submission.replay) if submission.replay else None,
        "approvalPolicy": approvals,
        "user": submission.user,
    }
    return request.RequestQueued.unchecked(present(document))


def thread_created_event(submission: Submission) -> Payload:
    if not submission.history:
        return BuiltThreadCreated()
    history = [dict(message) for message in submission.history]
    return thread.ThreadCreated.unchecked({"metadata": {}, "labels": {}, "owner": "user", "history": history})


def _takes_parameters(workspace: CompiledWorkspace, agent: str | None) -> bool:
    known = workspace.agents.get(agent or "")
    return known is not None and known.spec.client_parameters

"""What is checked of a submission before anything is recorded. Leaves to the log: what depends on its thread."""

import re
from collections.abc import Container, Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError

from app.core.errors import Failure
from app.runtime.intake.foreign_schemas import check_schema
from app.runtime.intake.rejection import SYSTEM_THREADS
from app.runtime.intake.submission import Submission
from app.workspace.compiled import CompiledAgent, CompiledWorkspace
from app.workspace.specs.base import Limits

MAX_CLIENT_TOOLS: Final = 128
_TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def route(submission: Submission, workspace: CompiledWorkspace) -> Failure | None:
    """Put the agent or workflow of a route, or the default workflow, into a submission that names it not itself."""
    if submission.route_id is not None:
        found = workspace.runtime.routes.get(submission.route_id)
        if found is None:
            known = ", ".join(sorted(workspace.runtime.routes)) or "none"
            return Failure("ROUTE_NOT_FOUND", f"The workspace has no such route; it has: {known}.")
        submission.agent, submission.workflow = found.agent, found.workflow
    elif (
        submission.agent is None
        and submission.tool is None
        and submission.workflow is None
        and submission.undo_of is None
    ):
        submission.workflow = workspace.runtime.default_workflow
    return None


def check_submission(submission: Submission, workspace: CompiledWorkspace, backends: Container[str]) -> Failure | None:
    named = submission.thread_id
    if submission.system is None and named is not None and named.startswith(SYSTEM_THREADS):
        return Failure(
            "THREAD_RESERVED",
            f"Thread ids that begin with {SYSTEM_THREADS} are reserved for the system and take no runs.",
        )
    if submission.undo_of is not None:
        return None
    if submission.tool is not None:
        if submission.mode is not None:
            return Failure("INVALID_REQUEST", "A mode is for cycles; a tool has none.")
        if submission.parameters or submission.tool_choice or submission.response_schema:
            message = "Parameters, toolChoice and responseSchema are for runs that ask a model; a tool asks none."
            return Failure("INVALID_REQUEST", message)
        if submission.tool not in workspace.tools:
            return Failure("TOOL_NOT_FOUND", "The workspace has no such tool.")
        if not isinstance(submission.input, dict):
            return Failure("INVALID_REQUEST", "The input of a tool must be an object that holds its arguments.")
    elif submission.workflow is not None:
        refused = _check_workflow(submission, workspace)
        if refused is not None:
            return refused
    else:
        refused = _check_agent(submission, workspace, backends)
        if refused is not None:
            return refused
    if submission.model_plan is not None and submission.model_plan not in workspace.models:
        return Failure("MODEL_NOT_FOUND", "The workspace has no such model.")
    return check_limits(submission.limits) if submission.limits else None


def _check_workflow(submission: Submission, workspace: CompiledWorkspace) -> Failure | None:
    flow = workspace.workflows.get(submission.workflow or "")
    if flow is None:
        return Failure("WORKFLOW_NOT_FOUND", "The workspace has no such workflow.")
    for name, given in (
        ("modelPlan", submission.model_plan),
        ("client tools", submission.client_tools),
        ("a response schema", submission.response_schema),
        ("toolChoice", submission.tool_choice),
    ):
        if given:
            message = f"A workflow takes no {name}: its steps say what they use."
            return Failure("INVALID_REQUEST", message)
    issues = flow.input_validator.issues(submission.input) if flow.input_validator is not None else ()
    if issues:
        message = f"The input breaks the schema of the workflow: {issues[0].path or '/'}: {issues[0].message}"
        return Failure("WORKFLOW_INPUT_INVALID", message)
    return None


def _check_agent(submission: Submission, workspace: CompiledWorkspace, backends: Container[str]) -> Failure | None:
    name = submission.agent or workspace.default_agent
    if name is None:
        return Failure("AGENT_REQUIRED", "The request names no agent, and the workspace has no default agent.")
    agent = workspace.acting(name)
    if agent is None:
        return Failure("AGENT_NOT_FOUND", "The workspace has no such agent.")
    if agent.spec.backend not in backends:
        return Failure("BACKEND_NOT_AVAILABLE", f"The backend {agent.spec.backend!r} is not installed on this server.")
    if submission.response_schema and (refused := check_schema(submission.response_schema)) is not None:
        return Failure(refused.code, f"The schema of the answer: {refused.message}")
    if submission.client_tools:
        refused = _check_client_tools(workspace, agent, submission.client_tools)
        if refused is not None:
            return refused
    return None if submission.tool_choice is None else _check_choice(agent, submission)


def _check_choice(agent: CompiledAgent, submission: Submission) -> Failure | None:
    """Tools that only an MCP server knows are not looked up: a name that nothing offers is the model's to refuse."""
    if not isinstance(submission.tool_choice, Mapping):
        return None
    known = {*agent.tools, *agent.subagents, *(tool.get("name") for tool in submission.client_tools)}
    name = submission.tool_choice["name"]
    if name in known or "." in name or ":" in name:
        return None
    return Failure("TOOL_NOT_FOUND", f"The agent {agent.name!r} has no tool with the name that toolChoice gives.")


def check_limits(limits: Mapping[str, Any]) -> Failure | None:
    try:
        Limits.model_validate(dict(limits))
    except ValidationError as error:
        where = ", ".join(sorted({".".join(map(str, issue["loc"])) for issue in error.errors()}))
        return Failure("LIMITS_INVALID", f"The limits are invalid at {where}")
    return None


def _check_client_tools(
    workspace: CompiledWorkspace, agent: CompiledAgent, tools: Sequence[Mapping[str, Any]]
) -> Failure | None:
    if not agent.spec.client_tools:
        return Failure(
            "CLIENT_TOOLS_REFUSED", f"The agent {agent.name!r} does not accept tools of the client (`clientTools`)."
        )
    if len(tools) > MAX_CLIENT_TOOLS:
        return Failure("CLIENT_TOOLS_REFUSED", f"A request may have at most {MAX_CLIENT_TOOLS} client tools.")
    taken = {*workspace.tools, *agent.subagents}
    for tool in tools:
        name = tool.get("name")
        if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name) or name in taken:
            return Failure("CLIENT_TOOLS_REFUSED", "The name of a client tool is invalid, or another tool has it.")
        schema: Any = tool.get("input")
        refused = check_schema(schema)
        if refused is not None and refused.code == "SCHEMA_TOO_COMPLEX":
            return Failure(refused.code, f"The input schema of the tool {name!r}: {refused.message}")
        if refused is not None or schema.get("type") != "object":
            return Failure("CLIENT_TOOLS_REFUSED", f"The input schema of the tool {name!r} is not valid.")
        taken.add(name)
    return None

"""What the session routes answer, as the OpenAPI document shows it: the published contract's good answers and refusals.

Like `shapes`, these models make nothing: the tests hold every answer against them. A refusal that many routes share is
one response of the document, which the routes refer to (`refusals`). Leaves to others: requests.
"""

from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.protocols.http.shapes import RunError, Shape, Where

# -- sessions -----------------------------------------------------------------------------------------


class SessionControls(Shape):
    """`effort` and `dynamicTools` are there only when they were given."""

    model: str | None
    approval_policy: Literal["untrusted", "on-failure", "on-request", "never"]
    network_access: Literal["restricted", "enabled"]
    filesystem_sandbox: Literal["read-only", "workspace-write", "danger-full-access"]
    settings: dict[str, Any]
    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    dynamic_tools: list[dict[str, Any]] | None = None


class SessionSummary(Shape):
    session_id: str
    title: str
    materialized: bool = Field(description="something was asked in it")
    model_provider: str
    approval_policy: str
    session_controls: SessionControls
    created_at: int = Field(description="seconds since 1970, as `updatedAt`")
    updated_at: int
    cwd: str
    source: str
    project_id: str | None


class SessionItem(BaseModel):
    """A message, a call of a tool or an error; the rest of its fields are its type's."""

    model_config = ConfigDict(extra="allow", defer_build=True)

    type: Literal["userMessage", "agentMessage", "mcpToolCall", "error"]
    id: str


class SessionTurn(Shape):
    id: str
    status: Literal["inProgress", "completed", "failed", "interrupted"]
    error: RunError | None
    items: list[SessionItem]


class SessionThread(Shape):
    id: str
    preview: str
    model_provider: str
    created_at: int
    updated_at: int
    cwd: str
    source: str
    turns: list[SessionTurn]


class SessionRow(Shape):
    """An entry of the transcript; what it has not, it leaves out."""

    message_id: str
    turn_id: str
    role: Literal["user", "assistant", "system"]
    type: str
    content: Any
    status: Literal["streaming", "complete", "canceled", "error"]
    details: str | None = None
    started_at: int | None = Field(None, description="milliseconds since 1970, as `completedAt`")
    completed_at: int | None = None


class SessionList(Shape):
    data: list[SessionSummary]
    next_cursor: str | None
    archived: bool


class SessionOpened(Shape):
    session: SessionSummary
    thread: SessionThread


class SessionShown(SessionOpened):
    transcript: list[SessionRow]


class SessionTaken(SessionOpened):
    status: Literal["ok"]


class SessionForked(SessionTaken):
    source_session_id: str


class SessionRenamed(Shape):
    status: Literal["ok"]
    session: SessionSummary


class SessionArchived(Shape):
    status: Literal["ok"]
    session_id: str


class SessionErased(SessionArchived):
    title: str
    deleted_file_count: int


# -- controls -----------------------------------------------------------------------------------------


class BothScopes(Shape):
    session_id: str
    controls: SessionControls
    defaults: SessionControls = Field(description="what new sessions begin with")
    defaults_editable: bool
    default_lock_reason: str | None


class ControlsShown(BothScopes):
    status: Literal["ok"]


class ControlsApplied(BothScopes):
    status: Literal["ok", "unchanged"]
    scope: Literal["session", "default"]
    applied: SessionControls
    summary: str = Field(description="the applied controls in one line")


class DefaultsLocked(BothScopes):
    status: Literal["locked"]
    code: Literal["defaults_locked"]
    scope: Literal["default"]
    message: str
    settings: dict[str, Any]


class PolicyApplied(Shape):
    status: Literal["ok"]
    session_id: str
    approval_policy: Literal["untrusted", "on-failure", "on-request", "never"]


class SettingsShown(Shape):
    status: Literal["ok"]
    session_id: str
    scope: Literal["session", "default"]
    settings: dict[str, Any]


class SettingShown(Shape):
    status: Literal["ok"]
    session_id: str
    scope: Literal["session", "default"]
    key: str
    found: bool
    value: Any = Field(description="null when there is no such setting")


class SettingsApplied(Shape):
    status: Literal["ok", "unchanged"]
    session_id: str
    scope: Literal["session", "default"]
    settings: dict[str, Any]
    key: str | None = Field(None, description="there only when one setting was named")


class SettingRemoved(SettingsApplied):
    removed: bool


class CapabilityDetail(Shape):
    status: Literal["available", "disabled", "unknown"]
    reason: str | None


class CapabilityRuntime(Shape):
    initialized: bool = Field(description="a workspace is loaded")
    capabilities_last_updated_at: str | None


class CapabilitiesShape(Shape):
    status: Literal["ok"]
    runtime: CapabilityRuntime
    methods: dict[str, Literal["available", "disabled", "unknown"]]
    details: dict[str, CapabilityDetail]
    features: dict[str, bool]


# -- turns --------------------------------------------------------------------------------------------


class TurnAccepted(Shape):
    status: Literal["accepted"]
    session_id: str
    turn_id: str


class TurnInterrupted(Shape):
    status: Literal["ok"]
    session_id: str
    turn_id: str


class SteerResult(Shape):
    action_type: Literal["turn.steer.create"]
    status: Literal["performed", "already_resolved", "not_eligible", "conflict"]
    details: dict[str, Any]


class TurnSteered(Shape):
    """`ok` when it was performed; else `error`, and the result says why."""

    status: Literal["ok", "error"]
    session_id: str
    turn_id: str
    result: SteerResult
    code: str | None = Field(None, description="of an error: the result's status")


class RowUpserted(Shape):
    status: Literal["ok"]
    session_id: str
    entry: SessionRow


# -- requests to people and clients -------------------------------------------------------------------


class Pending(Shape):
    method: str
    thread_id: str
    turn_id: str | None
    item_id: str
    summary: str
    created_at: str
    status: Literal["pending"]
    details: dict[str, Any]


class PendingApproval(Pending):
    approval_id: str


class InputOption(Shape):
    label: str
    description: str


class InputQuestion(Shape):
    id: str
    header: str
    question: str
    options: list[InputOption] | None
    is_other: bool
    is_secret: bool


class PendingToolInput(Pending):
    request_id: str
    questions: list[InputQuestion]


class PendingToolCall(Pending):
    request_id: str
    call_id: str | None
    tool: str | None
    arguments: Any


class PendingApprovals(Shape):
    data: list[PendingApproval]


class PendingToolInputs(Shape):
    data: list[PendingToolInput]


class PendingToolCalls(Shape):
    data: list[PendingToolCall]


class ApprovalDecided(Shape):
    status: Literal["ok"]
    approval_id: str
    thread_id: str


class RequestAnswered(Shape):
    status: Literal["ok"]
    request_id: str
    thread_id: str


# -- refusals -----------------------------------------------------------------------------------------


class SessionState(Shape):
    """What the session's state does not allow, by its `status`."""

    status: Literal["not_materialized", "no_active_turn"]
    session_id: str


class SessionProblem(Shape):
    """`status` says what kind of answer it is, `code` which."""

    status: Literal["error", "forbidden", "invalid_request"]
    code: str
    message: str
    session_id: str | None = None
    issues: list[Where] | None = None


class SessionMissing(Shape):
    """Names what was looked for; where nothing was, `code` and `message` say so."""

    status: Literal["not_found", "project_not_found"]
    session_id: str | None = None
    project_id: str | None = None
    approval_id: str | None = None
    request_id: str | None = None
    job_id: str | None = None
    code: str | None = None
    message: str | None = None


class SessionDeleted(Shape):
    status: Literal["deleted"]
    message: str
    session_id: str | None = None
    title: str | None = None
    deleted_at: str | None = None
    code: str | None = None


_REFUSALS: Final[dict[int, tuple[type[Shape], str]]] = {
    400: (SessionProblem, "`invalid_request`, `request_failed`, `invalid_params`: the request is wrong"),
    401: (SessionProblem, "`auth_required`: credentials are needed"),
    403: (SessionProblem, "`system_session`, `insufficient_role`: not the caller's to do"),
    404: (SessionMissing, "there is no such session or request"),
    408: (SessionProblem, "the body took too long"),
    409: (SessionProblem, "`invalid_state`: the session's state does not allow it"),
    410: (SessionDeleted, "the session was deleted"),
    413: (SessionProblem, "the body is too large"),
    429: (SessionProblem, "too many requests"),
    431: (SessionProblem, "the headers are too large"),
    503: (SessionProblem, "not now; try again"),
}

REFUSING: Final = (SessionProblem, SessionMissing, SessionDeleted)
SHARED: Final = {
    f"Session{status}": {
        "description": what,
        "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}},
    }
    for status, (model, what) in _REFUSALS.items()
}
"""The document's own responses, by their names."""

"""The life of a run: accepted, claimed, ended. Exactly one of completed, failed, cancelled, and it is the last."""

from typing import Any, Final, Literal

from pydantic import Field

from app.events.catalog.base import EventModel, event
from app.events.catalog.values import ErrorValue, Usage

Mode = Literal["interactive", "autofix", "report-only", "headless"]
DEFAULT_MODE: Final[Mode] = "headless"


@event("runtime.request.queued")
class RequestQueued(EventModel):
    """The run's first event; committed before the client's request is answered."""

    input: Any = None
    agent: str | None = None
    tool: str | None = None
    workflow: str | None = None
    skill: str | None = None
    """Of a workflow's step: the skill that the agent follows, whatever the input says."""
    mode: Mode | None = None
    """How a cycle goes about its work; null means headless."""
    call_id: str | None = None
    limits: dict[str, Any] | None = None
    model_plan: dict[str, Any] | None = None
    instructions: str | None = None
    """What the client adds to the agent's own."""
    client_tools: list[dict[str, Any]] | None = None
    response_schema: dict[str, Any] | None = None
    parameters: dict[str, Any] | None = None
    """What the client wants of the answering model calls, as far as the agent lets it."""
    tool_choice: str | dict[str, str] | None = None
    """`required` or `{name}`: what the first answering model call must do."""
    approval_policy: Literal["untrusted", "on-failure", "on-request", "never"] | None = None
    """What the conversation asks for; it only ever makes the workspace's own rules stricter."""
    session_limits: dict[str, str | list[str]] | None = None
    """`networkAccess`, `filesystemSandbox` and `cwd` of the conversation: what its tools may reach, never more; and
    `allowedTools`, `deniedTools` and `approvalTools` of its settings."""
    user: str | None = None
    """For whom the caller acts, if it may: whose memory the run uses."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    labels: dict[str, str] = Field(default_factory=dict)
    trace_context: dict[str, str] | None = None
    workspace_digest: str | None = None
    code: str | None = None
    """What stood for the server and the installed modules that the workspace names, when the run was accepted."""
    parent_run_id: str | None = None
    rerun_of: str | None = None
    undo_of: str | None = None
    """The run whose effects this one takes back."""
    replay: dict[str, Any] | None = None
    """What a strict rerun must meet: the hash of its first prompt and of its tool calls."""
    replay_differs: dict[str, Any] | None = None
    """What a compatible rerun does differently: `differs`, and `model` where another one is used."""
    busy: Literal["enqueue", "reject", "interrupt", "rollback"] | None = None
    webhook: str | None = None
    """A webhook that is sent the run's end, whatever it is sent otherwise; by its id, or by the URL to send it to."""
    partial_answers: Literal["keep"] | None = None
    """Whether an answer that is cut off stays in the thread's conversation, marked as such."""


@event("runtime.request.started")
class RequestStarted(EventModel):
    """Written by the executor that claims the run first."""

    executor: str
    epoch: int


@event("runtime.request.resumed")
class RequestResumed(EventModel):
    """Written by each later claim: after an answer, after a crash, after a pause."""

    executor: str
    epoch: int
    reason: Literal["answer", "recovery", "resume"]
    code_changed: bool | None = None
    """Whether the server or an installed module is another than when the run was accepted; null if nobody knows."""


@event("runtime.request.suspended", draft=True)
class RequestSuspended(EventModel):
    """The branches of a workflow have all come to a question or a timer: nothing goes on before one is answered."""

    waiting_on: list[str]
    """The open interrupts that its executor knew of. If one was answered meanwhile, the run goes on at once."""


@event("runtime.request.completed")
class RequestCompleted(EventModel):
    output: Any
    message_id: str | None = None
    metadata: dict[str, Any] | None = None
    usage: Usage | None = None
    parts: list[dict[str, Any]] | None = None
    """The answer as message parts, where it is more than text."""
    artifacts: list[str] | None = None
    """Ids of the artifacts that belong to the answer."""


@event("runtime.request.failed")
class RequestFailed(EventModel):
    error: ErrorValue
    output: Any = None
    """What it had said or done before it failed; incomplete."""
    message_id: str | None = None
    """The message whose deltas said it."""


@event("runtime.request.cancelled")
class RequestCancelled(EventModel):
    reason: str | None = None
    by: str | None = None
    output: Any = None
    """What it had said of the answer that was cut off; incomplete."""
    message_id: str | None = None
    """The message whose deltas said it."""


TERMINAL: Final = frozenset({RequestCompleted.type, RequestFailed.type, RequestCancelled.type})

"""A request for a run, as every protocol hands it in. Leaves to the service: whether it is accepted."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, Literal

from app.core.value import mutable, value
from app.events import ports
from app.events.catalog import Payload, thread
from app.events.catalog.job import Dedupe, Priority
from app.events.catalog.request import Mode
from app.views.controls import ApprovalPolicy
from app.views.run import Run
from app.workspace.compiled import CompiledWorkspace

Busy = Literal["enqueue", "reject", "interrupt", "rollback"]
SCHEDULED: Final = "schedule:"
"""The type of a schedule's jobs, followed by its name."""


@value(frozen=True, slots=True)
class JobRequest:
    """Queue attributes: a run that is submitted with them is a job."""

    type: str = "run"
    priority: Priority = "interactive"
    attempts: int = 1
    """How often it is tried at most. Only failures that are marked as retryable are tried again."""
    backoff_seconds: float = 1.0
    """Between the first attempt and the second; each further pause is twice as long, at most an hour."""
    timeout_seconds: float | None = None
    """Of one attempt, without the time that it waits for a person."""
    not_before_ms: int | None = None
    """No attempt begins before this time. It costs no worker until then."""
    dedupe_key: str | None = None
    """A second job of the same project and type with this key is answered with the first one."""
    dedupe: Dedupe = "single_flight"
    """Until when the key counts: while the first one is active, or while it is stored. With `merge_duplicate` it counts
    while that is active, and the metadata of the second is added to the first."""
    project_id: str | None = None
    source_session_id: str | None = None
    serial: bool = False
    """It stands in the line of its project, of which one job runs at a time."""


@mutable(slots=True)  # not frozen: with so many fields that would cost more than reading the request
class Submission:
    agent: str | None
    """None takes the workspace's default, unless a tool or a workflow is asked for."""
    input: Any
    tool: str | None = None
    """A direct request: this tool with the input as its arguments, by no agent."""
    workflow: str | None = None
    mode: Mode | None = None
    """How a cycle goes about its work."""
    route_id: str | None = None
    """A route of the Runtime document, which names the agent or the workflow."""
    thread_id: str | None = None
    create_thread: bool = False
    system: Mapping[str, Any] | None = None
    """The metadata of a thread of the system's own, which only the system itself may name."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    busy: Busy | None = None
    """None takes the agent's policy, or the workspace's."""
    idempotency_key: str | None = None
    body_hash: str = ""
    model_plan: str | None = None
    """A model of the workspace to use in place of the agent's plan."""
    limits: Mapping[str, Any] | None = None
    """Tighter ones than the workspace's and the agent's own."""
    trace_context: Mapping[str, str] | None = None
    history: Sequence[Mapping[str, Any]] = ()
    """Messages that a new thread begins with."""
    instructions: str | None = None
    client_tools: Sequence[Mapping[str, Any]] = ()
    """`{name, description?, input}` each; a call of one waits for the client's answer."""
    response_schema: Mapping[str, Any] | None = None
    parameters: Mapping[str, Any] | None = None
    """Sampling of the answering model calls, checked by whoever took the request; not recorded if the agent pins its
    own."""
    tool_choice: str | Mapping[str, str] | None = None
    """`required` or `{name}`, for the first answering model call."""
    approval_policy: ApprovalPolicy | None = None
    session_limits: Mapping[str, Any] | None = None
    """Of a rerun: those of the run before. None takes the thread's."""
    """None takes the thread's own, if somebody gave it one."""
    user: str | None = None
    """For whom the caller acts; counts for memory. Whoever took the request has checked that it may."""
    thread_change: thread.ThreadUpdated | None = None
    """What the request changes of its thread; in the same commit, so both are there or neither."""
    state_update: thread.ThreadStateUpdated | None = None
    """What the run begins with instead of where the thread stands; in the same commit."""
    blobs: Sequence[ports.BlobDraft] = ()
    """Content that the input or the history refers to by hash."""
    announce: Callable[[str], None] | None = None
    """Called with the thread's id before anything is recorded, for whoever subscribes from the run's first event on."""
    webhook: str | None = None
    """A webhook that is sent the run's end, or a URL, as `WebhookDesk.for_run` answered it: it has checked it."""
    job: JobRequest | None = None
    """Its place in the queue; None for a run that starts as soon as it can, once."""
    rerun_of: str | None = None
    undo_of: str | None = None
    """The run whose effects this one takes back, by no agent; `also` has its plan."""
    also: Sequence[Callable[[str], Payload]] = ()
    """Events of the run that are stored with its first one, made from its id."""
    conditions: Sequence[Callable[[str], ports.Condition]] = ()
    """What must hold besides, made from the run's id."""
    replay: Mapping[str, Any] | None = None
    replay_differs: Mapping[str, Any] | None = None
    """What a compatible rerun does differently."""
    workspace: CompiledWorkspace | None = None
    """Another than the current one, for a rerun."""


@value(frozen=True, slots=True)
class Taken:
    """A run that was accepted, now or, if `replayed`, earlier under the same key."""

    run: Run
    replayed: bool = False

"""A request for a run, as every protocol hands it in. Leaves to the service: whether it is accepted."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from app.events import ports
from app.events.catalog import thread
from app.events.catalog.request import Mode
from app.views.controls import ApprovalPolicy
from app.workspace.compiled import CompiledWorkspace

Busy = Literal["enqueue", "reject", "interrupt", "rollback"]


@dataclass(slots=True)  # not frozen: with so many fields that would cost more than reading the request
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
    """None takes the thread's own, if somebody gave it one."""
    user: str | None = None
    """For whom the caller acts; counts for memory. Whoever took the request has checked that it may."""
    thread_change: thread.ThreadUpdated | None = None
    """What the request changes of its thread; in the same commit, so both are there or neither."""
    blobs: Sequence[ports.BlobDraft] = ()
    """Content that the input or the history refers to by hash."""
    announce: Callable[[str], None] | None = None
    """Called with the thread's id before anything is recorded, for whoever subscribes from the run's first event on."""
    rerun_of: str | None = None
    replay: Mapping[str, Any] | None = None
    workspace: CompiledWorkspace | None = None
    """Another than the current one, for a rerun."""

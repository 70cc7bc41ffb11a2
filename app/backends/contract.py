"""The backend contract: an agent runtime takes a context and returns text or an output.

A backend has no other way out than its context. `resume` says what becomes of a run whose executor died:
`replay` re-enters and gets recorded results back, `restart` begins anew, `fail` ends it with a stated reason.
Messages are documents in the shape of completion_request_v1, so that no backend depends on the models room.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from app.core.artifact import ArtifactRef, NewArtifact
from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.value import contract_value
from app.events.catalog.values import Effect
from app.workspace.catalog import Kind
from app.workspace.compiled import CompiledAgent, CompiledWorkspace
from app.workspace.specs.agent import ContextPolicy


@contract_value(frozen=True, slots=True)
class Output:
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    artifacts: Sequence[ArtifactRef | NewArtifact | Mapping[str, Any]] = ()
    """What belongs to the answer: artifacts that the run has stored, content to store now, or, as an object with `id`
    and `name`, a reference to content elsewhere."""
    message_id: str | None = None
    """The message whose deltas already carried this text, if they did."""
    parts: Sequence[Mapping[str, Any]] = ()
    """The answer as message parts, in the shape of a request's, where it is more than text."""
    structured: bool = False
    """Whether `text` is the JSON of a structured answer, which the run's output then is."""


Result: TypeAlias = str | Output
Resume: TypeAlias = Literal["replay", "restart", "fail"]


class StepFailed(Exception):
    """A step could not be done, and the run ends with this failure unless the backend knows better."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@contract_value(frozen=True, slots=True)
class CallRequest:
    """A tool call that a model asked for. Arguments that did not parse are empty, their text in `raw_args`."""

    id: str
    name: str
    args: JsonObject
    raw_args: str | None = None


@contract_value(frozen=True, slots=True)
class CallResult:
    call_id: str
    name: str
    ok: bool
    content: str
    """What the model is sent: the output, or what went wrong and how to do better."""
    output: Any = None
    """The output as structured data; None for a call that gave none."""


@contract_value(frozen=True, slots=True)
class ModelAnswer:
    text: str
    calls: tuple[CallRequest, ...]
    message: JsonObject
    """The answer as a message, to be sent back with the next request."""
    message_id: str
    parts: tuple[JsonObject, ...] = ()
    """The answer as message parts, where a model made more than text."""


@contract_value(frozen=True, slots=True)
class ToolSpecView:
    """A tool as a backend may describe it to its upstream."""

    name: str
    description: str
    input: Mapping[str, Any]
    """The JSON Schema of the arguments."""
    output: Mapping[str, Any] | None
    effect: Effect


@contract_value(frozen=True, slots=True)
class ExtraTool:
    """A tool that the backend runs itself, by `Context.step`."""

    name: str
    description: str
    input: Mapping[str, Any]


@contract_value(frozen=True, slots=True)
class RequestView:
    """What was asked for, as it was accepted. `input` is what hooks and guardrails made of it."""

    run_id: str
    thread_id: str
    agent: str
    input: Any
    parts: Sequence[Mapping[str, Any]]
    """The message parts of the input; none where it is text or another value."""
    metadata: Mapping[str, Any]
    labels: Mapping[str, str]
    parent_run_id: str | None = None


@contract_value(frozen=True, slots=True)
class CallOptions:
    """How one model call differs from the agent's usual ones."""

    role: str | None = None
    """Who speaks, where a backend has several voices; kept in the call's events."""
    tools: frozenset[str] | None = None
    """Of the agent's tools only these; what is not allowed anyway stays so. Empty means none."""
    response_schema: JsonObject | None = None
    model: str | None = None
    """Another model of the workspace than the agent's plan names."""
    extra_tools: Sequence[ExtraTool] = ()
    """Tools that the backend runs itself and that the model is offered as well. `call_tools` does not know them."""


@contract_value(frozen=True, slots=True)
class AgentAnswer:
    """How a subagent's run ended."""

    run_id: str
    ok: bool
    text: str
    """Its output, or why there is none."""
    output: Any = None
    """The output as it is stored: text, or the structured result of a workflow."""
    error: JsonObject | None = None
    """`{code, message}` of one that failed."""


@contract_value(frozen=True, slots=True)
class Skill:
    """The skill that the input's words chose."""

    name: str
    body: str
    tools: frozenset[str]
    """What it may use, which only ever narrows the agent's own."""


class Context(Protocol):
    """What the runtime lends to a backend for one run. Every call is recorded before it is seen."""

    @property
    def run_id(self) -> str: ...

    @property
    def thread_id(self) -> str: ...

    @property
    def agent(self) -> str: ...

    @property
    def input(self) -> Any: ...

    @property
    def workspace(self) -> CompiledWorkspace:
        """The compiled workspace that the run was accepted with; frozen."""
        ...

    @property
    def definition(self) -> CompiledAgent:
        """The agent as it is declared; frozen."""
        ...

    @property
    def request(self) -> RequestView: ...

    @property
    def instructions(self) -> str: ...

    @property
    def max_turns(self) -> int: ...

    @property
    def config(self) -> Mapping[str, Any]:
        """The agent's `config` for this backend."""
        ...

    @property
    def skill(self) -> Skill | None: ...

    @property
    def tools(self) -> frozenset[str]:
        """The names that may be called, subagents and the client's own tools included."""
        ...

    @property
    def tool_definitions(self) -> Mapping[str, ToolSpecView]:
        """The same by name, with their schemas."""
        ...

    @property
    def cancelled(self) -> bool:
        """Whether the run is to end. An upstream may swallow the exception that says so: look here afterwards."""
        ...

    @property
    def state(self) -> Any:
        """The document that the thread's last completed run of this agent left; None if there is none."""
        ...

    def set_state(self, value: Any) -> None:
        """Leave a JSON document for the thread's next run of this agent. The last call counts; it is stored when the
        run completes. A fork of the thread gets it as well; subagents have no state."""
        ...

    @property
    def history(self) -> Sequence[JsonObject]:
        """The messages of the thread's earlier completed runs, oldest first."""
        ...

    @property
    def memory(self) -> str:
        """What was recalled for this run, as text; it belongs after the history. Often empty."""
        ...

    @property
    def context_policy(self) -> ContextPolicy:
        """What of a long conversation the agent's model is to see."""
        ...

    @property
    def context_tokens(self) -> int | None:
        """What the messages of the next model call may come to, at bytes / 4; None when no model says."""
        ...

    async def emit(self, phase: str, **fields: Any) -> None:
        """Record a signal of the backend's own, `agent.*`. Returns when it is durable. Signals are matched by content
        when the backend is entered again, so that each is recorded once: leave out times and random ids."""
        ...

    async def say(self, message_id: str, text: str, part: int = 0) -> None:
        """Record a piece of the answer as it is made."""
        ...

    async def call_model(self, messages: Sequence[JsonObject], options: CallOptions = CallOptions()) -> ModelAnswer:
        """One completion with the agent's model and tools; raises `StepFailed` when no model answers."""
        ...

    async def steering(self, key: str | None = None) -> list[JsonObject]:
        """What was said to the run since the last model call, as messages for the next one.

        A backend whose branches run in parallel passes a key that names the place, such as a hash of the messages so
        far, so that re-entry returns the same ones there.
        """
        ...

    async def call_agent(self, name: str, given: Any, call_id: str | None = None) -> AgentAnswer:
        """A subagent's run, within this one's lease, slot and budget."""
        ...

    async def checkpoint(self, label: str, data: Any = None) -> None:
        """Name this point of the log."""
        ...

    async def go_on(self, turn: int, output: str) -> str | None:
        """Ask the Stop hooks for one more turn after this one. None, the default, ends the loop with its result;
        else it is what begins the next turn."""
        ...

    async def before_finalize(self, output: str) -> str | None:
        """Ask memory about an answer that is about to be given. None, the usual case, means that there is nothing new;
        else it is what the model should know before it answers. Asked once in a run."""
        ...

    async def may_compact(self, strategy: str, messages: int, tokens: int) -> str | None:
        """Ask the PreCompact hooks. None means no; else it is what a summary must keep, often nothing special."""
        ...

    async def compacted(
        self,
        strategy: str,
        before: tuple[int, int],
        after: tuple[int, int],
        summary: str | None = None,
        kept: int | None = None,
    ) -> None:
        """Record once that the conversation was shortened, with the number of messages and tokens before and after.

        `kept` messages of the history stay next to the summary; later runs of the agent get the same.
        """
        ...

    async def call_tools(self, calls: Sequence[CallRequest], tools: frozenset[str] | None = None) -> list[CallResult]:
        """Through the gate. A refused or failed call is a result that the model can act on.

        `tools` narrows what may be called, as it does in `CallOptions`. May be called several times at once; a call
        that has to wait for a person waits until the others have ended, and then raises `Suspended`.
        """
        ...

    async def step(
        self,
        key: str,
        effect: Effect,
        fn: Callable[[], Awaitable[Any]],
        *,
        tool: str | None = None,
        args: JsonObject | None = None,
    ) -> Any:
        """Run what the upstream does itself, once: a recorded result is returned without running it again.

        `key` names the step in this run, best by the id of the model's call. The result is JSON and is returned as it
        was stored. A failure is recorded as well and raised as `StepFailed`, also on re-entry. One that was cut off
        is repeated if it is `readonly` or `keyed`; an operator decides about an `unsafe` one. `tool` and `args` say
        what it is in the log and to the hooks; without a name it is known by its key.
        """
        ...

    async def artifact(self, name: str, mime: str, data: bytes | None = None, path: str | None = None) -> ArtifactRef:
        """Store content under a name, once. `path` is a file beneath the folder of the file tools."""
        ...

    async def ask(self, title: str, questions: Sequence[JsonObject], key: str | None = None) -> JsonObject:
        """Ask a person and wait, without a worker, for the answers. Found again by its key, else by its content."""
        ...


class Backend(Protocol):
    kind: str
    resume: Resume

    async def run(self, ctx: Context) -> Result: ...


@dataclass(frozen=True, kw_only=True)
class BackendKind(Kind):
    make: Callable[[], Backend]
    """Called once, when an agent first needs it. What it needs beyond that is imported here, not when it is listed."""
    needs_model: bool = True
    nodes_of: Callable[[CompiledAgent, CompiledWorkspace], frozenset[str] | None] | None = None
    """The nodes of the graph that an agent brings along; None where they cannot be known. May import and take long."""

"""The contract of workflow adapters: what walks the graph of a workflow that the core has resolved and checked.

An adapter gets a request and nothing else. It decides in which order steps run; what a step does, its retries and its
time limit are the request's: `work` runs a step, `record` stores how it ended. An adapter that is entered again after a
crash finds what the log has in `recorded`, in order, and begins none of it again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.value import mutable, value
from app.workspace.catalog import Kind
from app.workspace.compiled import CompiledWorkflow
from app.workspace.flow_graph import FlowGraph


@value(frozen=True, slots=True)
class Visit:
    """The n-th time that a node runs; counted from 1."""

    node: str
    number: int = 1

    @property
    def key(self) -> str:
        return f"{self.node}.{self.number}"


@value(frozen=True, slots=True)
class NodeRecord:
    """How a visit ended, as it is recorded."""

    visit: Visit
    output: Any = None
    error: JsonObject | None = None
    """`{code, message}` of a failed one."""
    label: str | None = None
    """What the node's router chose."""

    @property
    def failed(self) -> bool:
        return self.error is not None

    def shown(self) -> JsonObject:
        """As templates and routers see it: `nodes.plan.output`."""
        return {"error": self.error} if self.error is not None else {"output": self.output}


@mutable(slots=True)
class FlowValues:
    """What templates and routers may read: by node its newest visit, and how often each has run."""

    input: Any
    nodes: dict[str, JsonObject] = field(default_factory=dict)
    visits: dict[str, int] = field(default_factory=dict)
    last: str | None = None
    """The node that completed last."""

    def note(self, record: NodeRecord) -> None:
        self.nodes[record.visit.node] = record.shown()
        self.visits[record.visit.node] = record.visit.number
        self.last = record.visit.node

    def values(self) -> dict[str, Any]:
        return {"input": self.input, "nodes": self.nodes, "visits": self.visits}


class Waiting(BaseException):
    """The visit waits for a person or a timer. Other branches go on; then the adapter calls `WorkflowRequest.suspend`.

    No exception of the visit's own, so that no framework takes it for a failed step.
    """

    def __init__(self, interrupt_id: str) -> None:
        super().__init__(interrupt_id)
        self.interrupt_id = interrupt_id


class WorkflowRequest(Protocol):
    @property
    def workflow(self) -> CompiledWorkflow: ...

    @property
    def graph(self) -> FlowGraph: ...

    @property
    def input(self) -> Any: ...

    @property
    def recorded(self) -> Sequence[NodeRecord]:
        """The visits that had ended when the run was entered, in the order in which they ended."""
        ...

    async def work(self, visit: Visit, values: FlowValues) -> NodeRecord:
        """Run a step and its router. Raises `Waiting`, `Suspended`, or `StepFailed` for what ends the run."""
        ...

    async def record(self, records: Sequence[NodeRecord], cancelled: Sequence[Visit] = ()) -> list[NodeRecord]:
        """Store how visits ended, in this order and in one commit, before anything follows from it; as stored.

        `cancelled` are not needed any more: their questions and timers are closed.
        """
        ...

    def start_label(self, values: FlowValues) -> str | None:
        """What the router of START chooses."""
        ...

    async def suspend(self, interrupts: Sequence[str]) -> Exception | BaseException:
        """Record that nothing goes on before one of these is answered. What it returns is to be raised."""
        ...


class WorkflowAdapter(Protocol):
    kind: str

    async def run(self, request: WorkflowRequest) -> FlowValues:
        """Walk the graph to its end. A failed step without an edge for it raises `StepFailed`."""
        ...


@dataclass(frozen=True, kw_only=True)
class WorkflowAdapterKind(Kind):
    make: Callable[[], WorkflowAdapter]
    """Called once, when a workflow first needs it. What it needs beyond that is imported here."""


def failure_of(record: NodeRecord) -> Failure:
    error: Mapping[str, Any] = record.error or {}
    return Failure(error["code"], f"The step {record.visit.node} failed: {error['message']}")


def visits_exceeded(node: str, limit: int) -> Failure:
    message = f"The step {node} would run more than {limit} times; `cycles.maxVisits` is {limit}."
    return Failure("NODE_VISITS_EXCEEDED", message)

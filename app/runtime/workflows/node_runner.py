"""Runs the nodes of a graph on a run's context: attempts, time limits, routers, and the record of each visit.

Together with a `NodeWork`, which knows what a node does, this is the `WorkflowRequest` that an adapter walks. A visit
that has ended is a `runtime.step.completed` of the step `node`, in one commit with the signal `agent.node.completed`;
both are recorded once. Leaves to the adapter: which node is next.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final, Protocol

from app.backends.workflow_contract import FlowValues, NodeRecord, Visit
from app.core import json
from app.core.errors import Failure
from app.core.json import JsonObject, present
from app.core.suspend import Parked, Suspended
from app.events.catalog import Payload
from app.events.catalog.adapter import AdapterEvent, Signal
from app.events.catalog.builders import BuiltStepCompleted
from app.events.catalog.execution import StepCompleted
from app.events.catalog.interrupt import InterruptExpired
from app.runtime.run.calls_in_flight import CallsInFlight
from app.runtime.run.run_log import RunLog
from app.workspace.compiled import CompiledWorkflow
from app.workspace.flow_graph import FlowGraph

STEP: Final = "node"
"""What `runtime.step.completed` calls the end of a visit."""
COMPLETED: Final = "agent.node.completed"
FAILED: Final = "agent.node.failed"
CANCELLED: Final = "agent.node.cancelled"
MAX_OUTPUT_BYTES: Final = 1024 * 1024
"""Of one node's output; what is larger belongs into an artifact."""


class NodeFailed(Exception):
    """A node could not do its work. `repeatable` says whether another attempt can do no harm."""

    def __init__(self, failure: Failure, *, repeatable: bool = True) -> None:
        super().__init__(failure.message)
        self.failure, self.repeatable = failure, repeatable


class NodeWork(Protocol):
    """What the nodes of a graph do. Calls are keyed by the visit and the attempt, so that they are made once."""

    async def run(self, visit: Visit, attempt: int, values: FlowValues) -> Any:
        """The node's output. Raises `NodeFailed`, or `Waiting` for a person or a timer."""
        ...

    async def label(self, visit: Visit, output: Any, values: FlowValues) -> str | None:
        """What the node's router chooses; raises `StepFailed` if it cannot. Asked for nodes that did not fail."""
        ...

    def start_label(self, values: FlowValues) -> str | None:
        """What the router of START chooses."""
        ...

    def repeatable(self, node: str) -> bool:
        """Whether a node that was over its time may be tried again, though nobody knows what it has done."""
        ...


class NodeRunner:
    def __init__(
        self,
        workflow: CompiledWorkflow,
        graph: FlowGraph,
        given: Any,
        work: NodeWork,
        log: RunLog,
        calls: CallsInFlight,
    ) -> None:
        self.workflow, self.graph, self.input = workflow, graph, given
        self._work, self._log, self._calls = work, log, calls
        self.recorded = [
            _record(step["key"], step["result"]) for step in log.memo.steps.values() if step["step"] == STEP
        ]

    def start_label(self, values: FlowValues) -> str | None:
        return self._work.start_label(values)

    async def work(self, visit: Visit, values: FlowValues) -> NodeRecord:
        node, attempt = self.graph.nodes[visit.node], 0
        while True:
            attempt += 1
            try:
                output = await self._attempt(visit, attempt, values, node.timeout_seconds)
                break
            except NodeFailed as failed:
                if attempt >= node.attempts or not failed.repeatable:
                    error = {"code": failed.failure.code, "message": failed.failure.message}
                    return NodeRecord(visit, error=error)
                await asyncio.sleep(node.backoff_seconds * 2 ** (attempt - 1))
        return NodeRecord(visit, output, label=await self._work.label(visit, output, values))

    async def _attempt(self, visit: Visit, attempt: int, values: FlowValues, seconds: float | None) -> Any:
        try:
            async with asyncio.timeout(seconds) as limit:
                output = await self._work.run(visit, attempt, values)
        except TimeoutError:
            if not limit.expired():
                raise
            failure = Failure("NODE_TIMEOUT", f"The step {visit.node} did not finish within {seconds:g} seconds.")
            raise NodeFailed(failure, repeatable=self._work.repeatable(visit.node)) from None
        check_size(visit.node, output)
        return output

    async def record(self, records: Sequence[NodeRecord], cancelled: Sequence[Visit] = ()) -> list[NodeRecord]:
        payloads: list[Payload] = []
        for record in records:
            payloads += [_completed(record), self._signal(FAILED if record.failed else COMPLETED, record.visit, record)]
        payloads += [self._signal(CANCELLED, visit) for visit in cancelled]
        appended = await self._log.record(*payloads, *self._closed(cancelled))
        stored = [event for event in appended.events if event.type == StepCompleted.type]
        return [
            # What the recorder moved out of the event is as it was; what it redacted is not.
            _stored(event.payload_bytes) if b'"$blob"' not in event.payload_bytes else record
            for record, event in zip(records, stored, strict=True)
        ]

    def _closed(self, cancelled: Sequence[Visit]) -> list[InterruptExpired]:
        """Questions and timers of branches that are not needed any more. Those of subagents end with their runs."""
        keys = {key_of(visit) for visit in cancelled}
        found = [asked["interruptId"] for asked in self._log.memo.interrupts if asked.get("key") in keys]
        still = [one for one in found if one in self._log.control.asked]
        for one in still:
            del self._log.control.asked[one]
        return [InterruptExpired(interrupt_id=one) for one in still]

    def _signal(self, phase: str, visit: Visit, record: NodeRecord | None = None) -> AdapterEvent:
        kind = self._log.scope.actor.removeprefix("backend:")
        fields = {"workflowId": self.workflow.name, "nodeId": visit.node, "visit": visit.number}
        more = present({"label": record.label, "error": record.error}) if record is not None else {}
        return AdapterEvent(event=Signal.model_validate({"adapter": kind, "phase": phase, **fields, **more}))

    async def suspend(self, interrupts: Sequence[str]) -> BaseException:
        """Of a subworkflow the root run is suspended, when all its branches have come to an end."""
        await self._calls.quiet()
        await self._log.suspend()
        asked = self._log.control.asked
        background = all(asked.get(one) for one in interrupts)
        return Parked(interrupts[0]) if background and not self._log.is_root else Suspended(interrupts[0])


def check_size(node: str, output: Any, more: int = 0) -> int:
    """Of the output in bytes. `more` is that of the items before it."""
    size = len(json.canonical(output))
    if more + size > MAX_OUTPUT_BYTES:
        message = f"The output of the step {node} has {more + size} bytes; the limit is {MAX_OUTPUT_BYTES}."
        raise NodeFailed(Failure("NODE_OUTPUT_TOO_LARGE", message), repeatable=False)
    return size


def key_of(visit: Visit) -> str:
    """What a question or timer of a visit is found by."""
    return f"node:{visit.key}"


def _completed(record: NodeRecord) -> BuiltStepCompleted:
    result = {**record.shown(), **present({"label": record.label})}
    return BuiltStepCompleted(step=STEP, key=record.visit.key, result=result)


def _stored(payload_bytes: bytes) -> NodeRecord:
    """Not from the event's payload, which clients are shown: the nodes that follow may change what they get."""
    payload = json.loads(payload_bytes)
    return _record(payload["key"], payload["result"])


def _record(key: str, result: JsonObject) -> NodeRecord:
    node, _, number = key.rpartition(".")
    return NodeRecord(Visit(node, int(number)), result.get("output"), result.get("error"), result.get("label"))

"""Walks a compiled graph: the adapter `native`. Knows nothing of where the graph came from.

What it needs, and nothing else, is a `WorkflowRequest` (`backends/workflow_contract`):

- `graph`: nodes with join, attempts and time limits; edges with labels; how often a node may run;
- `recorded`: the visits that the log has, in order. They are applied first, so nothing that has ended begins again;
- `work(visit, values)`: does the work of a node and asks its router. Attempts and time limits are its concern. For a
  document's step, a phase of a cycle or anything else it is made of a `NodeWork` (`node_runner`). It may raise
  `Waiting`: then the other branches go on, and when nothing is left to do the run is suspended;
- `record(records, cancelled)`: stores how visits ended, and which ones a node with `join: any` left behind, before
  anything follows from it. The order of the log is the order in which the walk went on;
- `suspend(interrupts)`: nothing goes on before an answer.

Guarantees: a visit begins when `GraphState` says so; at most `MAX_PARALLEL` are at work at once; a failed node follows
its `failed` edges, else the run fails and everything under way is cancelled; `Suspended` of one branch lets the calls
of the others end. Leaves to others: events, hooks, results (`workflow_backend`).
"""

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any, Final

from app.backends.contract import StepFailed
from app.backends.workflow_contract import FlowValues, NodeRecord, Visit, Waiting, WorkflowAdapterKind, WorkflowRequest
from app.core.suspend import Suspended
from app.runtime.workflows.graph_state import GraphState, Moves

MAX_PARALLEL: Final = 64


class GraphExecutor:
    kind = "native"

    async def run(self, request: WorkflowRequest) -> FlowValues:
        return await _Walk(request).run()


class _Walk:
    def __init__(self, request: WorkflowRequest) -> None:
        self._request, self._state = request, GraphState(request.graph)
        self._values = FlowValues(request.input)
        self._ready: deque[Visit] = deque()
        self._tasks: dict[asyncio.Task[NodeRecord], Visit] = {}
        self._left: set[asyncio.Task[NodeRecord]] = set()
        """Tasks of cancelled visits that have not ended yet."""
        self._waiting: dict[str, str] = {}
        """By node: the interrupt that it waits for."""
        self._suspended: Suspended | None = None

    async def run(self) -> FlowValues:
        try:
            self._apply(self._state.start(self._request.start_label(self._values)))
            for record in self._request.recorded:
                self._values.note(record)
                self._apply(self._state.complete(record))
            self._ready = deque(self._state.active.values())  # those that began and did not end begin again
            while self._state.active:
                self._begin()
                if not self._tasks:
                    raise await self._request.suspend(self._open())
                await self._collect()
        finally:
            await self._end_all()
        return self._values

    def _open(self) -> list[str]:
        own = list(self._waiting.values())
        return own if self._suspended is None else [*own, str(self._suspended)]

    def _apply(self, moves: Moves) -> list[Visit]:
        for visit in moves.cancelled:
            self._waiting.pop(visit.node, None)
            if visit in self._ready:
                self._ready.remove(visit)
            for task in [task for task, of in self._tasks.items() if of == visit]:
                del self._tasks[task]
                task.cancel()
                self._left.add(task)
        self._ready += moves.started
        return moves.cancelled

    def _begin(self) -> None:
        while self._ready and self._suspended is None and len(self._tasks) < MAX_PARALLEL:
            visit = self._ready.popleft()
            work: Coroutine[Any, Any, NodeRecord] = self._request.work(visit, self._values)
            self._tasks[asyncio.create_task(work, name=f"node {visit.key}")] = visit

    async def _collect(self) -> None:
        """The visits that have ended, in the order in which they began: recorded together, then followed."""
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        records: list[NodeRecord] = []
        cancelled: list[Visit] = []
        failed: StepFailed | None = None
        for task in [task for task in self._tasks if task in done]:
            visit = self._tasks.pop(task, None)
            if visit is None:
                continue  # cancelled by one that ended with it
            try:
                record = task.result()
            except Waiting as waiting:
                self._waiting[visit.node] = waiting.interrupt_id
                continue
            except Suspended as suspended:
                self._suspended = self._suspended or suspended
                continue
            records.append(record)
            try:
                cancelled += self._apply(self._state.complete(record))
            except StepFailed as error:
                failed = error
                break
        if records:
            for stored in await self._request.record(records, cancelled):
                self._values.note(stored)
        if failed is not None:
            raise failed

    async def _end_all(self) -> None:
        left = {*self._tasks, *self._left}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)
        for task in left:
            if not task.cancelled():
                task.exception()  # the run ends for another reason


KIND: Final = WorkflowAdapterKind(name="native", make=GraphExecutor)

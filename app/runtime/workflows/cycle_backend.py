"""Executes the run of a cycle: its hooks, the facts of its start and end, and its phases as the nodes of a graph.

To the conductor it is a backend like any other, and the walk is the adapter's. Verdicts: `done` and `halted` complete
the run, `abort` fails it. Leaves to `phase_visit`: what happens in a phase.
"""

from collections.abc import Sequence
from typing import Any

from app.backends.contract import AgentAnswer, Context, Output, Resume, StepFailed
from app.backends.workflow_contract import FlowValues, NodeRecord, Visit, WorkflowAdapter
from app.core import json
from app.core.artifact import ArtifactRef
from app.core.decisions import Decision, Deny
from app.core.errors import Failure
from app.core.json import JsonObject, present
from app.core.schemas import SchemaRegistry
from app.events.catalog import Payload
from app.events.catalog.workflow import WorkflowAborted, WorkflowCompleted, WorkflowStarted
from app.policy.contract import Point
from app.runtime.run.child_request import ChildRequest
from app.runtime.run.context import RunContext
from app.runtime.workflows.cycle_graph import END_LABEL, cycle_graph
from app.runtime.workflows.cycle_ports import AgentTask
from app.runtime.workflows.cycle_state import CycleState, PhaseResult
from app.runtime.workflows.node_questions import NodeQuestions
from app.runtime.workflows.node_runner import NodeRunner
from app.runtime.workflows.phase_visit import PhaseVisit
from app.workspace.compiled import CompiledWorkflow
from app.workspace.compiled_cycles import CompiledCycle, WorkflowUnits


class ContextCycleRun:
    """A run's context as a cycle sees it: agents, facts, hooks, artifacts and people."""

    def __init__(self, ctx: RunContext) -> None:
        self._ctx, self._questions = ctx, NodeQuestions(ctx.log, ctx.calls)
        self.run_id, self.submitted_ms = ctx.run_id, ctx.submitted_ms

    async def perform(self, task: AgentTask) -> AgentAnswer:
        asked = ChildRequest(
            task.agent,
            task.input,
            task.key,
            instructions=task.instructions,
            tools=task.tools,
            writes=task.paths,
            metadata=task.metadata,
        )
        return await self._ctx.call_child(asked)

    async def record(self, payload: Payload) -> None:
        await self._ctx.record_once(payload)

    async def fire(self, point: Point, subject: JsonObject, key: str) -> tuple[Decision, JsonObject]:
        fired = await self._ctx.fire(point, subject, key)
        return fired.decision, fired.subject

    async def artifact(self, name: str, mime: str, data: bytes) -> ArtifactRef:
        return await self._ctx.artifact(name, mime, data)

    async def approve(self, title: str, show: Any, key: str) -> bool:
        if self._ctx.asks_nobody:
            return False
        more = present({"arguments": show, "submittedBy": self._ctx.submitted_by})
        answered = await self._questions.ask(Visit(key), "approval", title, **more)
        return not answered.get("expired") and answered["answer"]["decision"] == "approve"


class CycleWork:
    """What the nodes of a cycle's graph do. The state follows the records as they are stored, redacted and all."""

    def __init__(self, run: ContextCycleRun, units: WorkflowUnits, begun: CycleState, schemas: SchemaRegistry) -> None:
        self._run, self._units, self._state, self._schemas = run, units, begun, schemas
        self._applied = 0

    def resume(self, recorded: Sequence[NodeRecord]) -> None:
        """The visits that had ended when the run was entered."""
        for record in recorded:
            self._apply(record.visit.node, record.output)

    def _apply(self, phase: str, output: Any) -> None:
        self._state.apply(PhaseResult.of(phase, output))
        self._applied += 1

    def follow(self, values: FlowValues) -> CycleState:
        """The state after the visit that ended last."""
        if values.last is not None and sum(values.visits.values()) > self._applied:
            self._apply(values.last, values.nodes[values.last]["output"])
        return self._state

    async def run(self, visit: Visit, attempt: int, values: FlowValues) -> Any:
        state = self.follow(values).copy()
        return (await PhaseVisit(self._run, self._units, state, self._schemas).run()).document()

    async def label(self, visit: Visit, output: Any, values: FlowValues) -> str | None:
        return output.get("to") or END_LABEL

    def start_label(self, values: FlowValues) -> str | None:
        return None

    def repeatable(self, node: str) -> bool:
        return False


class CycleBackend:
    resume: Resume = "replay"

    def __init__(self, flow: CompiledWorkflow, cycle: str, adapter: WorkflowAdapter) -> None:
        self.kind, self._flow, self._cycle, self._adapter = adapter.kind, flow, cycle, adapter

    async def run(self, ctx: Context) -> Output:
        assert isinstance(ctx, RunContext), "the runtime's own context"
        units = ctx.workspace.units
        cycle = units.cycles[self._cycle]
        given = await self._start(ctx, cycle)
        state = CycleState.begin(cycle, units.phases, ctx.mode, given)
        work = CycleWork(ContextCycleRun(ctx), units, state, ctx.schemas)
        try:
            runner = NodeRunner(self._flow, cycle_graph(cycle), given, work, ctx.log, ctx.calls)
            work.resume(runner.recorded)
            values = await self._adapter.run(runner)
            work.follow(values)
            last = PhaseResult.of(state.phase, values.nodes[values.last or ""]["output"])
            output = _output(state, last)
            await self._complete(ctx, cycle, state, last.verdict or "done", last.reason, output)
        except StepFailed as failed:
            await self._abort(ctx, cycle, state, failed.failure)
            raise
        return Output(json.canonical(output).decode(), structured=True)

    def _about(self, cycle: CompiledCycle, **more: Any) -> JsonObject:
        return {"workflow": self._flow.name, "adapter": self.kind, "cycle": cycle.id, **more}

    async def _start(self, ctx: RunContext, cycle: CompiledCycle) -> Any:
        subject = self._about(cycle, mode=ctx.mode, input=ctx.input)
        fired = await ctx.fire(Point.WORKFLOW_START, subject)
        if isinstance(fired.decision, Deny):
            raise StepFailed(Failure("GATE_DENIED", f"A WorkflowStart hook denied the cycle: {fired.decision.reason}"))
        started = WorkflowStarted(
            workflow_id=self._flow.name,
            adapter=self.kind,
            cycle_id=cycle.id,
            phase_id=cycle.entry,
            mode=ctx.mode,
        )
        await ctx.record_once(started)
        return fired.subject["input"]

    async def _complete(
        self, ctx: RunContext, cycle: CompiledCycle, state: CycleState, verdict: Any, reason: str | None, output: Any
    ) -> None:
        subject = self._about(cycle, verdict=verdict, reason=reason, phase=state.phase, output=output)
        decision = (await ctx.fire(Point.WORKFLOW_COMPLETE, subject)).decision
        if isinstance(decision, Deny):
            raise StepFailed(Failure("GATE_DENIED", f"A WorkflowComplete hook denied the result: {decision.reason}"))
        completed = WorkflowCompleted(
            workflow_id=self._flow.name,
            adapter=self.kind,
            cycle_id=cycle.id,
            verdict=verdict,
            phase_id=state.phase,
            reason=reason,
        )
        await ctx.record_once(completed)

    async def _abort(self, ctx: RunContext, cycle: CompiledCycle, state: CycleState, failure: Failure) -> None:
        """The verdict is abort: the hooks learn of it, and nothing they say changes it."""
        if failure.code == "BACKEND_NOT_DETERMINISTIC":
            return  # a run that no longer follows its record must not add to it
        subject = self._about(cycle, verdict="abort", reason=failure.message, phase=state.phase, output=None)
        await ctx.fire(Point.WORKFLOW_COMPLETE, subject, "abort")
        aborted = WorkflowAborted(
            workflow_id=self._flow.name,
            cycle_id=cycle.id,
            phase_id=state.phase,
            code=failure.code,
            reason=failure.message[:2000],
        )
        await ctx.record_once(aborted)


def _output(state: CycleState, last: PhaseResult) -> JsonObject:
    """The result of the run: how the cycle ended, and what it gave."""
    return {
        "cycle": state.cycle.id,
        "verdict": last.verdict or "done",
        **present({"reason": last.reason}),
        "phase": last.phase,
        "visited": list(state.visited),
        "generations": state.generation,
        "output": last.output,
        **present({"review_aggregate": state.aggregate}),
        "artifacts": list(state.artifacts),
    }

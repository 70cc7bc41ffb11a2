"""Executes the run of a workflow: its hooks, the facts of its start and end, its adapter, its result.

To the conductor it is a backend like any other. Leaves to the adapter: the walk; to `document_work`: the steps.
"""

from collections.abc import Mapping
from typing import Any, Final

from app.backends.contract import Context, Output, Resume, StepFailed
from app.backends.workflow_contract import FlowValues, WorkflowAdapter
from app.core import json
from app.core.decisions import Deny
from app.core.errors import Failure
from app.core.json import JsonObject
from app.events.catalog.workflow import WorkflowAborted, WorkflowCompleted, WorkflowStarted
from app.policy.contract import Point
from app.runtime.run.context import RunContext
from app.runtime.workflows.cycle_backend import CycleBackend
from app.runtime.workflows.document_work import DocumentWork
from app.runtime.workflows.node_runner import NodeRunner, NodeWork
from app.runtime.workflows.spec_driven import SpecDrivenWork
from app.workspace.compiled import CompiledWorkflow

_DENIED: Final = "WORKFLOW_DENIED"


class WorkflowBackend:
    resume: Resume = "replay"

    def __init__(self, flow: CompiledWorkflow, adapter: WorkflowAdapter) -> None:
        self.kind, self._flow, self._adapter = adapter.kind, flow, adapter

    async def run(self, ctx: Context) -> Output:
        assert isinstance(ctx, RunContext), "the runtime's own context"
        name, flow = self._flow.name, self._flow
        subject = {"workflow": name, "adapter": self.kind, "input": ctx.input}
        given = (await _permitted(ctx, Point.WORKFLOW_START, subject))["input"]
        await ctx.record_once(WorkflowStarted(workflow_id=name, adapter=self.kind))
        try:
            runner = NodeRunner(flow, flow.graph, given, _work(flow, ctx), ctx.log, ctx.calls)
            result = self._result(await self._adapter.run(runner))
            await _permitted(ctx, Point.WORKFLOW_COMPLETE, {"workflow": name, "adapter": self.kind, "output": result})
        except StepFailed as failed:
            reason = f"{failed.failure.code}: {failed.failure.message}"
            await ctx.record_once(WorkflowAborted(workflow_id=name, reason=reason))
            raise
        await ctx.record_once(WorkflowCompleted(workflow_id=name, adapter=self.kind))
        text = result if isinstance(result, str) else json.canonical(result).decode()
        return Output(text, structured=not isinstance(result, str))

    def _result(self, values: FlowValues) -> Any:
        """What `result` says, else the output of the step that ended last."""
        result: Any
        if self._flow.result is not None:
            result = self._flow.result.fill(values.values())
            if isinstance(result, Failure):
                raise StepFailed(Failure("WORKFLOW_RESULT_MISSING", f"The result cannot be made: {result.message}."))
        else:
            last = values.nodes.get(values.last or "", {})
            result = last.get("output")
        validator = self._flow.output_validator
        issues = validator.issues(result) if validator is not None else ()
        if issues:
            message = f"The result breaks the `output` schema: {issues[0].path or '/'}: {issues[0].message}."
            raise StepFailed(Failure("WORKFLOW_OUTPUT_INVALID", message))
        return result


def _work(flow: CompiledWorkflow, ctx: RunContext) -> NodeWork:
    return SpecDrivenWork(flow, ctx) if flow.phases else DocumentWork(flow, ctx)


async def _permitted(ctx: RunContext, point: Point, subject: JsonObject) -> JsonObject:
    """The subject as the hooks leave it."""
    fired = await ctx.fire(point, subject)
    if isinstance(fired.decision, Deny):
        raise StepFailed(Failure(_DENIED, f"A hook denied it at {point}: {fired.decision.reason}"))
    return fired.subject


class WorkflowBackends:
    """Makes what executes a workflow, by the adapter that it names."""

    def __init__(self, adapters: Mapping[str, WorkflowAdapter]) -> None:
        self._adapters = adapters

    def __call__(self, flow: CompiledWorkflow) -> WorkflowBackend | CycleBackend | Failure:
        adapter = self._adapters.get(flow.spec.adapter)
        if adapter is None:
            message = f"The workflow adapter {flow.spec.adapter!r} is not available on this server."
            return Failure("ADAPTER_NOT_AVAILABLE", message)
        if flow.spec.cycle is not None:
            return CycleBackend(flow, flow.spec.cycle, adapter)
        return WorkflowBackend(flow, adapter)

"""Runs by no agent: one tool that a client asked for, and the undo of another run. Both pass the same gate.

Leaves to the conductor: how a failure ends the run; to `undo_run`: the actions of an undo.
"""

from collections.abc import Sequence
from typing import Any

from app.events.catalog import Payload, request, tool
from app.events.envelope import Event
from app.events.recorder import Scope
from app.models.router import error_value
from app.runtime.run.approvals import Approvals, session_grants, with_session_controls
from app.runtime.run.control import Control
from app.runtime.run.inlined import stored_blobs
from app.runtime.run.memo import Memo
from app.runtime.run.rerun_check import RerunCheck
from app.runtime.run.run_artifacts import RunArtifacts
from app.runtime.run.run_hooks import RunHooks
from app.runtime.run.run_log import RunLog
from app.runtime.run.steps.run_scope import RunServices
from app.runtime.run.tool_calls import ToolCalls, ToolPorts
from app.runtime.run.toolsets import Toolset
from app.runtime.run.undo_run import UndoRun, planned
from app.runtime.run.undo_tools import undo_registry
from app.tools.contract import CallScope, ToolRequest
from app.tools.gateway import Gateway
from app.views.run import Run


class DirectRuns:
    def __init__(self, services: RunServices) -> None:
        self._services = services

    async def run(
        self, run: Run, scope: Scope, control: Control, toolset: Toolset, family: Sequence[Event]
    ) -> list[Payload]:
        """The run's last events."""
        act = self._call_tool if run.undo_of is None else self._undo
        return await act(run, scope, control, toolset, family)

    async def _call_tool(
        self, run: Run, scope: Scope, control: Control, toolset: Toolset, family: Sequence[Event]
    ) -> list[Payload]:
        """A direct request for a tool: the same gate as an agent's calls, by no agent."""
        name, asked = run.tool or "", family[0].payload
        calls, run_log = self._direct_calls(
            run,
            scope,
            control,
            toolset,
            family,
            toolset.gateway,
            with_session_controls(
                CallScope(run.id, frozenset({name}), scope.tenant, direct=True), asked, toolset.gateway.registry
            ),
        )
        memo, arguments = run_log.memo, asked.get("input")
        call = ToolRequest(f"call_{run.id}", name, arguments if isinstance(arguments, dict) else None)
        outcome = (await calls.outcomes([call]))[0]
        if outcome.error is not None:
            return [request.RequestFailed(error=error_value(outcome.error))]
        await run_log.pause_if_asked()
        reported = any(event.type == tool.ToolDirectCompleted.type for event in family)
        if call.id in memo.results and not reported:
            await run_log.record(tool.ToolDirectCompleted(tool_id=name, output=outcome.output, call_id=call.id))
        return [request.RequestCompleted(output=outcome.output)]

    async def _undo(
        self, run: Run, scope: Scope, control: Control, toolset: Toolset, family: Sequence[Event]
    ) -> list[Payload]:
        """Takes the effects of another run back: each action passes the same gate as an agent's calls."""
        plan = planned(family)
        names = frozenset(action["compensation"] for action in plan["actions"])
        gateway = toolset.gate(undo_registry(toolset.gateway.registry, names))
        wanted = with_session_controls(CallScope(run.id, names, scope.tenant), family[0].payload, gateway.registry)
        calls, run_log = self._direct_calls(
            run, scope, control, toolset, family, gateway, wanted, agent=plan.get("agent")
        )
        return await UndoRun(run_log, calls, plan, family).carry_out()

    def _direct_calls(
        self,
        run: Run,
        scope: Scope,
        control: Control,
        toolset: Toolset,
        family: Sequence[Event],
        gateway: Gateway,
        wanted: CallScope,
        agent: str | None = None,
    ) -> tuple[ToolCalls, RunLog]:
        """The tool calls of a run by no agent; `agent` is whose hooks are asked nevertheless."""
        services, memo = self._services, Memo.of(run.id, family)
        person_ms = int(toolset.workspace.runtime.interrupts.expires_seconds * 1000)
        replay = family[0].payload.get("replay")
        rerun_check = RerunCheck(replay, memo) if replay else None
        run_log = RunLog(
            services.recorder, scope, memo, control, services.clock, person_ms=person_ms, rerun_check=rerun_check
        )

        async def put(data: bytes, mime: str) -> dict[str, Any]:
            return await services.blobs.put(scope.tenant, scope.thread_id, data, mime)

        load = stored_blobs(services.reader, scope.tenant, scope.thread_id)
        hooks = RunHooks(toolset.hooks, run_log, agent, family, load)
        artifacts = RunArtifacts(run_log, services.reader, services.files)
        hook = hooks.of_a_call if hooks.concern_tools else None
        grants = session_grants(services.reader, scope.tenant, scope.thread_id)
        approvals = Approvals(run_log, grants, who="the caller", submitted_by=family[0].actor)
        lent = ToolPorts(put, load, approvals.approve, hook=hook, artifact=artifacts.of_a_tool)
        return ToolCalls(run_log, gateway, wanted, lambda: lent), run_log

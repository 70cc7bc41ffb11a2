"""Conducts a claimed run: brings together what it needs, walks its steps, says how it ended.

Leaves to others: who may run it and when (the executor), what each step does (steps), what a backend may do (context).
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import structlog

from app.backends.contract import Backend, StepFailed
from app.core import json
from app.core.artifact import ArtifactRef
from app.core.errors import Failure, HoldfastError
from app.core.json import present
from app.core.suspend import Parked
from app.events.catalog import Payload, artifact, memory, model, request, skill, thread
from app.events.catalog.builders import BuiltRequestCompleted
from app.events.catalog.job import JobStarted
from app.events.catalog.values import ArtifactValue, ErrorValue
from app.events.envelope import Event
from app.events.ports import StoreError
from app.events.recorder import Scope
from app.models.router import error_value
from app.policy.contract import About
from app.runtime.run.budgets import NOTHING_USED, RunBudget, Used
from app.runtime.run.child_request import ChildRequest
from app.runtime.run.children import ask_agent, ceiling_of, run_child
from app.runtime.run.control import Control
from app.runtime.run.direct_runs import DirectRuns
from app.runtime.run.histories import Histories
from app.runtime.run.inlined import Load, inline, stored_blobs
from app.runtime.run.memo import Memo
from app.runtime.run.rerun_check import RerunCheck
from app.runtime.run.run_guardrails import GuardrailBlocked, RunGuardrails
from app.runtime.run.run_hooks import RunHooks
from app.runtime.run.run_log import CutOff, RunLog, Superseded
from app.runtime.run.steps import RunScope, RunServices, Step, steps_for
from app.runtime.run.toolsets import Toolset, Toolsets
from app.runtime.workspaces import WorkspaceHistory
from app.views.run import Run
from app.workspace.compiled import CompiledAgent, CompiledWorkflow, CompiledWorkspace
from app.workspace.specs.base import Limits

_PAGE: Final = 1000
_QUEUED: Final = request.RequestQueued.type

MakeWorkflowBackend = Callable[[CompiledWorkflow], Backend | Failure | None]
"""What executes a workflow; None or a failure if its adapter cannot be used."""

log = structlog.get_logger("holdfast.conductor")


class Conductor:
    def __init__(
        self,
        services: RunServices,
        backends: Mapping[str, Backend],
        workspaces: WorkspaceHistory,
        toolsets: Toolsets,
        workflow_backend: MakeWorkflowBackend | None = None,
    ) -> None:
        self._services, self._backends, self._workspaces = services, backends, workspaces
        self._workflow_backend = workflow_backend
        self._toolsets = toolsets
        self._ask_agent, self._child = partial(ask_agent, self._run_child), partial(run_child, self._run_child)
        self._histories, self._direct = Histories(services.reader), DirectRuns(services)

    def run(
        self, run: Run, scope: Scope, control: Control, events: list[Event] | None = None
    ) -> Awaitable[list[Payload]]:
        """The run's last events: what it made, and how it ended. `Suspended` passes through."""
        return self._walk(self._entered(run, scope, control, events))

    async def _entered(
        self, run: Run, scope: Scope, control: Control, events: list[Event] | None
    ) -> RunScope | list[Payload]:
        """What the steps work on; the run's last events if it needs none."""
        if run.cancel_requested_at is not None or control.cancelled.is_set:
            return [request.RequestCancelled(by=scope.actor)]
        workspace = self._workspaces.cached(run.workspace_digest) or await self._workspaces.of(run.workspace_digest)
        if workspace is None:
            return [_failed(Failure("WORKSPACE_GONE", "The workspace of this run cannot be compiled any more."))]
        toolset = self._toolsets.cached(workspace) or await self._toolsets.of(workspace)
        if isinstance(toolset, Failure):
            return [_failed(toolset)]
        # Whose thread is known without reading it has just been accepted, and nothing was done for it yet.
        new = events is not None
        family = _of_new_run(run, events) if events else await self._read_family(scope, run)
        if not new:
            control.note_stored(run.id, family)
        if run.tool is not None or run.undo_of is not None:
            control.replays = True
            try:
                return await self._direct.run(run, scope, control, toolset, family)
            except (Exception, CutOff) as error:
                return _ended_by(error, run)
        before = await self._histories.before(run, scope.tenant, family, events)
        run_scope = await self._open_scope(run, scope, control, toolset, family, before.messages, new=new)
        if isinstance(run_scope, Failure):
            return [_failed(run_scope)]
        run_scope.brought, run_scope.state = before.brought, before.state
        control.replays = run_scope.backend.resume == "replay"
        return run_scope

    def _run_child(self, run: Run, scope: Scope, parent: RunScope, asked: ChildRequest) -> Awaitable[list[Payload]]:
        return self._walk(self._entered_child(run, scope, parent, asked))

    async def _entered_child(
        self, run: Run, scope: Scope, parent: RunScope, asked: ChildRequest
    ) -> RunScope | list[Payload]:
        control, toolset = parent.log.control, parent.toolset
        run_scope = await self._open_scope(run, scope, control, toolset, parent.family, (), parent, asked)
        if isinstance(run_scope, Failure):
            return [_failed(run_scope)]
        # A workflow passes its steps to agents that have tools of their own, as a request for the agent would; one that
        # an agent's run began uses no more than the agent.
        run_scope.ceiling = parent.ceiling if parent.workflow is not None else ceiling_of(parent, run.agent or "")
        run_scope.writes = parent.writes if asked.writes is None else asked.writes
        if asked.tools is not None:
            run_scope.ceiling = asked.tools if run_scope.ceiling is None else run_scope.ceiling & asked.tools
            run_scope.agent = replace(run_scope.agent, subagents=(), skills=())
        return run_scope

    # -- bringing together ---------------------------------------------------------------------------

    async def _read_family(self, scope: Scope, run: Run) -> list[Event]:
        """A run that nobody entered before has no subagents yet: its own events are all there is."""
        reader, load, tenant = self._services.reader, self._blobs(scope), scope.tenant
        events: list[Event] = []
        after, full = run.first_seq - 1, True
        while full:
            if run.started_at is None:
                page = await reader.run_events(tenant, run.id, after, _PAGE)
            else:
                page = await reader.events(tenant, run.thread_id, after, _PAGE)
            events += [await inline(event, load) for event in page]
            after, full = page[-1].seq if page else after, len(page) == _PAGE
        return _family(run, events)

    def _blobs(self, scope: Scope) -> Load:
        return stored_blobs(self._services.reader, scope.tenant, scope.thread_id)

    async def _open_scope(
        self,
        run: Run,
        scope: Scope,
        control: Control,
        toolset: Toolset,
        family: Sequence[Event],
        before: Sequence[dict[str, Any]],
        parent: RunScope | None = None,
        child: ChildRequest | None = None,
        *,
        new: bool = False,
    ) -> RunScope | Failure:
        workspace = toolset.workspace
        agent = workspace.acting(run.agent, run.workflow)
        backend = self._backend(workspace, run, agent)
        if agent is None or isinstance(backend, Failure):
            return backend if isinstance(backend, Failure) else _not_available(run)
        memo = Memo()
        if not new:
            entered = request.RequestResumed.type if parent is None else request.RequestStarted.type
            resumed = any(event.run_id == run.id and event.type == entered for event in _of_attempt(run, family))
            if resumed and backend.resume == "fail":
                return Failure("BACKEND_CANNOT_RESUME", f"The backend {backend.kind!r} cannot resume a run.")
            memo = Memo.of(run.id, family)
            if backend.resume != "replay":
                memo = Memo(handed_over=memo.handed_over)
        first = family[0] if new and family else next((e for e in family if e.run_id == run.id), None)
        asked: Mapping[str, Any] = {"input": run.input} if first is None else first.payload
        if parent is not None:
            # Whatever a conversation asks for holds down the whole line of subagents.
            held = {name: parent.asked.get(name) for name in ("approvalPolicy", "mode", "sessionLimits")}
            asked = {**asked, **(child.asked() if child is not None else {}), **held}
        used = NOTHING_USED if new else _used(run, memo, family, parent)
        budget = await self._budget(scope, asked, toolset, agent, used, parent)
        run_log = RunLog(
            self._services.recorder,
            Scope(scope.tenant, scope.thread_id, scope.run_id, f"backend:{backend.kind}", scope.fence),
            memo,
            control,
            self._services.clock,
            root_run_id=parent.root_run_id if parent else run.id,
            person_ms=toolset.setup_of(agent).person_ms,
            over_time=budget.over_time,
            rerun_check=RerunCheck(asked["replay"], memo) if asked.get("replay") else None,
        )
        load = self._blobs(scope)
        guardrails = self._guardrails(toolset, agent, run_log, asked, family)
        return RunScope(
            self._services,
            run,
            asked,
            workspace,
            agent,
            backend,
            toolset,
            run_log,
            budget,
            before,
            family,
            _own(asked.get("input")),
            self._ask_agent,
            self._child,
            RunHooks(toolset.hooks, run_log, agent.name, family, load),
            load,
            self._former_scope,
            guardrails,
            depth=parent.depth + 1 if parent else 0,
            root_run_id=parent.root_run_id if parent else run.id,
            workflow=workspace.workflows.get(run.workflow) if run.workflow is not None else None,
        )

    def _guardrails(
        self, toolset: Toolset, agent: CompiledAgent, run_log: RunLog, asked: Mapping[str, Any], family: Sequence[Event]
    ) -> RunGuardrails | None:
        rules, scope = toolset.guardrails.of(agent.name), run_log.scope
        if rules is None:
            return None
        return RunGuardrails(
            rules,
            self._services.secrets,
            run_log,
            About(run_log.run_id, scope.thread_id, scope.tenant, agent.name),
            family,
            self._blobs(scope),
            submitted_by=family[0].actor if family else None,
            ask_nobody=asked.get("approvalPolicy") == "never",
        )

    async def _former_scope(self, run_scope: RunScope, digest: str) -> RunScope | Failure:
        """The request, log and budget of this run; agent, tools, models, hooks and rules as they were then."""
        workspace = await self._workspaces.of(digest)
        if workspace is None:
            return Failure(
                "WORKSPACE_GONE", f"The workspace {digest} was never used here, or does not compile any more."
            )
        toolset = await self._toolsets.of(workspace)
        if isinstance(toolset, Failure):
            return toolset
        name, run_log, family = run_scope.agent.name, run_scope.log, run_scope.family
        agent = workspace.acting(name)
        backend = self._backends.get(agent.spec.backend) if agent is not None else None
        if agent is None or backend is None:
            return Failure("BACKEND_NOT_AVAILABLE", f"The workspace {digest} has no agent {name!r} that can run here.")
        return replace(
            run_scope,
            workspace=workspace,
            agent=agent,
            backend=backend,
            toolset=toolset,
            hooks=RunHooks(toolset.hooks, run_log, name, family, run_scope.load),
            guardrails=self._guardrails(toolset, agent, run_log, run_scope.asked, family),
            skill=None if run_scope.skill is None else workspace.skills.get(run_scope.skill.name),
            state=None,
            tools=None,
            context=None,
            models=None,
            output=None,
        )

    def _backend(self, workspace: CompiledWorkspace, run: Run, agent: CompiledAgent | None) -> Backend | Failure:
        if run.workflow is not None:
            flow = workspace.workflows.get(run.workflow)
            made = self._workflow_backend(flow) if flow is not None and self._workflow_backend is not None else None
            return made or _not_available(run)
        return (self._backends.get(agent.spec.backend) if agent is not None else None) or _not_available(run)

    async def _budget(
        self,
        scope: Scope,
        asked: Mapping[str, Any],
        toolset: Toolset,
        agent: CompiledAgent,
        used: Used,
        parent: RunScope | None,
    ) -> RunBudget:
        setup = toolset.setup_of(agent)
        fixed = setup.limits if parent is None else agent.spec.limits
        requested = Limits.model_validate(asked["limits"]) if asked.get("limits") else None
        return await self._services.budgets.of(
            scope.tenant, fixed, requested, used, setup.daily, parent.budget if parent else None
        )

    # -- walking -------------------------------------------------------------------------------------

    async def _walk(self, entering: Awaitable[RunScope | list[Payload]]) -> list[Payload]:
        run_scope = await entering
        if not isinstance(run_scope, RunScope):
            return run_scope
        try:
            for step in self._steps_of(run_scope):
                await step(run_scope)
            ending = _completed(run_scope)
        except Parked:
            run_scope.log.hold_opening()
            await run_scope.log.suspend()
            raise
        except (Exception, CutOff) as error:
            ending = _ended_by(error, run_scope.run)
        finally:
            run_scope.log.hold_opening()
            run_scope.tools = run_scope.context = run_scope.models = run_scope.memory_access = (
                None  # their ports refer to the scope: without the cycle, memory is freed at once
            )
        if run_scope.skill is None:
            return ending
        ok = ending[-1].type == request.RequestCompleted.type
        return [skill.SkillCompleted(skill=run_scope.skill.name, ok=ok), *ending]

    def _steps_of(self, run_scope: RunScope) -> tuple[Step, ...]:
        kept, agent = run_scope.toolset.steps, run_scope.agent
        steps = kept.get(agent.name)
        if steps is None:
            steps = kept[agent.name] = steps_for(self._services, run_scope.toolset, agent)
        return steps


def _ended_by(error: Exception | CutOff, run: Run) -> list[Payload]:
    """How a run ends whose work raised the error. A broken store or a lost lease is nobody's ending."""
    if isinstance(error, CutOff):
        raise error.cause from error
    if isinstance(error, Superseded | StoreError):
        raise error
    if isinstance(error, GuardrailBlocked):
        if error.reply is None:
            return [_failed(error.failure)]
        ended = {"output": error.reply, "metadata": {"guardrail": error.rule}}
        return [request.RequestCompleted.unchecked(ended)]
    if isinstance(error, StepFailed):
        return [_failed(error.failure)]
    log.exception("run.backend_failed", run=run.id)
    if isinstance(error, HoldfastError):
        # An invariant that has a name, such as a schema that is not there: the run says which.
        return [_failed(error.failure)]
    return [_failed(Failure("BACKEND_FAILED", f"The backend raised {type(error).__name__}."))]


def _own(value: Any) -> Any:
    """The same for a backend, which may change what it gets: the payload of an event is what clients are shown."""
    return value if value is None or isinstance(value, str) else json.loads(json.dumps(value))


def _of_new_run(run: Run, events: Sequence[Event]) -> list[Event]:
    """The events of a run that nothing was done for yet: it has no subagents."""
    run_id, first = run.id, run.first_seq
    return [event for event in events if event.run_id == run_id and event.seq >= first]


def _family(run: Run, events: Sequence[Event]) -> list[Event]:
    """The events of the run and of its subagents, from its first event on."""
    ids = {run.id}
    family: list[Event] = []
    for event in events:
        if event.seq < run.first_seq or event.run_id is None:
            continue
        if event.type == _QUEUED and event.payload.get("parentRunId") in ids:
            ids.add(event.run_id)
        if event.run_id in ids:
            family.append(event)
    return family


def _of_attempt(run: Run, family: Sequence[Event]) -> Sequence[Event]:
    """What happened in the newest attempt of a job; of any other run, everything."""
    begun = [n for n, event in enumerate(family) if event.type == JobStarted.type and event.run_id == run.id]
    return family[begun[-1] :] if begun else family


def _used(run: Run, memo: Memo, family: Sequence[Event], parent: RunScope | None) -> Used:
    """What the family has used counts for its root; a subagent's own limits count what it used itself."""
    usage = run_usage(family) if parent is None else run.usage
    return Used(
        usage["inputTokens"] + usage["outputTokens"],
        usage["costUsd"],
        len(memo.answers),
        memo.worked_ms,
    )


_PAID: Final = frozenset({model.ModelCompleted.type, memory.MemoryEmbeddingCompleted.type})


def run_usage(family: Iterable[Event]) -> dict[str, Any]:
    """What a root run and its subagents have used together."""
    whole = Run("", "")
    for event in family:
        if event.type in _PAID:
            whole.apply(event)
    return whole.usage


def _completed(run_scope: RunScope) -> list[Payload]:
    output = run_scope.output
    assert output is not None
    made: list[Payload] = []
    if run_scope.left_state is not None and run_scope.depth == 0:
        made.append(thread.ThreadStateSaved(agent=run_scope.agent.name, state=run_scope.left_state))
    if not output.metadata and not output.parts and not output.artifacts and not output.structured:
        return [*made, BuiltRequestCompleted(output=output.text, message_id=output.message_id)]
    refs: list[str] = []
    for one in output.artifacts:
        if isinstance(one, Mapping):
            value = ArtifactValue.model_validate(one)
            made.append(artifact.ArtifactCreated(artifact=value))
            refs.append(value.id)
        else:
            assert isinstance(one, ArtifactRef)  # what was to be stored is stored by now
            refs.append(one.id)
    ended = {
        "messageId": output.message_id,
        "metadata": dict(output.metadata) or None,
        "parts": [dict(part) for part in output.parts] or None,
        "artifacts": refs or None,
    }
    answered = _structured(output.text) if output.structured else output.text
    return [*made, request.RequestCompleted.unchecked({"output": answered, **present(ended)})]


def _structured(text: str) -> Any:
    """The value of a structured answer; its text, if a guardrail left something else of it than JSON."""
    try:
        return json.loads(text)
    except json.JsonError:
        return text


def _not_available(run: Run) -> Failure:
    if run.workflow is not None:
        return Failure("ADAPTER_NOT_AVAILABLE", f"The workflow {run.workflow!r} or its adapter is not available here.")
    return Failure("BACKEND_NOT_AVAILABLE", f"The agent {run.agent!r} or its backend is not available on this server.")


def _failed(failure: Failure) -> request.RequestFailed:
    error: ErrorValue = error_value(failure)
    return request.RequestFailed(error=error)

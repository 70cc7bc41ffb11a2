"""The runtime over an open store: everything that a server needs, without the web."""

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any

from app.backends.contract import Backend
from app.backends.workflow_contract import WorkflowAdapter
from app.bus.replicas import Replicas
from app.core.clock import Clock, CorrectedClock
from app.core.metrics import Metrics
from app.core.settings import Settings
from app.core.value import value
from app.evals.declared import Gates
from app.evals.judges import Judges
from app.evals.services import EvalServices
from app.evals.shadow import ShadowGates
from app.events.ports import StorageFull
from app.extensions.actions import ExtensionActions
from app.extensions.intents import ActionIntents
from app.extensions.registry import ExtensionRegistry
from app.memory.maintenance import Maintenance
from app.memory.service import MemoryService
from app.models.router import ModelRouter
from app.outside.sandbox_report import SandboxReport
from app.policy.personal_data import without_personal_data
from app.policy.redaction import CurrentRedaction
from app.protocols.auth.access import Access
from app.protocols.telemetry.setup import telemetry
from app.protocols.telemetry.trace_scope import InTrace
from app.runtime.automation.job_reports import JobReports
from app.runtime.intake.amendments import AmendmentDesk
from app.runtime.intake.commands import Commands
from app.runtime.intake.embedding_desk import EmbeddingDesk
from app.runtime.intake.interrupts import InterruptAnswers
from app.runtime.intake.keys import Keys
from app.runtime.intake.ledger import LEDGER_THREAD
from app.runtime.intake.lifecycle import Lifecycle
from app.runtime.intake.mcp_logins import McpLogins
from app.runtime.intake.memory_desk import MemoryDesk
from app.runtime.intake.reruns import Reruns
from app.runtime.intake.service import Service
from app.runtime.intake.skill_desk import SkillDesk
from app.runtime.intake.threads import Threads
from app.runtime.intake.undo import Undo
from app.runtime.run.conductor import Conductor
from app.runtime.run.toolsets import Toolsets
from app.runtime.schedule.effective_settings import EffectiveSettings
from app.runtime.schedule.executor import Conduct, Executor
from app.runtime.schedule.queue import FairQueue
from app.runtime.workflows.workflow_backend import WorkflowBackends
from app.runtime.workspace_in_force import WorkspaceInForce
from app.runtime.workspaces import CurrentWorkspace, WorkspaceHistory
from app.store.files import FileStore
from app.store.judgements import DueEvaluationTable, JudgementTable
from app.wiring.automation import Automation, open_automation
from app.wiring.background import working
from app.wiring.evals import open_evals
from app.wiring.extensions import make_actions, open_extensions
from app.wiring.foundation import Foundation, open_foundation
from app.wiring.intake import build_intake
from app.wiring.kinds import (
    Backends,
    WorkflowAdapters,
    installed_backends,
    kind_catalog,
    workflow_adapters,
)
from app.wiring.memory import (
    candidate_decision,
    make_maintenance,
)
from app.wiring.replicas import joined
from app.wiring.run_parts import RunParts, open_run_parts
from app.wiring.store import Store


@value(frozen=True, slots=True)
class Holdfast:
    """Everything a server needs."""

    store: Store
    workspace: CurrentWorkspace
    history: WorkspaceHistory
    backends: Mapping[str, Backend]
    adapters: Mapping[str, WorkflowAdapter]
    router: ModelRouter
    service: Service
    lifecycle: Lifecycle
    commands: Commands
    reruns: Reruns
    undo: Undo
    threads: Threads
    amendments: AmendmentDesk
    interrupts: InterruptAnswers
    memory: MemoryService
    memory_desk: MemoryDesk
    embedding_desk: EmbeddingDesk
    maintenance: Maintenance
    skills: SkillDesk
    executor: Executor
    metrics: Metrics
    toolsets: Toolsets
    access: Access
    keys: Keys
    clock: Clock
    files: FileStore
    effective: EffectiveSettings
    sandbox: SandboxReport
    replicas: Replicas | None
    """The other servers on the same Postgres; None with SQLite."""
    gates: Gates
    shadow: ShadowGates
    evals: EvalServices
    automation: Automation
    extensions: ExtensionRegistry
    mcp_logins: McpLogins


@contextlib.asynccontextmanager
async def open_holdfast(
    settings: Settings,
    *,
    clock: Clock | None = None,
    backends: Mapping[str, Backend] | None = None,
    adapters: Mapping[str, WorkflowAdapter] | None = None,
    redaction: CurrentRedaction | None = None,
    bootstrap_token: str | None = None,
) -> AsyncIterator[Holdfast]:
    """`backends` replaces the kinds that ship, for whoever embeds the server with its own; `adapters` are workflow
    adapters in addition to those that ship.

    `redaction` is given by whoever also cleans something else by it, such as the process's log. `bootstrap_token` is
    given to workers that share a port, so that each of them accepts it.
    """
    kinds = backends or Backends(installed_backends())
    workflows = WorkflowAdapters(workflow_adapters(), adapters)
    clock, redaction = CorrectedClock(clock), redaction or CurrentRedaction()
    catalog = kind_catalog(kinds, adapters or ())
    async with (
        open_foundation(settings, clock, redaction, kinds, catalog, bootstrap_token) as base,
        open_run_parts(base) as parts,
        _at_work(base, parts, kinds, workflows) as holdfast,
    ):
        yield holdfast


@contextlib.asynccontextmanager
async def _at_work(
    base: Foundation, parts: RunParts, kinds: Mapping[str, Backend], workflows: Mapping[str, WorkflowAdapter]
) -> AsyncIterator[Holdfast]:
    """Runs are executed, and everything that follows the log follows it."""
    store, clock, workspace, history = base.store, base.clock, base.workspace, base.history
    traced = _conducting(base, parts, kinds, workflows)
    executor = _executor(store, clock, history, base.effective, traced.run)
    intake = build_intake(store, clock, history, kinds, base.effective, base.signer, executor, executor)
    maintenance, skills = make_maintenance(parts.memory, clock), SkillDesk(store.reader, parts.memory.log)
    intake.interrupts.follow_up = partial(candidate_decision, parts.memory)
    sandbox, judges = SandboxReport(), Judges(parts.router, parts.budgets)
    executor.may_begin = lambda: workspace.unavailable is None
    # Before anything works: a job that is recovered may have asked for actions.
    actions = make_actions(store, intake, workspace, clock)
    executor.follow_answer = ActionIntents(store.recorder, store.reader, actions).carry_out
    async with contextlib.AsyncExitStack() as working_parts:
        enter = working_parts.enter_async_context
        # Before anything works: what is committed from here on is counted.
        metrics = working_parts.enter_context(_telemetry(base, executor, parts.router, traced))
        base.sinks.watch(metrics)
        in_force = WorkspaceInForce(workspace, history, store.reader, LEDGER_THREAD)
        await enter(joined(base.replicas, store, executor, base.access, base.keys, in_force))
        await enter(working(executor, base.effective, workspace, store, clock, sandbox, maintenance, skills))
        automation = await enter(
            open_automation(store, workspace, base.client, base.signer, clock, intake.service, intake.lifecycle)
        )
        await automation.follower.add(JobReports(store.recorder, store.reader, intake.threads))
        extensions = await _extensions(base, actions, automation)
        shadow = await enter(_shadow_gates(store, executor, history, parts.gates, judges, clock))
        evals = await enter(
            open_evals(store, intake.service, intake.lifecycle, history, parts.gates, judges, clock, base.redaction)
        )
        yield Holdfast(
            store=store,
            workspace=workspace,
            history=history,
            backends=kinds,
            adapters=workflows,
            router=parts.router,
            service=intake.service,
            lifecycle=intake.lifecycle,
            commands=intake.commands,
            reruns=intake.reruns,
            undo=Undo(intake.service, store.reader, history, parts.toolsets, clock),
            threads=intake.threads,
            amendments=intake.amendments,
            interrupts=intake.interrupts,
            memory=parts.memory,
            memory_desk=MemoryDesk(parts.memory, maintenance, workspace, intake.interrupts),
            embedding_desk=_embedding_desk(base, parts),
            maintenance=maintenance,
            skills=skills,
            executor=executor,
            metrics=metrics,
            toolsets=parts.toolsets,
            access=base.access,
            keys=base.keys,
            clock=clock,
            files=FileStore(store.database, clock),
            effective=base.effective,
            sandbox=sandbox,
            replicas=base.replicas,
            gates=parts.gates,
            shadow=shadow,
            evals=evals,
            automation=automation,
            extensions=extensions,
            mcp_logins=parts.mcp_logins,
        )


def _embedding_desk(base: Foundation, parts: RunParts) -> EmbeddingDesk:
    return EmbeddingDesk(parts.embedder, base.workspace, parts.budgets, parts.memory.log, base.redaction.text)


async def _extensions(base: Foundation, actions: ExtensionActions, automation: Automation) -> ExtensionRegistry:
    extensions = await open_extensions(
        base.settings, base.store, actions, base.workspace, automation.follower, base.ledger, base.clock
    )
    if base.replicas is not None:
        base.replicas.on_extensions, extensions.on_reloaded = extensions.follow, base.replicas.say_extensions
    return extensions


@contextlib.asynccontextmanager
async def _shadow_gates(
    store: Store,
    executor: Executor,
    history: WorkspaceHistory,
    gates: Gates,
    judges: Judges,
    clock: Clock,
) -> AsyncIterator[ShadowGates]:
    """What judges runs after their end."""
    due = DueEvaluationTable(store.database)
    if not store.settings.is_postgres:
        with contextlib.suppress(StorageFull):
            await due.give_back_all()
    judgements = JudgementTable(store.database)
    shadow = ShadowGates(due, judgements, store.reader, store.recorder, history, gates, judges, clock)
    executor.ending.evaluation_due = shadow.announce
    shadow.start()
    try:
        yield shadow
    finally:
        await shadow.close()


def _conducting(
    base: Foundation, parts: RunParts, kinds: Mapping[str, Backend], workflows: Mapping[str, WorkflowAdapter]
) -> InTrace:
    """Conducts runs, each in its trace."""
    backends = WorkflowBackends(workflows)
    conductor = Conductor(parts.services, kinds, base.history, parts.toolsets, workflow_backend=backends)
    return InTrace(conductor.run, base.store.reader, exported=base.settings.traces != "off")


def _executor(
    store: Store, clock: Clock, history: WorkspaceHistory, effective: EffectiveSettings, conduct: Conduct
) -> Executor:
    queue = FairQueue(effective.queue_limits, effective.runs_of_agent)
    reader = store.reader
    more = history.code_changed, store.settings.lease_seconds
    return Executor(store.recorder, reader, reader, store.leases, conduct, queue, clock, *more)


def _telemetry(
    base: Foundation, executor: Executor, router: ModelRouter, traced: InTrace
) -> contextlib.AbstractContextManager[Metrics]:
    store, workspace = base.store, base.workspace

    def permitted() -> Sequence[str]:
        return workspace.current.runtime.redaction.trace_fields

    def redact(value: Any) -> Any:
        return without_personal_data(value) if workspace.current.runtime.redaction.in_traces else value

    observers = base.narration.committed, base.sinks.committed
    watched = store.log, store.hub, store.database.load, executor, router, store.reader.open_interrupts
    return telemetry(base.settings, *watched, traced, permitted, base.replicas, observers, redact)

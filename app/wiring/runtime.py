"""The runtime over an open store: everything that a server needs, without the web."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

import structlog

from app.backends.contract import Backend
from app.backends.workflow_contract import WorkflowAdapter
from app.bus.replicas import Replicas
from app.core.clock import Clock, CorrectedClock
from app.core.errors import HoldfastError
from app.core.metrics import Metrics
from app.core.principal import DEFAULT_TENANT
from app.core.settings import Settings
from app.core.signing import Signer, open_signer
from app.evals.declared import Gates
from app.evals.judges import Judges
from app.evals.services import EvalServices
from app.evals.shadow import ShadowGates
from app.events.envelope import Event
from app.events.ports import Appended, StorageFull, StoreError
from app.extensions.intents import ActionIntents
from app.extensions.registry import ExtensionRegistry
from app.memory.maintenance import Maintenance
from app.memory.record_log import RecordLog
from app.memory.service import MemoryService
from app.models.call_places import CallPlaces
from app.models.router import ModelRouter
from app.models.shared_limits import SharedLimits
from app.outside.sandbox_report import SandboxReport
from app.policy.personal_data import without_personal_data
from app.policy.redaction import CurrentRedaction, secret_values
from app.protocols.auth.access import Access
from app.protocols.auth.setup import open_access
from app.protocols.telemetry.setup import telemetry
from app.protocols.telemetry.sinks import Sinks
from app.protocols.telemetry.trace_scope import InTrace
from app.runtime.automation.job_reports import JobReports
from app.runtime.intake.amendments import AmendmentDesk
from app.runtime.intake.cancel_events import CancelEvents
from app.runtime.intake.commands import Commands
from app.runtime.intake.embedding_desk import EmbeddingDesk
from app.runtime.intake.interrupts import InterruptAnswers
from app.runtime.intake.keys import Keys
from app.runtime.intake.ledger import LEDGER_THREAD, Ledger
from app.runtime.intake.lifecycle import Lifecycle
from app.runtime.intake.mcp_logins import McpLogins
from app.runtime.intake.memory_desk import MemoryDesk
from app.runtime.intake.ports import Drainable
from app.runtime.intake.reruns import Reruns
from app.runtime.intake.run_rates import RunRates
from app.runtime.intake.service import Service
from app.runtime.intake.skill_desk import SkillDesk
from app.runtime.intake.threads import Threads
from app.runtime.intake.undo import Undo
from app.runtime.narration_queue import NarrationQueue
from app.runtime.run.budgets import BudgetAccounts
from app.runtime.run.conductor import Conductor
from app.runtime.run.memory_tools import RunMemoryTools
from app.runtime.run.run_memory import RunMemories
from app.runtime.run.steps import RunServices
from app.runtime.run.toolsets import Toolsets
from app.runtime.schedule.delta_expiry import DeltaExpiry
from app.runtime.schedule.effective_settings import EffectiveSettings
from app.runtime.schedule.executor import Conduct, Executor
from app.runtime.schedule.queue import FairQueue
from app.runtime.schedule.thread_expiry import ThreadExpiry
from app.runtime.scheduler import Scheduler
from app.runtime.workflows.workflow_backend import WorkflowBackends
from app.runtime.workspace_in_force import WorkspaceInForce
from app.runtime.workspaces import CurrentWorkspace, WorkspaceHistory, WorkspaceStatus
from app.store.blobs import Blobs
from app.store.compaction import SweepTable
from app.store.files import FileStore
from app.store.idle_threads import IdleThreadReader
from app.store.judgements import DueEvaluationTable, JudgementTable
from app.store.keys import StoredKeys
from app.store.mcp_grants import McpGrantTable
from app.store.shared_limits import ModelLimitRecords, RunBuckets, TenantDays, purge_old_counts
from app.store.vacuum import shrink
from app.store.workspaces import WorkspaceTable
from app.tools.grants import GrantVault
from app.wiring.automation import Automation, open_automation
from app.wiring.evals import open_evals
from app.wiring.extensions import make_actions, open_extensions
from app.wiring.kinds import (
    Backends,
    ToolMakers,
    WorkflowAdapters,
    embedder,
    http_client,
    installed_backends,
    kind_catalog,
    make_gates,
    make_guardrails,
    make_hooks,
    mcp_login,
    model_router,
    narrator,
    package_narrator,
    sinks,
    workflow_adapters,
)
from app.wiring.memory import (
    TenantEmbeddings,
    candidate_decision,
    maintain_hourly,
    make_maintenance,
    open_memory,
    spent_since,
)
from app.wiring.replicas import joined, make_replicas
from app.wiring.store import Store, open_keys, open_store
from app.workspace.catalog import KindCatalog

PURGE_SECONDS = 3600.0
KEPT_AT_LOAD_BYTES = 4 * 1024 * 1024
"""A larger workspace is kept when the first run uses it: storing it would delay the start."""


class Closable(Protocol):
    async def close(self) -> None: ...


ClosableT = TypeVar("ClosableT", bound=Closable)

log = structlog.get_logger("holdfast.wiring")


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Intake:
    """What clients ask for, over one scheduler."""

    service: Service
    lifecycle: Lifecycle
    commands: Commands
    reruns: Reruns
    threads: Threads
    amendments: AmendmentDesk
    interrupts: InterruptAnswers


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
    clock, redaction = CorrectedClock(clock), redaction or CurrentRedaction()
    kinds = backends or Backends(installed_backends())
    workflows = WorkflowAdapters(workflow_adapters(), adapters)
    async with contextlib.AsyncExitStack() as parts:
        store = await parts.enter_async_context(open_store(settings, clock=clock, redactor=redaction))
        parts.callback(store.hub.close_all)
        replicas = make_replicas(store, clock)
        if replicas is not None:
            await replicas.set_clock()
        signer = open_signer(settings)
        keys, ledger = open_keys(store, clock), Ledger(store.recorder)
        find_key = StoredKeys(store.database).find
        access = await parts.enter_async_context(
            open_access(settings, keys, find_key, ledger, clock, signer, bootstrap_token)
        )
        client = await parts.enter_async_context(_closing(http_client(settings)))
        catalog = kind_catalog(kinds, adapters or ())
        narration = await parts.enter_async_context(_closing(NarrationQueue(store.recorder)))
        sent = await parts.enter_async_context(_closing(Sinks(sinks())))
        workspace = await _load_workspace(
            settings, store, catalog, kinds, clock, redaction, ledger, replicas, narration, sent
        )
        history = WorkspaceHistory(workspace, catalog, WorkspaceTable(store.database))
        effective = EffectiveSettings(settings, workspace)
        tools = await parts.enter_async_context(_closing(ToolMakers(settings, clock, client)))
        tools.grants = vault = GrantVault(McpGrantTable(store.database), signer)
        logins = McpLogins(ledger, vault, signer, clock, lambda: workspace.current, partial(mcp_login, client, clock))
        toolsets = await parts.enter_async_context(
            _closing(Toolsets(tools.build, partial(make_hooks, settings, clock), make_guardrails))
        )
        shared = await parts.enter_async_context(_shared_limits(store, clock))
        router = model_router(settings, clock, client, shared)
        days = TenantDays(store.database) if settings.is_postgres else None
        gates, budgets = make_gates(), BudgetAccounts(clock, spent_since(store.reader), days)
        embeds = embedder(clock, client, CallPlaces(router.limiter, shared))
        memory_runs = RunMemories()
        pays = partial(TenantEmbeddings, embeds, workspace, budgets, RecordLog(store.recorder))
        memory = open_memory(store, clock, redaction, pays)
        tools.memory = RunMemoryTools(memory, store.recorder, store.reader, history, memory_runs)
        blobs = Blobs(store.database)
        files = settings.data_dir / "files"
        services = RunServices(
            store.recorder,
            store.reader,
            clock,
            router,
            blobs,
            budgets,
            redaction,
            files,
            gates=gates,
            memory=memory,
            embedder=embeds,
            memory_runs=memory_runs,
        )
        traced = _conducting(settings, store, services, kinds, workflows, history, toolsets)
        executor = _executor(store, clock, history, effective, traced.run)
        intake = build_intake(store, clock, history, kinds, effective, signer, executor, executor)
        maintenance, skills = make_maintenance(memory, clock), SkillDesk(store.reader, memory.log)
        intake.interrupts.follow_up = partial(candidate_decision, memory)
        sandbox = SandboxReport()
        in_force = WorkspaceInForce(workspace, history, store.reader, LEDGER_THREAD)
        executor.may_begin = lambda: workspace.unavailable is None
        # Before anything works: a job that is recovered may have asked for actions.
        actions = make_actions(store, intake, workspace, clock)
        executor.follow_answer = ActionIntents(store.recorder, store.reader, actions).carry_out
        # Before anything works: what is committed from here on is counted.
        observers = narration.committed, sent.committed
        metrics = parts.enter_context(
            _telemetry(settings, store, executor, router, traced, workspace, replicas, observers)
        )
        sent.watch(metrics)
        await parts.enter_async_context(joined(replicas, store, executor, access, keys, in_force))
        await parts.enter_async_context(
            _working(executor, effective, workspace, store, clock, sandbox, maintenance, skills)
        )
        automation = await parts.enter_async_context(
            open_automation(store, workspace, client, signer, clock, intake.service, intake.lifecycle)
        )
        await automation.follower.add(JobReports(store.recorder, store.reader, intake.threads))
        extensions = await open_extensions(settings, store, actions, workspace, automation.follower, ledger, clock)
        if replicas is not None:
            replicas.on_extensions, extensions.on_reloaded = extensions.follow, replicas.say_extensions
        judges = Judges(router, budgets)
        shadow = await parts.enter_async_context(_shadow_gates(store, executor, history, gates, judges, clock))
        evals = await parts.enter_async_context(
            open_evals(store, intake.service, intake.lifecycle, history, gates, judges, clock, redaction)
        )
        yield Holdfast(
            store=store,
            workspace=workspace,
            history=history,
            backends=kinds,
            adapters=workflows,
            router=router,
            service=intake.service,
            lifecycle=intake.lifecycle,
            commands=intake.commands,
            reruns=intake.reruns,
            undo=Undo(intake.service, store.reader, history, toolsets, clock),
            threads=intake.threads,
            amendments=intake.amendments,
            interrupts=intake.interrupts,
            memory=memory,
            memory_desk=MemoryDesk(memory, maintenance, workspace, intake.interrupts),
            embedding_desk=EmbeddingDesk(embeds, workspace, budgets, memory.log, redaction.text),
            maintenance=maintenance,
            skills=skills,
            executor=executor,
            metrics=metrics,
            toolsets=toolsets,
            access=access,
            keys=keys,
            clock=clock,
            files=FileStore(store.database, clock),
            effective=effective,
            sandbox=sandbox,
            replicas=replicas,
            gates=gates,
            shadow=shadow,
            evals=evals,
            automation=automation,
            extensions=extensions,
            mcp_logins=logins,
        )


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
    settings: Settings,
    store: Store,
    services: RunServices,
    kinds: Mapping[str, Backend],
    workflows: Mapping[str, WorkflowAdapter],
    history: WorkspaceHistory,
    toolsets: Toolsets,
) -> InTrace:
    """Conducts runs, each in its trace."""
    conductor = Conductor(services, kinds, history, toolsets, workflow_backend=WorkflowBackends(workflows))
    return InTrace(conductor.run, store.reader, exported=settings.traces != "off")


def _executor(
    store: Store, clock: Clock, history: WorkspaceHistory, effective: EffectiveSettings, conduct: Conduct
) -> Executor:
    queue = FairQueue(effective.queue_limits, effective.runs_of_agent)
    reader = store.reader
    more = history.code_changed, store.settings.lease_seconds
    return Executor(store.recorder, reader, reader, store.leases, conduct, queue, clock, *more)


def build_intake(
    store: Store,
    clock: Clock,
    history: WorkspaceHistory,
    backends: Container[str],
    effective: EffectiveSettings,
    signer: Signer,
    scheduler: Scheduler,
    workers: Drainable,
) -> Intake:
    recorder, reader = store.recorder, store.reader
    shared = RunBuckets(store.database) if store.settings.is_postgres else None
    rates = RunRates(lambda: effective.runs_per_minute, clock, shared)
    cancel_events = CancelEvents(reader, reader)
    service = Service(
        recorder,
        reader,
        clock,
        history,
        backends,
        scheduler,
        cancel_events,
        rates,
        lambda: effective.queue_per_thread,
    )
    threads = Threads(recorder, reader, scheduler)
    return Intake(
        service=service,
        lifecycle=Lifecycle(recorder, reader, cancel_events, scheduler, workers),
        commands=Commands(recorder, reader, history, scheduler),
        reruns=Reruns(service, threads, reader, history, signer, clock),
        threads=threads,
        amendments=AmendmentDesk(recorder, reader),
        interrupts=InterruptAnswers(recorder, reader, scheduler),
    )


@contextlib.asynccontextmanager
async def _working(
    executor: Executor,
    effective: EffectiveSettings,
    workspace: CurrentWorkspace,
    store: Store,
    clock: Clock,
    sandbox: SandboxReport,
    maintenance: Maintenance,
    skills: SkillDesk,
) -> AsyncIterator[None]:
    """The executor and what goes on next to it; at the end runs are drained."""
    stopping = asyncio.Event()
    executor.start()
    looking = asyncio.create_task(sandbox.look())
    tasks = [
        asyncio.create_task(workspace.watch(stopping)),
        asyncio.create_task(_purge_hourly(store, effective, clock, stopping)),
        asyncio.create_task(maintain_hourly(maintenance, skills, workspace, stopping)),
    ]
    try:
        yield
    finally:
        stopping.set()
        looking.cancel()
        await executor.drain(effective.drain_seconds)
        await asyncio.gather(*tasks, asyncio.wait({looking}))


def _telemetry(
    settings: Settings,
    store: Store,
    executor: Executor,
    router: ModelRouter,
    traced: InTrace,
    workspace: CurrentWorkspace,
    replicas: Replicas | None,
    observers: Sequence[Callable[[Sequence[Event]], None]],
) -> contextlib.AbstractContextManager[Metrics]:
    def permitted() -> Sequence[str]:
        return workspace.current.runtime.redaction.trace_fields

    def redact(value: Any) -> Any:
        return without_personal_data(value) if workspace.current.runtime.redaction.in_traces else value

    watched = store.log, store.hub, store.database.load, executor, router, store.reader.open_interrupts
    return telemetry(settings, *watched, traced, permitted, replicas, observers, redact)


@contextlib.asynccontextmanager
async def _shared_limits(store: Store, clock: Clock) -> AsyncIterator[SharedLimits | None]:
    """The limits of models over all servers; a process with a database of its own needs none."""
    if not store.settings.is_postgres:
        yield None
        return
    async with _closing(SharedLimits(ModelLimitRecords(store.database), clock)) as shared:
        yield shared


async def _purge_hourly(store: Store, effective: EffectiveSettings, clock: Clock, stopping: asyncio.Event) -> None:
    """Deletes threads that were not used for long, drops old deltas, and purges what was deleted long enough ago: when
    the server starts, and every hour."""
    expiry = ThreadExpiry(store.recorder, IdleThreadReader(store.database), clock, lambda: effective.threads_days)
    swept = SweepTable(store.database)
    deltas = DeltaExpiry(store.recorder, store.reader, swept, clock, lambda: effective.delta_days)
    while not stopping.is_set():
        with contextlib.suppress(StoreError):
            await expiry.expire(stopping.is_set)
            await deltas.expire(stopping.is_set)
            await store.retention.purge(stopping, effective.deleted_days)
            if store.settings.is_postgres:
                await purge_old_counts(store.database)
            if store.settings.sqlite_vacuum == "incremental" and not store.settings.is_postgres:
                await shrink(store.database, stopping)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PURGE_SECONDS):
                await stopping.wait()


async def _load_workspace(
    settings: Settings,
    store: Store,
    catalog: KindCatalog,
    backends: Mapping[str, Backend],
    clock: Clock,
    redaction: CurrentRedaction,
    ledger: Ledger,
    replicas: Replicas | None,
    narration: NarrationQueue,
    sent: Sinks,
) -> CurrentWorkspace:
    """The workspace, recorded in the ledger and followed by the redaction; without a valid one nothing starts."""

    async def follow() -> None:
        runtime = workspace.current.runtime
        if isinstance(backends, Backends):
            new = backends.not_made(agent.spec.backend for agent in workspace.current.agents.values())
            if new:
                await asyncio.to_thread(backends.prepare, new)
        redaction.follow(runtime.redaction.kinds, secret_values(os.environ, runtime.env))
        chosen = runtime.progress.narration
        store.recorder.narrator = narrator(chosen)
        narration.follow(package_narrator(chosen), chosen.provider, chosen.style)
        hide = without_personal_data if runtime.redaction.in_traces else None
        await sent.follow(runtime.telemetry.sinks, runtime.redaction.trace_fields, hide)

    async def loaded(status: WorkspaceStatus) -> None:
        await follow()
        current = workspace.current
        with _unless_full("workspace.loaded"):
            # Before the others hear of it: they load it from there. A small one is kept on SQLite too, to be compared.
            if settings.is_postgres or current.files.size <= KEPT_AT_LOAD_BYTES:
                await WorkspaceTable(store.database).put(current.digest, current.files.contents())
            answer = await ledger.record(DEFAULT_TENANT, status.loaded_event(len(current.agents)))
            if isinstance(answer, Appended):
                workspace.recorded_seq = answer.events[-1].seq
        if replicas is not None:
            replicas.say_workspace()

    async def rejected(status: WorkspaceStatus) -> None:
        with _unless_full("workspace.rejected"):
            await ledger.record(DEFAULT_TENANT, status.rejected_event())

    workspace = CurrentWorkspace(
        settings.workspace, catalog, clock, profile=settings.profile, on_loaded=loaded, on_rejected=rejected
    )
    workspace.on_adopted = follow
    if (await workspace.reload()).digest is None:
        assert workspace.status.rejected is not None
        mistakes = workspace.status.rejected.as_text(colour=False)
        raise HoldfastError("WORKSPACE_INVALID", f"the workspace cannot be loaded:\n{mistakes}")
    return workspace


@contextlib.contextmanager
def _unless_full(event: str) -> Iterator[None]:
    """A server on a full disk starts and serves reads; what it would have recorded is in its log at least."""
    try:
        yield
    except StorageFull as full:
        log.warning("storage.event_lost", event_type=event, code=full.code)


@contextlib.asynccontextmanager
async def _closing(part: ClosableT) -> AsyncIterator[ClosableT]:
    try:
        yield part
    finally:
        await part.close()

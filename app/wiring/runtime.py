"""The runtime over an open store: everything that a server needs, without the web."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import structlog

from app.backends.contract import Backend
from app.core.clock import Clock, SystemClock
from app.core.errors import HoldfastError
from app.core.metrics import Metrics
from app.core.principal import DEFAULT_TENANT
from app.core.settings import Settings
from app.core.signing import open_signer
from app.events.ports import StorageFull, StoreError
from app.models.router import ModelRouter
from app.outside.http import HttpClient
from app.outside.sandbox_report import SandboxReport
from app.policy.redaction import CurrentRedaction, secret_values
from app.protocols.auth.access import Access
from app.protocols.auth.opening import open_access
from app.protocols.telemetry.following import InTrace
from app.protocols.telemetry.wired import telemetry
from app.runtime.intake.commands import Commands
from app.runtime.intake.interrupts import Interrupts
from app.runtime.intake.keys import Keys
from app.runtime.intake.ledger import Ledger
from app.runtime.intake.rerun import Reruns
from app.runtime.intake.service import RunLimits, Service
from app.runtime.intake.threads import Threads
from app.runtime.run.budgets import Budgets
from app.runtime.run.conductor import Conductor
from app.runtime.run.kits import Kits
from app.runtime.run.steps import Services
from app.runtime.schedule.effective_settings import EffectiveSettings
from app.runtime.schedule.executor import Executor
from app.runtime.schedule.queue import FairQueue
from app.runtime.schedule.run_rates import RunRates
from app.runtime.schedule.thread_expiry import ThreadExpiry
from app.runtime.workspaces import CurrentWorkspace, WorkspaceHistory, WorkspaceStatus
from app.store.blobs import Blobs
from app.store.files import FileStore
from app.store.idle_threads import IdleThreadReader
from app.store.keys import StoredKeys
from app.store.vacuum import shrink
from app.store.workspaces import WorkspaceArchive
from app.wiring.kinds import (
    Backends,
    ToolMakers,
    http_client,
    kind_catalog,
    make_hooks,
    model_router,
    narrator,
)
from app.wiring.kinds import (
    backends as installed_backends,
)
from app.wiring.store import Store, open_keys, open_store
from app.workspace.catalog import KindCatalog

PURGE_SECONDS = 3600.0

log = structlog.get_logger("holdfast.wiring")


@dataclass(frozen=True, slots=True)
class Holdfast:
    """Everything a server needs."""

    store: Store
    workspace: CurrentWorkspace
    backends: Mapping[str, Backend]
    service: Service
    commands: Commands
    reruns: Reruns
    threads: Threads
    interrupts: Interrupts
    executor: Executor
    metrics: Metrics
    kits: Kits
    access: Access
    keys: Keys
    clock: Clock
    files: FileStore
    drain_seconds: Callable[[], float]
    """How long runs may go on when the server stops; asked at that moment, because a workspace may change it."""
    sandbox: SandboxReport


@contextlib.asynccontextmanager
async def open_holdfast(
    settings: Settings,
    *,
    clock: Clock | None = None,
    backends: Mapping[str, Backend] | None = None,
    redaction: CurrentRedaction | None = None,
) -> AsyncIterator[Holdfast]:
    """`backends` replaces the kinds that ship, for whoever embeds the server with its own.

    `redaction` is given by whoever also cleans something else by it, such as the process's log.
    """
    clock = clock or SystemClock()
    kinds = backends or Backends(installed_backends())
    redaction = redaction or CurrentRedaction()
    async with contextlib.AsyncExitStack() as closing:
        store = await closing.enter_async_context(open_store(settings, clock=clock, redactor=redaction))
        signer = open_signer(settings)
        keys, ledger = open_keys(store, clock), Ledger(store.recorder)
        find = StoredKeys(store.database).find
        access = await closing.enter_async_context(open_access(settings, keys, find, ledger, clock))
        client = await closing.enter_async_context(_closing(http_client(settings)))
        catalog = kind_catalog(kinds)
        workspace = await _load_workspace(settings, store, catalog, clock, redaction, ledger)
        history = WorkspaceHistory(workspace, catalog, WorkspaceArchive(store.database))
        tools = ToolMakers(settings, clock, client)
        kits = Kits(tools.build, partial(make_hooks, settings, clock))
        recorder, reader = store.recorder, store.reader
        router = model_router(settings, clock, client)
        effective = EffectiveSettings(settings, workspace)
        queue = FairQueue(effective.queue_limits, effective.runs_of_agent)
        rates = RunRates(lambda: effective.runs_per_minute, clock)
        limits = RunLimits(lambda: effective.queue_per_thread, rates.take, rates.give_back)
        traced = _conducting(settings, store, router, kinds, history, kits, clock)
        executor = Executor(recorder, reader, reader, store.leases, traced.run, queue, clock, history.code_changed)
        service = Service(recorder, reader, reader, clock, history, kinds, executor.wake, executor.stop,
                          queue.refusal, executor.admit, executor.freed, limits)  # fmt: skip
        threads = Threads(recorder, reader, executor.stop)
        interrupts = Interrupts(recorder, reader, executor.wake)
        commands = Commands(recorder, reader, history, executor.deliver, executor.wake)
        reruns = Reruns(service, threads, reader, history, signer)
        executor.start()
        stopping = asyncio.Event()
        sandbox = SandboxReport()
        looking = asyncio.create_task(sandbox.look())
        beside = [asyncio.create_task(workspace.watch(stopping)),
                  asyncio.create_task(_purge_by_and_by(store, effective, clock, stopping))]  # fmt: skip
        try:
            watched = store.log, store.hub, store.database.load, executor, router, reader.open_interrupts
            permitted = lambda: workspace.current.runtime.redaction.trace_fields  # noqa: E731  # one line of wiring
            with telemetry(settings, *watched, traced, permitted) as metrics:
                yield Holdfast(
                    store=store, workspace=workspace, backends=kinds, service=service, commands=commands,
                    reruns=reruns, threads=threads, interrupts=interrupts, executor=executor, metrics=metrics,
                    kits=kits, access=access, keys=keys, clock=clock, files=FileStore(store.database, clock),
                    drain_seconds=lambda: effective.drain_seconds, sandbox=sandbox,
                )  # fmt: skip
        finally:
            stopping.set()
            looking.cancel()
            await executor.drain(effective.drain_seconds)
            await asyncio.gather(*beside, asyncio.wait({looking}))
            await kits.close()
            await tools.close()
            store.hub.close_all()


def _conducting(
    settings: Settings, store: Store, router: ModelRouter, kinds: Mapping[str, Backend], history: WorkspaceHistory,
    kits: Kits, clock: Clock,
) -> InTrace:  # fmt: skip
    """Who conducts runs, each in its trace."""
    blobs, budgets = Blobs(store.database), Budgets(clock, store.reader.spent_since)
    services = Services(store.recorder, store.reader, clock, router, blobs, budgets)
    conductor = Conductor(services, kinds, history, kits)
    return InTrace(conductor.run, store.reader, told=settings.traces != "off")


async def _purge_by_and_by(store: Store, effective: EffectiveSettings, clock: Clock, stopping: asyncio.Event) -> None:
    """Threads that nobody used for long are deleted, and what was deleted long enough ago goes for good: when the
    server starts, and every hour."""
    expiry = ThreadExpiry(store.recorder, IdleThreadReader(store.database), clock, lambda: effective.threads_days)
    while not stopping.is_set():
        with contextlib.suppress(StoreError):
            await expiry.expire(stopping.is_set)
            await store.retention.purge(stopping, effective.deleted_days)
            if store.settings.sqlite_vacuum == "incremental" and not store.settings.is_postgres:
                await shrink(store.database, stopping)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PURGE_SECONDS):
                await stopping.wait()


async def _load_workspace(
    settings: Settings, store: Store, catalog: KindCatalog, clock: Clock, redaction: CurrentRedaction, ledger: Ledger
) -> CurrentWorkspace:
    """The workspace, told of in the ledger and followed by the redaction; without a good one nothing starts."""

    async def loaded(status: WorkspaceStatus) -> None:
        runtime = workspace.current.runtime
        redaction.follow(runtime.redaction.kinds, secret_values(os.environ, runtime.env))
        store.recorder.narrator = narrator(runtime.progress.narration)
        with _unless_full("workspace.loaded"):
            await ledger.record(DEFAULT_TENANT, status.loaded_event(len(workspace.current.agents)))

    async def rejected(status: WorkspaceStatus) -> None:
        with _unless_full("workspace.rejected"):
            await ledger.record(DEFAULT_TENANT, status.rejected_event())

    workspace = CurrentWorkspace(
        settings.workspace, catalog, clock, profile=settings.profile, on_loaded=loaded, on_rejected=rejected
    )
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
async def _closing(client: HttpClient) -> AsyncIterator[HttpClient]:
    try:
        yield client
    finally:
        await client.close()

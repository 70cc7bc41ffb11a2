"""The composition root: the only place that names a kind and knows which part serves which port."""

import asyncio
import contextlib
import importlib
import os
import random
import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import structlog

from app.backends.contract import Backend
from app.backends.kinds.echo import EchoBackend
from app.backends.kinds.native import NativeBackend
from app.backends.kinds.plan_work_review import PlanWorkReviewBackend
from app.core.clock import Clock, SystemClock
from app.core.errors import Failure, HoldfastError
from app.core.metrics import Metrics
from app.core.principal import DEFAULT_TENANT
from app.core.schemas import SchemaRegistry
from app.core.settings import Settings
from app.core.signing import open_signer
from app.events.hub import Hub
from app.events.ports import StorageBroken, StorageFull, StoreError
from app.events.recorder import Narrator, Recorder, Redactor
from app.models.contract import ProviderDeps
from app.models.kinds import anthropic, gemini, ollama, openai, scripted
from app.models.limits import Limiter
from app.models.registry import Providers, installed_kinds
from app.models.router import ModelRouter
from app.outside.http import HttpClient
from app.outside.proxies import Proxies
from app.outside.sandbox_report import SandboxReport
from app.policy import declared as hooks
from app.policy.hooks import HookRunner
from app.policy.kinds.builtin import make_builtin as make_builtin_hook
from app.policy.kinds.command import make_command
from app.policy.kinds.python import make_python as make_python_hook
from app.policy.redaction import CurrentRedaction, Redaction, secret_values
from app.protocols.auth.access import Access
from app.protocols.auth.opening import open_access
from app.protocols.telemetry.following import InTrace
from app.protocols.telemetry.wired import telemetry
from app.runtime.budgets import Budgets
from app.runtime.commands import Commands
from app.runtime.conductor import Conductor
from app.runtime.effective_settings import EffectiveSettings
from app.runtime.executor import Executor
from app.runtime.interrupts import Interrupts
from app.runtime.keys import Keys
from app.runtime.kits import Kits
from app.runtime.ledger import Ledger
from app.runtime.queue import FairQueue
from app.runtime.rerun import Reruns
from app.runtime.run_rates import RunRates
from app.runtime.service import RunLimits, Service
from app.runtime.steps import Services
from app.runtime.thread_expiry import ThreadExpiry
from app.runtime.threads import Threads
from app.runtime.workspaces import CurrentWorkspace, WorkspaceHistory, WorkspaceStatus
from app.store.blobs import Blobs
from app.store.broken import StopsWhenBroken
from app.store.engine import Database
from app.store.files import FileStore
from app.store.folder import DataFolder, FolderUnusable
from app.store.health import WatchedDatabase
from app.store.idle_threads import IdleThreadReader
from app.store.keys import StoredKeys
from app.store.leases import Leases
from app.store.log import Log
from app.store.migrate import migrate
from app.store.privacy import open_privately, tighten
from app.store.reader import StoreReader
from app.store.retention import Retention
from app.store.vacuum import shrink
from app.store.workspaces import WorkspaceArchive
from app.tools.contract import Tool
from app.tools.declared import Maker, build
from app.tools.kinds.builtin import builtins, make_builtin
from app.tools.kinds.http import make_http
from app.tools.kinds.python import make_python
from app.tools.kinds.subprocess import make_subprocess
from app.tools.loading import load_entry
from app.tools.registry import Registry
from app.views.narration import TemplateNarrator
from app.workspace.catalog import KindCatalog, shipped_catalog
from app.workspace.compiled import CompiledTool, CompiledWorkspace
from app.workspace.files import WorkspaceFiles
from app.workspace.secrets import resolve_env
from app.workspace.specs.runtime import Narration

PURGE_SECONDS = 3600.0
_POSTGRES_PATIENCE = 1.9
"""Seconds that a caller waits for its commit: within two it is answered (G17)."""
_SQLITE_PATIENCE = 10.0
"""A slow sync of the own disk is no outage; giving up would cut off runs for nothing."""
_ROOM_BYTES = 1024 * 1024

log = structlog.get_logger("holdfast.wiring")


def die(broken: StorageBroken) -> None:
    """After a failed sync nobody knows what the disk holds. Stop at once; the log says on restart what is there."""
    log.critical("storage.broken", code=broken.code, remedy=broken.remedy)
    os._exit(74)


def open_database(settings: Settings) -> Database:
    return StopsWhenBroken(_open_database(settings), die)


def _open_database(settings: Settings) -> Database:
    if settings.is_postgres:
        from app.store.postgres import PostgresDatabase

        assert settings.database_url is not None
        return PostgresDatabase(settings.database_url)
    from app.store.sqlite import SqliteDatabase

    return SqliteDatabase(settings.sqlite_path)


@dataclass(frozen=True, slots=True)
class Store:
    """The log with what reads it: enough for the command line and for tests of the spine."""

    settings: Settings
    database: Database
    folder: DataFolder
    hub: Hub
    log: Log
    reader: StoreReader
    leases: Leases
    retention: Retention
    recorder: Recorder
    health: WatchedDatabase
    """The database again, asked whether it takes writes."""


def _has_room(settings: Settings) -> bool:
    """Postgres says so itself; an embedded database needs more than what its files have allocated already."""
    return settings.is_postgres or shutil.disk_usage(settings.data_dir).free >= _ROOM_BYTES


@contextlib.asynccontextmanager
async def open_store(
    settings: Settings, *, clock: Clock | None = None, redactor: Redactor | None = None
) -> AsyncIterator[Store]:
    """Take the data folder (embedded), migrate, start the log; close it all in the opposite order."""
    clock = clock or SystemClock()
    folder = DataFolder(settings.data_dir)
    if not settings.is_postgres:
        folder.take()
    try:
        try:
            open_privately(settings.data_dir)
        except OSError as error:
            raise FolderUnusable(settings.data_dir, error) from error
        await migrate(settings)
        tighten(settings.data_dir)  # what the migration made
        database = WatchedDatabase(open_database(settings), clock, partial(_has_room, settings))
        hub = Hub()
        patience = _POSTGRES_PATIENCE if settings.is_postgres else _SQLITE_PATIENCE
        event_log = Log(database, clock, hub.publish, settings.max_pending_events, patience)
        leases = Leases(database)
        if not settings.is_postgres:
            with contextlib.suppress(StorageFull):  # then reads are served, and the leases run out by themselves
                await leases.expire_all()
        event_log.start()
        recorder = Recorder(event_log, clock, SchemaRegistry(), redactor or Redaction())
        retention = Retention(database, clock, settings.retention_deleted_days)
        try:
            yield Store(
                settings, database, folder, hub, event_log, StoreReader(database), leases, retention, recorder, database
            )
        finally:
            await event_log.close()
            await database.close()
    finally:
        folder.release()


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
    kinds: Mapping[str, Backend] = backends or {
        kind.kind: kind for kind in (EchoBackend(), NativeBackend(), PlanWorkReviewBackend())
    }
    redaction = redaction or CurrentRedaction()
    async with contextlib.AsyncExitStack() as closing:
        store = await closing.enter_async_context(open_store(settings, clock=clock, redactor=redaction))
        signer = open_signer(settings)
        keys, ledger = open_keys(store, clock), Ledger(store.recorder)
        find = StoredKeys(store.database).find
        access = await closing.enter_async_context(open_access(settings, keys, find, ledger, clock))
        client = await closing.enter_async_context(_closing(http_client(settings)))
        catalog = shipped_catalog(kinds)
        workspace = await _load_workspace(settings, store, catalog, clock, redaction, ledger)
        history = WorkspaceHistory(workspace, catalog, WorkspaceArchive(store.database))
        tools = ToolMakers(settings, clock, client)
        kits = Kits(tools.build, partial(_hooks, settings, clock))
        recorder, reader = store.recorder, store.reader
        router = _router(settings, clock, client)
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


def open_keys(store: Store, clock: Clock) -> Keys:
    return Keys(Ledger(store.recorder), StoredKeys(store.database), clock)


async def _load_workspace(
    settings: Settings, store: Store, catalog: KindCatalog, clock: Clock, redaction: CurrentRedaction, ledger: Ledger
) -> CurrentWorkspace:
    """The workspace, told of in the ledger and followed by the redaction; without a good one nothing starts."""

    async def loaded(status: WorkspaceStatus) -> None:
        runtime = workspace.current.runtime
        redaction.follow(runtime.redaction.kinds, secret_values(os.environ, runtime.env))
        store.recorder.narrator = _narrator(runtime.progress.narration)
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


def _narrator(wanted: Narration) -> Narrator | None:
    narrators = {"template": TemplateNarrator}
    return narrators[wanted.provider](wanted.style) if wanted.enabled and wanted.provider in narrators else None


def http_client(settings: Settings) -> HttpClient:
    return HttpClient(proxies=Proxies.from_environment(os.environ), ca_file=settings.ca_file)


@contextlib.asynccontextmanager
async def _closing(client: HttpClient) -> AsyncIterator[HttpClient]:
    try:
        yield client
    finally:
        await client.close()


def _router(settings: Settings, clock: Clock, client: HttpClient) -> ModelRouter:
    def secrets(text: str) -> str | None:
        resolved = resolve_env(text, os.environ)
        return resolved if isinstance(resolved, str) else None

    kinds = {
        "openai": openai.provider,
        "anthropic": anthropic.provider,
        "gemini": gemini.provider,
        "ollama": ollama.provider,
        "scripted": scripted.provider,
    }
    providers = Providers(kinds | installed_kinds(), ProviderDeps(client, secrets, clock, asyncio.sleep))
    limiter = Limiter(clock, concurrency=settings.model_calls)
    return ModelRouter(
        providers, schemas=SchemaRegistry(), clock=clock, random=random.random, sleep=asyncio.sleep, limiter=limiter
    )


def _hooks(settings: Settings, clock: Clock, workspace: CompiledWorkspace) -> HookRunner | list[Failure]:
    def load(entry: str, files: WorkspaceFiles, own: bool) -> Any:
        return load_entry(entry, files, own=own)

    makers: dict[str, hooks.Maker] = {
        "builtin": make_builtin_hook,
        "python": partial(make_python_hook, load=load),
        "command": partial(
            make_command, folder=settings.workspace, secret=_secrets_of(workspace), data=settings.data_dir
        ),
    }
    return hooks.build(workspace, makers, schemas=SchemaRegistry(), clock=clock)


def _secrets_of(workspace: CompiledWorkspace) -> Callable[[str], str | None]:
    """The environment as far as the Runtime lists it."""
    allowed = frozenset(workspace.runtime.env)
    return lambda name: os.environ.get(name) if name in allowed else None


class Closable(Protocol):
    async def close(self) -> None: ...


class ToolMakers:
    """Makes the tools of a compiled workspace, each kind by its own maker."""

    def __init__(self, settings: Settings, clock: Clock, client: HttpClient) -> None:
        self._settings, self._clock, self._client = settings, clock, client
        self._sessions: dict[str, Mapping[str, Any]] = {}
        """Of MCP servers by name, by the workspace's digest: tools that are made again use the same."""

    async def build(self, workspace: CompiledWorkspace) -> Registry | list[Failure]:
        data = self._settings.data_dir / "files"
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        secret = _secrets_of(workspace)
        hosts, private = frozenset(workspace.runtime.outgoing.hosts), frozenset(workspace.runtime.outgoing.private)
        mcp = await self._mcp(workspace, private, hosts, secret) if workspace.mcp_servers else None
        claim = SchemaRegistry().validator("write_claim_v1")
        shipped_tools = builtins(
            data, self._clock, write_claim=claim, client=self._client, fetch_hosts=hosts, fetch_private=private
        )
        folder = self._settings.workspace
        makers: dict[str, Maker] = {
            "python": _ready(make_python),
            "builtin": _ready(make_builtin, shipped_tools),
            "http": _ready(make_http, self._client, secret),
            "subprocess": _ready(make_subprocess, folder, data, secret, self._settings.data_dir),
        }
        if mcp is not None:
            makers["mcp"] = mcp
        return await build(workspace, makers, root=data)

    async def _mcp(
        self, workspace: CompiledWorkspace, private: frozenset[str], hosts: frozenset[str],
        secret: Callable[[str], str | None],
    ) -> Maker:  # fmt: skip
        # Imported on first use: most workspaces have no such server, and the start is quicker for it.
        await asyncio.to_thread(importlib.import_module, "app.tools.kinds.mcp")
        from app.tools.kinds.mcp import make_mcp, offers_of, server_of
        from app.tools.kinds.mcp_sessions import Sessions

        sessions = self._sessions.get(workspace.digest)
        if sessions is None:
            sessions = self._sessions[workspace.digest] = {
                name: Sessions(server_of(named, private, hosts), self._client, secret)
                for name, named in workspace.mcp_servers.items()
            }
        return partial(make_mcp, sessions=sessions, offered=await offers_of(workspace, sessions))

    async def close(self) -> None:
        for sessions in self._sessions.values():
            await asyncio.gather(*(one.close() for one in sessions.values()))


async def mcp_tools(workspace: CompiledWorkspace, name: str, client: HttpClient) -> list[str] | Failure:
    """The tools that an MCP server offers now, for whoever checks a workspace without serving it."""
    from app.tools.kinds.mcp import McpServer, server_of
    from app.tools.kinds.mcp_sessions import Sessions

    outgoing = workspace.runtime.outgoing
    server = server_of(workspace.mcp_servers[name], frozenset(outgoing.private), frozenset(outgoing.hosts))
    sessions = Sessions(server, client, _secrets_of(workspace))
    try:
        offers = await McpServer(sessions).offers()
    finally:
        await sessions.close()
    return offers if isinstance(offers, Failure) else [offer.name for offer in offers]


def _ready(make: Callable[..., Tool | Failure], *arguments: Any) -> Maker:
    """A maker that has nothing to wait for."""

    async def maker(declared: CompiledTool, workspace: CompiledWorkspace) -> Tool | Failure:
        return make(declared, workspace, *arguments)

    return maker

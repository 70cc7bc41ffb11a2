"""The composition root: the only place that names a kind and knows which part serves which port."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

import structlog

from app.backends.contract import Backend
from app.backends.kinds.echo import EchoBackend
from app.core.clock import Clock, SystemClock
from app.core.errors import HoldfastError
from app.core.principal import DEFAULT_TENANT
from app.core.schemas import SchemaRegistry
from app.core.settings import Settings
from app.events.catalog.ledger import WorkspaceLoaded, WorkspaceRejected
from app.events.hub import Hub
from app.events.ports import StorageBroken
from app.events.recorder import Recorder, Redactor
from app.policy.redaction import Redaction
from app.runtime.executor import Executor
from app.runtime.ledger import Ledger
from app.runtime.service import Service
from app.runtime.workspaces import CurrentWorkspace, WorkspaceHistory, WorkspaceStatus
from app.store.broken import StopsWhenBroken
from app.store.engine import Database
from app.store.folder import DataFolder
from app.store.leases import Leases
from app.store.log import Log
from app.store.migrate import migrate
from app.store.reader import StoreReader
from app.store.retention import Retention
from app.store.workspaces import WorkspaceArchive
from app.workspace.catalog import shipped_catalog

DRAIN_SECONDS = 30.0

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
        await migrate(settings)
        database = open_database(settings)
        hub = Hub()
        event_log = Log(database, clock, hub.publish, settings.max_pending_events)
        leases = Leases(database)
        if not settings.is_postgres:
            await leases.expire_all()
        event_log.start()
        recorder = Recorder(event_log, clock, SchemaRegistry(), redactor or Redaction())
        retention = Retention(database, clock, settings.retention_deleted_days)
        try:
            yield Store(settings, database, folder, hub, event_log, StoreReader(database), leases, retention, recorder)
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
    executor: Executor


@contextlib.asynccontextmanager
async def open_holdfast(
    settings: Settings,
    *,
    clock: Clock | None = None,
    backends: Mapping[str, Backend] | None = None,
) -> AsyncIterator[Holdfast]:
    """`backends` replaces the kinds that ship, for whoever embeds the server with its own."""
    clock = clock or SystemClock()
    kinds: Mapping[str, Backend] = backends or {"echo": EchoBackend()}
    catalog = shipped_catalog()
    async with open_store(settings, clock=clock) as store:
        ledger = Ledger(store.recorder)
        workspace = CurrentWorkspace(
            settings.workspace,
            catalog,
            clock,
            profile=settings.profile,
            on_loaded=lambda status: ledger.record(DEFAULT_TENANT, _loaded(workspace, status)),
            on_rejected=lambda status: ledger.record(DEFAULT_TENANT, _rejected(status)),
        )
        if (await workspace.reload()).digest is None:
            raise HoldfastError("WORKSPACE_INVALID", _first_mistakes(workspace.status))
        history = WorkspaceHistory(workspace, catalog, WorkspaceArchive(store.database))
        executor = Executor(
            store.recorder, store.reader, store.reader, store.leases, kinds, history, settings.max_concurrent_runs
        )
        service = Service(store.recorder, store.reader, clock, history, kinds, executor.wake, executor.stop)
        executor.start()
        stop_watching = asyncio.Event()
        watching = asyncio.create_task(workspace.watch(stop_watching))
        try:
            yield Holdfast(store, workspace, kinds, service, executor)
        finally:
            stop_watching.set()
            await watching
            await executor.drain(DRAIN_SECONDS)
            store.hub.close_all()


def _loaded(workspace: CurrentWorkspace, status: WorkspaceStatus) -> WorkspaceLoaded:
    assert status.digest is not None
    return WorkspaceLoaded(
        digest=status.digest, agents=len(workspace.current.agents), warnings=status.diagnostics.as_json() or None
    )


def _rejected(status: WorkspaceStatus) -> WorkspaceRejected:
    assert status.rejected is not None
    return WorkspaceRejected(diagnostics=status.rejected.as_json(), kept_digest=status.digest)


def _first_mistakes(status: WorkspaceStatus) -> str:
    assert status.rejected is not None
    return "the workspace cannot be loaded:\n" + status.rejected.as_text(colour=False)

"""The store with what reads and writes it, opened in order and closed in the opposite one."""

import contextlib
import os
import shutil
from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING

import structlog

from app.bus.relay import Relay
from app.core.clock import Clock, SystemClock
from app.core.schemas import SchemaRegistry
from app.core.settings import Settings
from app.core.value import value
from app.events.hub import Hub
from app.events.ports import StorageBroken, StorageFull
from app.events.recorder import Recorder, Redactor
from app.policy.redaction import LogRedaction
from app.runtime.intake.keys import Keys
from app.runtime.intake.ledger import Ledger
from app.store.broken import StopsWhenBroken
from app.store.engine import Database
from app.store.folder import DataFolder, FolderUnusable
from app.store.health import WatchedDatabase
from app.store.keys import StoredKeys
from app.store.leases import LeaseTable
from app.store.log import HOT_THREADS, Log
from app.store.migrate import migrate
from app.store.pooler import check_pooler
from app.store.privacy import open_privately, tighten
from app.store.reader import StoreReader
from app.store.retention import RetentionPurge

if TYPE_CHECKING:
    from app.store.standby import StandbyDatabase

_POSTGRES_PATIENCE = 1.9
"""Seconds that a caller waits for its commit: within two it is answered."""
_SQLITE_PATIENCE = 10.0
"""A slow sync of the own disk is no outage; giving up would cut off runs for nothing."""
_ROOM_BYTES = 1024 * 1024
_HOT_THREADS_PER_RUN = 2
"""Each run at work has its thread in memory, and as many that have just ended may go on."""

log = structlog.get_logger("holdfast.wiring")


def die(broken: StorageBroken) -> None:
    """After a failed sync nobody knows what the disk holds. Stop at once; the log says on restart what is there."""
    log.critical("storage.broken", code=broken.code, remedy=broken.remedy)
    os._exit(74)


def open_database(settings: Settings) -> Database:
    return StopsWhenBroken(_open_database(settings), die)


def _open_standby(settings: Settings, primary: Database) -> "StandbyDatabase | None":
    if settings.database_read_url is None:
        return None
    from app.store.postgres import PostgresDatabase
    from app.store.standby import StandbyDatabase

    pooled = settings.database_direct_url is not None
    standby = PostgresDatabase(settings.database_read_url, lent=pooled)
    return StandbyDatabase(primary, standby, settings.read_staleness_seconds)


def _open_database(settings: Settings) -> Database:
    if settings.is_postgres:
        from app.store.postgres import PostgresDatabase

        assert settings.database_url is not None
        return PostgresDatabase(settings.database_url, lent=settings.database_direct_url is not None)
    from app.store.sqlite import SqliteDatabase

    return SqliteDatabase(settings.sqlite_path)


@value(frozen=True, slots=True)
class Store:
    """The log with what reads it: enough for the command line and for tests of the spine."""

    settings: Settings
    database: Database
    folder: DataFolder
    hub: Hub
    relay: Relay
    """What the log publishes to, on its way to the hub."""
    log: Log
    reader: StoreReader
    leases: LeaseTable
    retention: RetentionPurge
    recorder: Recorder
    health: WatchedDatabase
    """The database again, asked whether it takes writes."""
    standby: "StandbyDatabase | None" = None
    """What answers some reads, where the settings name one."""


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
        if settings.is_postgres:
            await check_pooler(settings)
        await migrate(settings)
        tighten(settings.data_dir)  # what the migration made
        primary = open_database(settings)
        standby = _open_standby(settings, primary)
        database = WatchedDatabase(standby or primary, clock, partial(_has_room, settings))
        hub, reader = Hub(), StoreReader(database)
        relay = Relay(hub, reader)
        patience = _POSTGRES_PATIENCE if settings.is_postgres else _SQLITE_PATIENCE
        publish = relay.publish if settings.is_postgres else hub.publish
        hot_threads = max(HOT_THREADS, _HOT_THREADS_PER_RUN * settings.max_concurrent_runs)
        event_log = Log(database, clock, publish, settings.max_pending_events, patience, hot_threads)
        leases = LeaseTable(database)
        if not settings.is_postgres:
            with contextlib.suppress(StorageFull):  # then reads are served, and the leases run out by themselves
                await leases.expire_all()
        event_log.start()
        if standby is not None:
            standby.start()
        recorder = Recorder(event_log, clock, SchemaRegistry(), redactor or LogRedaction())
        retention = RetentionPurge(database, clock, settings.retention_deleted_days)
        try:
            yield Store(
                settings,
                database,
                folder,
                hub,
                relay,
                event_log,
                reader,
                leases,
                retention,
                recorder,
                database,
                standby,
            )
        finally:
            await event_log.close()
            await database.close()
    finally:
        folder.release()


def open_keys(store: Store, clock: Clock) -> Keys:
    return Keys(Ledger(store.recorder), StoredKeys(store.database), clock)

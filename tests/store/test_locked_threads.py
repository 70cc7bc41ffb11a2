"""A server that stands still with rows locked holds up nobody but who needs those rows."""

import asyncio
import contextlib
import zlib
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from app.core.principal import DEFAULT_TENANT
from app.core.settings import Settings
from app.events.catalog.thread import ThreadCreated
from app.events.ports import Appended
from app.events.recorder import Scope
from app.store.engine import Locked
from app.wiring import store as wiring
from app.wiring.store import Store, open_store
from tests.databases import create_database
from tests.faults.load import Producer
from tests.patience import SERVED
from tests.postgres import PostgresServer
from tests.server import secret_file
from tests.waiting import until


@pytest.fixture
async def on_postgres(postgres_server: PostgresServer, request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    name = f"locked_{zlib.crc32(request.node.name.encode())}"
    await create_database(postgres_server, name)
    return Settings(database_url=postgres_server.url(name), secret_file=secret_file(tmp_path))


@contextlib.asynccontextmanager
async def _locked(settings: Settings, sql: str, *params: object) -> AsyncIterator[None]:
    """As a server that was suspended inside a transaction leaves it."""
    assert settings.database_url is not None
    connection = await asyncpg.connect(settings.database_url)
    try:
        transaction = connection.transaction()
        await transaction.start()
        await connection.fetch(sql, *params)
        yield
    finally:
        await connection.close()


async def _create(store: Store, thread_id: str) -> bool:
    answer = await store.recorder.record(Scope(DEFAULT_TENANT, thread_id), ThreadCreated())
    return isinstance(answer, Appended)


@pytest.mark.requirement("PX-4")
async def test_a_locked_thread_waits_alone_and_its_command_goes_through_when_it_is_free(
    on_postgres: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wiring, "_POSTGRES_PATIENCE", 60.0)  # whoever waited for it would find that it gave up
    async with open_store(on_postgres) as store:
        scope = await Producer(store.recorder, lambda event: None).begin()
        lock = "SELECT 1 FROM threads WHERE id = $1 FOR UPDATE"
        async with _locked(on_postgres, lock, scope.thread_id):
            stuck = asyncio.ensure_future(store.recorder.record_delta(scope, "agent.output.delta", "msg_1", 0, "late"))
            assert await _create(store, "thr_other"), "it was in the batch of the locked one, or came after it"
            await until(lambda: len(store.log._parked) == 1)
            for n in range(20):
                assert await _create(store, f"thr_more_{n}")
            assert not stuck.done(), "nobody waits for the locked thread"
        assert isinstance(await stuck, Appended)


async def test_a_command_whose_thread_stays_locked_is_refused_in_time(
    on_postgres: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 1.0 < SERVED < 2.0
    monkeypatch.setattr(wiring, "_POSTGRES_PATIENCE", SERVED)
    async with open_store(on_postgres) as store:
        assert await _create(store, "thr_a")
        async with _locked(on_postgres, "SELECT 1 FROM threads WHERE id = $1 FOR UPDATE", "thr_a"):
            async with asyncio.timeout(30):
                with pytest.raises(Locked):
                    await store.recorder.record(Scope(DEFAULT_TENANT, "thr_a"), ThreadCreated())
        assert not await _create(store, "thr_a"), "the thread exists, and the log works on"


@pytest.mark.requirement("PX-4")
async def test_leases_are_renewed_in_one_statement_past_those_that_are_locked(on_postgres: Settings) -> None:
    async with open_store(on_postgres) as store:
        scopes = [await Producer(store.recorder, lambda event: None).begin() for _ in range(5)]
        held = [(DEFAULT_TENANT, scope.run_id or "", 1) for scope in scopes]
        async with _locked(on_postgres, "SELECT 1 FROM leases WHERE run_id = $1 FOR UPDATE", scopes[0].run_id):
            kept = await store.leases.renew([*held, (DEFAULT_TENANT, scopes[1].run_id or "", 2)], 30)
        assert kept == {(tenant, run_id) for tenant, run_id, _ in held}
        assert await store.leases.renew([(DEFAULT_TENANT, "run_unknown", 1)] * 2, 30) == set()

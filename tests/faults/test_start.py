"""Starting up: migrations at once, cut off, too new; a data folder that somebody else holds."""

import asyncio
import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import zlib
from pathlib import Path

import asyncpg
import pytest

from app.core.settings import Settings
from app.events.ports import StorageDown
from app.store import migration_turn
from app.store.folder import FolderLocked
from app.store.migrate import NEWEST, SchemaNewer, migrate
from app.store.migration_turn import MigrationLocked
from app.wiring.store import open_store
from tests.databases import create_database
from tests.faults.processes import ROOT, flags, serving, started
from tests.faults.replicas.proxy import FaultyProxy
from tests.postgres import PostgresServer, empty_settings
from tests.server import secret_file

_MIGRATE = "tests.faults.migrator"


@pytest.fixture(params=["sqlite", "postgres"])
async def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """A place for a database in which nothing is yet."""
    if request.param == "sqlite":
        return Settings(data_dir=tmp_path)
    server: PostgresServer = request.getfixturevalue("postgres_server")
    name = f"empty_{zlib.crc32(request.node.name.encode())}"
    admin = await asyncpg.connect(server.url("postgres"))
    await admin.execute(f"CREATE DATABASE {name}")
    await admin.close()
    return Settings(data_dir=tmp_path, database_url=server.url(name), secret_file=secret_file(tmp_path))


async def _state(settings: Settings) -> tuple[int, str | None]:
    """How many tables of ours there are, and the revision that the database claims to have."""
    if not settings.is_postgres:
        if not settings.sqlite_path.exists():
            return 0, None
        connection = sqlite3.connect(settings.sqlite_path)
        names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        revision = connection.execute("SELECT version_num FROM alembic_version").fetchone() if names else None
        connection.close()
        return len(names - {"sqlite_sequence"}), revision[0] if revision else None
    assert settings.database_url is not None
    database = await asyncpg.connect(settings.database_url)
    names = {row[0] for row in await database.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")}
    found: str | None = await database.fetchval("SELECT version_num FROM alembic_version") if names else None
    await database.close()
    return len(names), found


@pytest.mark.requirement("G20")
async def test_replicas_that_start_together_migrate_an_empty_database_once(empty: Settings) -> None:
    async with started(_MIGRATE, *flags(empty)) as one, started(_MIGRATE, *flags(empty)) as other:
        await asyncio.gather(one.line("ready"), other.line("ready"))
        await asyncio.gather(one.send("go"), other.send("go"))
        codes = [await one.end(), await other.end()]
        if empty.is_postgres or codes == [0, 0]:
            assert codes == [0, 0], one.said + other.said
        else:  # the folder's lock lets one of them in at a time
            assert sorted(codes) == [0, 1] and "DATA_DIR_LOCKED" in one.said + other.said
    assert (await _state(empty))[1] == NEWEST
    async with open_store(empty):
        pass


@pytest.mark.requirement("G20")
@pytest.mark.parametrize(
    "kills", [2, pytest.param(25, marks=[pytest.mark.faults, pytest.mark.timeout(600)])], ids="{}-kills".format
)
async def test_a_migration_that_is_killed_leaves_all_or_nothing(empty: Settings, kills: int) -> None:
    chance = random.Random(7)
    for _ in range(kills):
        await _wipe(empty)
        async with started(_MIGRATE, *flags(empty)) as child:
            await child.line("ready")
            await child.send("go")
            await asyncio.sleep(chance.uniform(0.0, 0.3))  # the random moment is the fault itself
            child.signal(signal.SIGKILL)
            await child.end()
        left = await _state(empty)
        await migrate(empty)
        whole = await _state(empty)
        assert whole[1] == NEWEST and left in ((0, None), whole)
    async with open_store(empty):
        pass


async def _wipe(settings: Settings) -> None:
    if settings.database_url is None:
        for file in settings.data_dir.glob("holdfast.db*"):
            file.unlink()
        return
    database = await asyncpg.connect(settings.database_url)
    await database.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    await database.close()


@pytest.mark.requirement("G20")
@pytest.mark.parametrize("way", [[], ["--one-by-one"]], ids=["at-once", "one-by-one"])
async def test_a_migration_that_is_killed_before_its_commit_leaves_nothing(empty: Settings, way: list[str]) -> None:
    async with started(_MIGRATE, *flags(empty), "--die-before-commit", *way) as child:
        await child.line("ready")
        await child.send("go")
        assert await child.end() == -signal.SIGKILL, child.said
    assert await _state(empty) == (0, None)
    await migrate(empty)
    assert (await _state(empty))[1] == NEWEST


async def _set(settings: Settings, *statements: str) -> None:
    if settings.is_postgres:
        assert settings.database_url is not None
        database = await asyncpg.connect(settings.database_url)
        await database.execute(";".join(statements))
        await database.close()
    else:
        with contextlib.closing(sqlite3.connect(settings.sqlite_path)) as connection:
            connection.executescript(";".join(statements))


_NEWER = "UPDATE alembic_version SET version_num = '9999'"


@pytest.mark.requirement("G20")
async def test_a_newer_database_that_supports_this_version_is_used_and_not_migrated(settings: Settings) -> None:
    await _set(settings, _NEWER)
    before = await _state(settings)
    async with open_store(settings):
        pass
    assert await _state(settings) == before


@pytest.mark.requirement("G20")
async def test_a_database_that_no_longer_supports_this_version_is_refused_and_left_alone(settings: Settings) -> None:
    await _set(settings, _NEWER, "UPDATE schema_support SET oldest = '9998'")
    before = await _state(settings)
    with pytest.raises(SchemaNewer) as refused:
        async with open_store(settings):
            pass
    assert refused.value.code == "SCHEMA_NEWER"
    assert "revision 9999 and is for versions that know revision 9998 or newer" in str(refused.value.failure.message)
    command = [sys.executable, "-m", "app.main", "serve", "--port", "0", *flags(settings)]
    ended = await asyncio.to_thread(
        subprocess.run,
        command,
        cwd=ROOT,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.returncode == 1 and "SCHEMA_NEWER" in ended.stderr
    assert await _state(settings) == before


@pytest.mark.requirement("G20")
async def test_a_data_folder_in_use_is_refused_and_free_again_after_a_kill(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    async with serving(settings) as (server, _):
        with pytest.raises(FolderLocked) as refused:
            async with open_store(settings):
                pass
        assert refused.value.code == "DATA_DIR_LOCKED"
        await server.kill()
    async with open_store(settings):
        pass


@pytest.mark.requirement("G20")
async def test_a_server_does_not_wait_for_ever_for_another_one_to_migrate(
    postgres_server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migration_turn, "WAIT_SECONDS", 0.2)
    empty = await empty_settings(postgres_server, "turns", tmp_path)
    suspended = await asyncpg.connect(empty.database_url)  # a server that was stopped in the middle
    try:
        await migration_turn.take_turn(suspended)
        with pytest.raises(MigrationLocked) as refused:
            await migrate(empty)
        number = await suspended.fetchval("SELECT pg_backend_pid()")
        assert refused.value.code == "MIGRATION_LOCKED" and refused.value.failure.retryable
        assert f"Postgres calls {number}, from 127.0.0.1, connected for " in refused.value.failure.message
        assert await _state(empty) == (0, None)
        await _set(empty, f"SELECT pg_terminate_backend({number}, 30000)")  # the remedy
        await migrate(empty)
    finally:
        suspended.terminate()
    assert (await _state(empty))[1] == NEWEST


async def test_a_server_that_waits_for_its_turn_to_migrate_says_so_when_the_database_goes(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    empty = await empty_settings(postgres_server, "lost_turns", tmp_path)
    migrating = await asyncpg.connect(empty.database_url)
    try:
        await migration_turn.take_turn(migrating)
        waiting = asyncio.create_task(migrate(empty))
        waits = "SELECT pg_terminate_backend(pid, 30000) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        async with asyncio.timeout(30):
            while not await migrating.fetchval(waits):  # Postgres has no event for it
                await migrating.execute("SELECT pg_sleep(0.02)")
        with pytest.raises(StorageDown):
            await waiting
    finally:
        migrating.terminate()


async def test_a_server_waits_for_a_database_that_does_not_answer_yet(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    """As in a fail-over: whoever starts servers would wait ever longer after each one that gave up."""
    await create_database(postgres_server, "late_database")
    proxy = await FaultyProxy(postgres_server.port).start()
    proxy.freeze()
    url = f"postgresql://postgres@127.0.0.1:{proxy.port}/late_database"
    variables = {"HOLDFAST_SECRET_FILE": str(secret_file(tmp_path))}
    arguments = ["serve", "--port", "0", "--data-dir", str(tmp_path), "--database-url", url]
    try:
        async with started("app.main", *arguments, variables=variables) as child:
            while "start.waits" not in await child.line("{", 60):
                pass
            proxy.thaw()
            await child.line("listening on ", 60)
    finally:
        await proxy.close()


async def test_a_server_does_not_wait_for_a_database_that_refuses_it(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    """A wrong URL is said at once."""
    url = postgres_server.url("there_is_no_such_database")
    variables = {"HOLDFAST_SECRET_FILE": str(secret_file(tmp_path))}
    arguments = ["serve", "--port", "0", "--data-dir", str(tmp_path), "--database-url", url]
    async with started("app.main", *arguments, variables=variables) as child:
        assert await child.end() == 1
        assert "STORAGE_DOWN" in child.said and "start.waits" not in child.said

"""What many tests need: both databases, real ones, each test with a fresh one of its own."""

import asyncio
import itertools
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest

from app.core.settings import Settings
from app.store import postgres, sqlite
from app.store.migrate import migrate
from tests.postgres import PostgresServer, running_postgres
from tests.server import secret_file

# A machine that runs many tests at once stalls for seconds. What the time limit does is shown with servers of their own
# (tests/faults/test_frozen_database.py); everywhere else it must not decide a test.
for database in (postgres, sqlite):
    database.ANSWER_SECONDS = 10.0  # type: ignore[attr-defined]  # a constant, for everybody else

_names = itertools.count(1)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One real Postgres for the test session, from the development dependencies; no system install.

    Nothing here outlives a power cut, so it does not sync; the fault tests have servers of their own that do.
    """
    with running_postgres(fsync=False) as server:
        yield server


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty SQLite database, migrated once per session; a copy of it is a fresh one."""
    made = Settings(data_dir=tmp_path_factory.mktemp("migrated"))
    asyncio.run(migrate(made))
    return made.sqlite_path


@pytest.fixture(params=["sqlite", "postgres"])
async def settings(request: pytest.FixtureRequest, tmp_path: Path, migrated_file: Path) -> AsyncIterator[Settings]:
    """A migrated, empty database; every test that takes this runs on both kinds."""
    if request.param == "sqlite":
        made = Settings(data_dir=tmp_path / "data")
        made.data_dir.mkdir()
        shutil.copy(migrated_file, made.sqlite_path)
        yield made
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    name = f"test_{next(_names)}"
    await create_database(server, name)
    shared = secret_file(tmp_path)
    made = Settings(data_dir=tmp_path / "data", database_url=server.url(name), secret_file=shared)
    made.data_dir.mkdir()
    yield made


async def create_database(server: PostgresServer, name: str) -> None:
    """Copies a template that is migrated once per session: much faster than migrating each time."""
    admin = await asyncpg.connect(server.url("postgres"))
    try:
        if not await admin.fetchval("SELECT 1 FROM pg_database WHERE datname = 'template_holdfast'"):
            await admin.execute("CREATE DATABASE template_holdfast")
            await migrate(Settings(database_url=server.url("template_holdfast")))
        await admin.execute(f"CREATE DATABASE {name} TEMPLATE template_holdfast")
    finally:
        await admin.close()


# The agent frameworks are in an environment of their own (`make test-extras`); there these tests are never left out.
collect_ignore = [] if Path(sys.prefix).name == "extras" else ["adapters"]

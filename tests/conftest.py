"""What many tests need: both databases, real ones, each test with a fresh one of its own."""

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from app.core.settings import Settings
from app.store import postgres, postgres_session, sqlite
from app.store.migrate import migrate
from tests.databases import Databases
from tests.postgres import PostgresServer, running_postgres
from tests.server import secret_file

# A machine that runs many tests at once stalls for seconds. What the time limit does is shown with servers of their own
# (tests/faults/test_frozen_database.py); everywhere else it must not decide a test.
for database in (postgres, postgres_session, sqlite):
    database.ANSWER_SECONDS = 10.0  # type: ignore[attr-defined]  # a constant, for everybody else


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One real Postgres for the test session, from the development dependencies; no system install.

    Nothing here outlives a power cut, so it does not sync; the fault tests have servers of their own that do.
    """
    with running_postgres(fsync=False) as server:
        yield server


@pytest.fixture(scope="session")
def databases(postgres_server: PostgresServer) -> Databases:
    return Databases(postgres_server)


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
    databases: Databases = request.getfixturevalue("databases")
    name = await databases.take()
    shared = secret_file(tmp_path)
    made = Settings(data_dir=tmp_path / "data", database_url=server.url(name), secret_file=shared)
    made.data_dir.mkdir()
    yield made
    await databases.give_back(name)


# The agent frameworks are in an environment of their own (`make test-extras`); there these tests are never left out.
collect_ignore = [] if Path(sys.prefix).name == "extras" else ["adapters"]

"""What many tests need: both databases, real ones, each test with a fresh one of its own."""

import asyncio
import gc
import logging
import os
import shutil
import sys
import threading
import warnings
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import hypothesis
import pytest
import structlog
from httpx2._config import DEFAULT_TIMEOUT_CONFIG

from app.core.settings import Settings
from app.store.migrate import migrate
from tests.certificates import read_once
from tests.clients import close_at_once
from tests.databases import Databases
from tests.patience import be_patient
from tests.postgres import PostgresServer, running_postgres
from tests.server import secret_file
from tests.shaking import shake

be_patient()
shake()
close_at_once()

# Nor may the five seconds that clients give an answer.
for limit in ("connect", "read", "write", "pool"):
    setattr(DEFAULT_TIMEOUT_CONFIG, limit, 30.0)

# Nor may the time of one example: a stalled machine would fail it. Examples are the same in every run of CI, so that it
# judges the change and not its luck; everywhere else each run draws others.
hypothesis.settings.register_profile("patient", deadline=None, derandomize=bool(os.environ.get("CI")))
hypothesis.settings.load_profile("patient")

read_once()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Thousands of tests are permanent: the garbage collector looks through them neither now nor later. It looks for
    what they leave behind as rarely as a server does."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 50)
        gc.enable()


@pytest.fixture(autouse=True)
def log_as_before() -> Iterator[None]:
    """A command called inside a test sets up the log of its process, which is ours; the next test has the old one."""
    root, structured = logging.getLogger(), structlog.get_config()
    structured["processors"] = list(structured["processors"])
    handlers, level, ours, showwarning = root.handlers, root.level, logging.getLogger("app").level, warnings.showwarning
    hooks = (sys.excepthook, threading.excepthook, sys.unraisablehook)
    yield
    structlog.configure(**structured)
    if warnings.showwarning is not showwarning:
        logging.captureWarnings(False)
        warnings.showwarning = showwarning
    root.handlers, logging.raiseExceptions = handlers, True
    root.setLevel(level)
    logging.getLogger("app").setLevel(ours)
    sys.excepthook, threading.excepthook, sys.unraisablehook = hooks


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One real Postgres for the test session, from the development dependencies; no system install.

    Nothing here outlives a power cut, so it does not sync; the fault tests have servers of their own that do.
    """
    with running_postgres(fsync=False) as server:
        yield server


@pytest.fixture(scope="session")
def databases(postgres_server: PostgresServer) -> Iterator[Databases]:
    opened = Databases(postgres_server)
    yield opened
    opened.close()


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

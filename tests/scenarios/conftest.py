"""One real server per database: scenarios use threads of their own. At the end the log must explain the tables."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator

import httpx2
import pytest

from app.core.settings import Settings
from tests.databases import create_database
from tests.postgres import PostgresServer
from tests.scenarios import cycles, dialects, flows
from tests.scenarios.proof import assert_replay_equals_tables
from tests.scenarios.team import make_workspace
from tests.server import ServerProcess, secret_file

_names = itertools.count(1)


def _empty_database(kind: str, request: pytest.FixtureRequest, folders: pytest.TempPathFactory) -> Settings:
    folder = folders.mktemp("scenario")
    if kind == "sqlite":
        return Settings(data_dir=folder)
    postgres: PostgresServer = request.getfixturevalue("postgres_server")
    name = f"scenario_{next(_names)}"
    with asyncio.Runner() as runner:
        runner.run(create_database(postgres, name))
    return Settings(data_dir=folder, database_url=postgres.url(name), secret_file=secret_file(folder))


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def settings(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """For servers inside the test: one database per module and kind."""
    return _empty_database(request.param, request, tmp_path_factory)


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    settings = _empty_database(request.param, request, tmp_path_factory)
    server = ServerProcess.start(settings.data_dir, settings.database_url)
    try:
        yield server
        with asyncio.Runner() as runner:
            runner.run(assert_replay_equals_tables(server.url))
    finally:
        server.stop()


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def team_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The server with the workspace of the fifth source's example."""
    settings = _empty_database(request.param, request, tmp_path_factory)
    workspace = make_workspace(tmp_path_factory.mktemp("team") / "workspace")
    server = ServerProcess.start(settings.data_dir, settings.database_url, workspace)
    try:
        yield server
        with asyncio.Runner() as runner:
            runner.run(assert_replay_equals_tables(server.url))
    finally:
        server.stop()


@pytest.fixture
async def team(team_server: ServerProcess) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=team_server.url, timeout=60, verify=False) as client:
        yield client


@pytest.fixture
async def client(server: ServerProcess) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=server.url, timeout=60, verify=False) as client:
        yield client


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def flow_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The server with the workspace of workflows; its ledger is a file in its data folder."""
    settings = _empty_database(request.param, request, tmp_path_factory)
    workspace = flows.make_workspace(tmp_path_factory.mktemp("flows") / "workspace")
    ledger = {"FLOW_LEDGER": str(settings.data_dir / flows.LEDGER)}
    server = ServerProcess.start(settings.data_dir, settings.database_url, workspace, ledger)
    try:
        yield server
        with asyncio.Runner() as runner:
            runner.run(assert_replay_equals_tables(server.url))
    finally:
        server.stop()


@pytest.fixture
async def flow(flow_server: ServerProcess) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=flow_server.url, timeout=60, verify=False) as client:
        yield client


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def cycle_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The server with the example of a cycle and the cycles of the tests."""
    settings = _empty_database(request.param, request, tmp_path_factory)
    workspace = cycles.make_workspace(tmp_path_factory.mktemp("cycles") / "workspace")
    server = ServerProcess.start(settings.data_dir, settings.database_url, workspace)
    try:
        yield server
        with asyncio.Runner() as runner:
            runner.run(assert_replay_equals_tables(server.url))
    finally:
        server.stop()


@pytest.fixture
async def cycle(cycle_server: ServerProcess) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=cycle_server.url, timeout=60, verify=False) as client:
        yield client


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def dialect_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The server with the workspace for clients of other protocols."""
    settings = _empty_database(request.param, request, tmp_path_factory)
    workspace = dialects.make_workspace(tmp_path_factory.mktemp("dialects") / "workspace")
    patience = {"HOLDFAST_PERSON_WAIT_SECONDS": dialects.PERSON_WAIT}
    server = ServerProcess.start(settings.data_dir, settings.database_url, workspace, patience)
    try:
        yield server
        with asyncio.Runner() as runner:
            runner.run(assert_replay_equals_tables(server.url))
    finally:
        server.stop()

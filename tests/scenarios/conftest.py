"""One real server per module and database; when its module is done, the log must explain the tables."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator

import httpx2
import pytest

from tests.conftest import create_database
from tests.postgres import PostgresServer
from tests.scenarios.proof import assert_replay_equals_tables
from tests.server import ServerProcess

_names = itertools.count(1)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    url: str | None = None
    if request.param == "postgres":
        postgres: PostgresServer = request.getfixturevalue("postgres_server")
        name = f"scenario_{next(_names)}"
        with asyncio.Runner() as runner:
            runner.run(create_database(postgres, name))
        url = postgres.url(name)
    server = ServerProcess.start(tmp_path_factory.mktemp("server"), url)
    try:
        yield server
        with asyncio.Runner() as runner:
            runner.run(assert_replay_equals_tables(server.url))
    finally:
        server.stop()


@pytest.fixture
async def client(server: ServerProcess) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=server.url, timeout=20, verify=False) as client:
        yield client
